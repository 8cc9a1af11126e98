"""The runner of one handler: takes messages, calls the handler, and settles by the outcome."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from litemq.client.consuming.consumer import Consumer
from litemq.client.extensions.plugins import Plugins
from litemq.client.handlers.batch import processing
from litemq.client.handlers.breaker import BreakerPeriod, HandlerBreaker, HandlerState
from litemq.client.handlers.call import HandlerCalls
from litemq.client.handlers.failure_log import log_failure
from litemq.client.handlers.subscription import Subscription
from litemq.client.messages.message import Message
from litemq.client.settling.retry_policy import Retry

__all__ = ["Runner"]

_LOG = logging.getLogger(__name__)
_LONG_WAIT_S: Final = 3600.0


class Runner:
    """Runs one handler until ``stop``, or until an error that concerns no single message."""

    def __init__(
        self,
        subscription: Subscription,
        consumer: Consumer,
        calls: HandlerCalls,
        plugins: Plugins,
        *,
        concurrency: int,
        on_call_end: Callable[[], None],
    ) -> None:
        self._subscription = subscription
        self._consumer = consumer
        self._calls = calls
        self._plugins = plugins
        self._on_call_end = on_call_end
        self._breaker = HandlerBreaker(subscription.breaker) if subscription.breaker is not None else None
        self._free = asyncio.Semaphore(concurrency)
        self._running: set[asyncio.Task[None]] = set()
        self._fetching: asyncio.Timeout | None = None
        self._changed = asyncio.Event()
        self._stopping = False
        self._error: BaseException | None = None

    @property
    def stuck(self) -> int:
        """Calls that exceeded their time limit and cannot be cancelled."""
        return self._calls.stuck

    def stop(self) -> None:
        """Take no more messages. ``run`` returns when the running calls have ended."""
        self._stopping = True
        self._changed.set()
        self._consumer.stop()

    async def run(self) -> None:
        """Take messages and call the handler.

        Cancelling this cancels the calls, and settles nothing.
        """
        try:
            while messages := await self._next():
                period = 0 if self._breaker is None else self._breaker.begin()
                task = asyncio.get_running_loop().create_task(self._handle(messages, period))
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

    # Taking ---------------------------------------------------------------------------------------

    async def _next(self) -> list[Message]:
        """Wait for a free slot and for messages. Return those of the next call; none at the end."""
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
            if messages := await self._consumer.take(self._subscription.batch, _LONG_WAIT_S):
                return messages
        return []

    async def _fill(self, messages: list[Message], limit: int) -> None:
        """Add messages up to ``limit``, as they arrive within ``batch_wait``."""
        until = asyncio.get_running_loop().time() + self._subscription.batch_wait
        while len(messages) < limit and (left := until - asyncio.get_running_loop().time()) > 0:
            more = await self._consumer.take(limit - len(messages), left)
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

    # Handling -------------------------------------------------------------------------------------

    async def _handle(self, messages: list[Message], period: BreakerPeriod) -> None:
        loop = asyncio.get_running_loop()
        began = loop.time()
        failure: Exception | None = None
        try:
            async with processing(messages):
                try:
                    await self._calls(messages)
                except Exception as error:
                    failure = error
                    await self._send_failure(messages, error)
                    raise
                await self._send_results(messages)
        except asyncio.CancelledError:
            if self._breaker is not None:
                self._breaker.forget(period)
            raise
        except Exception as error:  # noqa: BLE001  an error of one message does not end the runner
            if error is not failure:
                _LOG.warning("%s succeeded, but its message could not be settled: %s", self._subscription.name, error)
        if failure is None:
            self._record_outcome(period, failed=False)
            for message in messages:
                self._plugins.consumed(message, loop.time() - began)
        else:
            self._failed(messages, period, failure)

    async def _send_results(self, messages: list[Message]) -> None:
        if self._subscription.results is not None:
            for message in messages:
                await self._subscription.results.on_success(message)

    async def _send_failure(self, messages: list[Message], error: Exception) -> None:
        if self._subscription.results is not None:
            for message in messages:
                await self._subscription.results.on_failure(message, error, self._subscription.settle_policy)

    def _failed(self, messages: list[Message], period: BreakerPeriod, failure: Exception) -> None:
        log_failure(self._subscription, messages, failure)
        is_message_error = isinstance(failure, (Retry, *self._subscription.retry.throws))
        if is_message_error or any(message.undecodable is failure for message in messages):
            if self._breaker is not None:
                self._breaker.forget(period)
        else:
            self._record_outcome(period, failed=True)
        for message in messages:
            self._plugins.failed(message, failure)

    def _record_outcome(self, period: BreakerPeriod, *, failed: bool) -> None:
        breaker = self._breaker
        if breaker is None:
            return
        before = breaker.state
        now = asyncio.get_running_loop().time()
        if failed:
            breaker.failed(period, now)
        else:
            breaker.succeeded(period, now)
        if breaker.state is before:
            return
        self._changed.set()
        if breaker.state is HandlerState.PAUSED:
            _LOG.warning("%s fails too often: pausing it, then probing with one message", self._subscription.name)
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
        self._on_call_end()
