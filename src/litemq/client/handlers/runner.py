"""One handler at work: it takes messages, no more at a time than it may handle, and settles each by how its call ended."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from litemq.client.consuming.consumer import Consumer
from litemq.client.extensions.plugins import Plugins
from litemq.client.handlers.batch import processing
from litemq.client.handlers.breaker import BreakerTurn, HandlerBreaker, HandlerState
from litemq.client.handlers.call import HandlerCalls
from litemq.client.handlers.subscription import Subscription
from litemq.client.messages.message import Message
from litemq.client.settling.retry_policy import Retry

__all__ = ["Runner"]

_LOG = logging.getLogger(__name__)
_A_LONG_TIME_S: Final = 3600.0


class Runner:
    """Runs until it is stopped, or until something fails that is not a message's own affair."""

    def __init__(
        self,
        subscription: Subscription,
        consumer: Consumer,
        calls: HandlerCalls,
        plugins: Plugins,
        *,
        concurrency: int,
        ended: Callable[[], None],
    ) -> None:
        self._subscription = subscription
        self._consumer = consumer
        self._calls = calls
        self._plugins = plugins
        self._ended = ended  # told after each call
        self._breaker = HandlerBreaker(subscription.breaker) if subscription.breaker is not None else None
        self._free = asyncio.Semaphore(concurrency)
        self._running: set[asyncio.Task[None]] = set()
        self._fetching: asyncio.Timeout | None = None
        self._changed = asyncio.Event()
        self._stopping = False
        self._error: BaseException | None = None

    @property
    def stuck(self) -> int:
        """Calls that overran their time limit and cannot be stopped."""
        return self._calls.stuck

    def stop(self) -> None:
        """Take no more messages; ``run`` ends when the calls that run have ended."""
        self._stopping = True
        self._changed.set()
        self._consumer.stop()

    async def run(self) -> None:
        """Take messages and have them handled. Cancelling this cancels the calls, and settles nothing."""
        try:
            while messages := await self._next():
                turn = 0 if self._breaker is None else self._breaker.begin()
                task = asyncio.get_running_loop().create_task(self._handle(messages, turn))
                self._running.add(task)
                task.add_done_callback(self._done)
            if self._running:
                await asyncio.wait(self._running)
        finally:
            running = list(self._running)
            for task in running:
                task.cancel()
            await asyncio.gather(*running, return_exceptions=True)
        if self._error is not None:
            raise self._error

    # Taking -------------------------------------------------------------------------------------------------------------------

    async def _next(self) -> list[Message]:
        """What the next call is made with, once there is somebody to make it; nothing at the end."""
        await self._free.acquire()
        while not self._stopping:
            await self._wait_for_breaker()
            try:
                async with asyncio.timeout(None) as self._fetching:
                    messages = await self._first()
            except TimeoutError:
                continue  # the breaker opened meanwhile
            finally:
                self._fetching = None
            if messages and self._subscription.batch is not None:
                await self._fill(messages, self._subscription.batch)
            return messages
        return []

    async def _first(self) -> list[Message]:
        if self._subscription.batch is None:
            message = await anext(self._consumer, None)
            return [] if message is None else [message]
        while not self._stopping:
            if messages := await self._consumer.take(self._subscription.batch, _A_LONG_TIME_S):
                return messages
        return []

    async def _fill(self, messages: list[Message], most: int) -> None:
        """Wait a little for those that a batch still has room for."""
        until = asyncio.get_running_loop().time() + self._subscription.batch_wait
        while len(messages) < most and (left := until - asyncio.get_running_loop().time()) > 0:
            more = await self._consumer.take(most - len(messages), left)
            if not more:
                return
            messages += more

    async def _wait_for_breaker(self) -> None:
        loop = asyncio.get_running_loop()
        while self._breaker is not None and not self._stopping and (left := self._breaker.wait(loop.time())) != 0:
            self._changed.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(left):
                    await self._changed.wait()

    # Handling -----------------------------------------------------------------------------------------------------------------

    async def _handle(self, messages: list[Message], turn: BreakerTurn) -> None:
        loop = asyncio.get_running_loop()
        began = loop.time()
        failure: Exception | None = None
        try:
            async with processing(messages):
                try:
                    await self._calls(messages)
                except Exception as error:
                    failure = error
                    raise
        except asyncio.CancelledError:
            if self._breaker is not None:
                self._breaker.forget(turn)
            raise
        except Exception as error:  # noqa: BLE001  it is settled, and not for others to end with
            if error is not failure:
                _LOG.warning("%s has done its work, but that could not be settled: %s", self._subscription.name, error)
        if failure is None:
            self._judge(turn, failed=False)
            for message in messages:
                self._plugins.consumed(message, loop.time() - began)
        else:
            self._failed(messages, turn, failure)

    def _failed(self, messages: list[Message], turn: BreakerTurn, failure: Exception) -> None:
        if isinstance(failure, Retry):
            _LOG.debug("%s asks for another try", self._subscription.name)
        else:
            _LOG.warning("%s failed with %r", self._subscription.name, messages if len(messages) > 1 else messages[0], exc_info=failure)
        of_the_message = isinstance(failure, (Retry, *self._subscription.retry.throws))
        if of_the_message or any(message.undecodable is failure for message in messages):
            if self._breaker is not None:
                self._breaker.forget(turn)
        else:
            self._judge(turn, failed=True)
        for message in messages:
            self._plugins.failed(message, failure)

    def _judge(self, turn: BreakerTurn, *, failed: bool) -> None:
        breaker = self._breaker
        if breaker is None:
            return
        before = breaker.state
        now = asyncio.get_running_loop().time()
        if failed:
            breaker.failed(turn, now)
        else:
            breaker.succeeded(turn, now)
        if breaker.state is before:
            return
        self._changed.set()
        if breaker.state is HandlerState.PAUSED:
            _LOG.warning("%s fails too often: it pauses, and is then tried with one message", self._subscription.name)
            if self._fetching is not None:
                self._fetching.reschedule(0)
        else:
            _LOG.warning("%s works again", self._subscription.name)

    def _done(self, task: asyncio.Task[None]) -> None:
        self._running.discard(task)
        self._free.release()
        self._changed.set()
        if not task.cancelled() and (error := task.exception()) is not None and self._error is None:
            self._error = error
            self.stop()
        self._ended()
