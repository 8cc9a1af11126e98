"""The receiver behind ``mq.receive``: leases messages from all brokers of a topic, on demand.

A caller may be cancelled while brokers are still granting messages. Such messages are kept briefly
for the next caller, then returned.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import deque
from typing import Final, NamedTuple

from litemq.client.backoff import Backoff
from litemq.client.config import ClientConfig
from litemq.client.engine.engine import Engine, LeaseOptions
from litemq.client.leases.lease import Lease
from litemq.client.leases.leases import Leases
from litemq.client.messages.message import Message
from litemq.client.settling.ack_policy import SettlePolicy
from litemq.errors import (
    ConnectionLostError,
    LiteMQError,
    NotConfirmedError,
    NotMasterError,
    OverloadedError,
    RequestTimeoutError,
)

__all__ = ["Receiver"]

_LOG = logging.getLogger(__name__)
_MAX_BYTES: Final = 4 << 20
_BROKER_TIMEOUT_S: Final = 1.0  # per broker, if there are several
_TRANSIENT: Final = (ConnectionLostError, RequestTimeoutError, NotConfirmedError, NotMasterError, OverloadedError)
_KEPT_SECONDS: Final = 1.0  # how long spare messages wait for the next caller


class _Waiter(NamedTuple):
    future: asyncio.Future[list[tuple[Lease, Message]]]
    limit: int
    until: float


class Receiver:
    """Receives messages of one topic for one group, for all callers with the same options."""

    def __init__(
        self,
        engine: Engine,
        leases: Leases,
        topic: str,
        group: str,
        options: LeaseOptions,
        settle_policy: SettlePolicy,
        config: ClientConfig,
    ) -> None:
        self._engine = engine
        self._leases = leases
        self._topic = topic
        self._group = group
        self._options = options
        self._settle_policy = settle_policy
        self._config = config
        self._loop = asyncio.get_running_loop()
        self._brokers: list[str] = []
        self._route_at = -1e9
        self._spare: deque[tuple[Lease, Message]] = deque()
        self._giving_back: asyncio.TimerHandle | None = None
        self._waiting: deque[_Waiter] = deque()
        self._polls: dict[str, asyncio.Task[None]] = {}

    async def receive(self, limit: int, wait: float) -> list[Message]:
        """Return up to ``limit`` messages: those available, or the first in ``wait`` seconds."""
        if not self._spare:
            await self._find_brokers()
            if wait == 0 or len(self._brokers) > 1:
                await asyncio.shield(self._loop.create_task(self._ask_each_once(limit)))
            if not self._spare and wait:
                return await self._wait(limit, wait)
        return [message for _, message in self._take(limit)]

    # Requesting -----------------------------------------------------------------------------------

    async def _find_brokers(self) -> None:
        now = self._loop.time()
        if now < self._route_at + self._config.route_refresh_ms / 1000:
            return
        try:
            route = await self._engine.route(self._topic, create=not self._brokers)
        except LiteMQError as error:
            if not self._brokers or not error.retriable:
                raise
        else:
            self._brokers = [broker.name for broker in route.brokers]
        self._route_at = now

    async def _ask(self, broker: str, limit: int, wait_ms: int) -> int:
        """Request up to ``limit`` messages from ``broker`` as spare ones; return how many came."""
        lease = await self._leases.ask(
            broker,
            self._topic,
            self._group,
            self._options,
            self._settle_policy,
            self,
            max_messages=min(limit, self._config.max_poll_records),
            max_bytes=_MAX_BYTES,
            wait_ms=wait_ms,
        )
        if lease is None:
            return 0
        messages = list(lease.open)
        self._spare.extend((lease, message) for message in messages)
        self._serve()
        return len(messages)

    async def _ask_each_once(self, limit: int) -> None:
        """Request messages from one broker after another until there are enough.

        Each call starts with another broker, and skips those that do not answer in time.
        """
        self._brokers.append(self._brokers.pop(0))
        failures: list[LiteMQError] = []
        for broker in list(self._brokers):
            asking = self._loop.create_task(self._ask(broker, limit - len(self._spare), 0))
            asking.add_done_callback(lambda task: task.cancelled() or task.exception())
            await asyncio.wait([asking], timeout=_BROKER_TIMEOUT_S)
            if asking.done() and isinstance(error := asking.exception(), LiteMQError):
                failures.append(error)
            if len(self._spare) >= limit:
                return
        if failures and not self._spare and not isinstance(failures[0], _TRANSIENT):
            raise failures[0]

    async def _wait(self, limit: int, wait: float) -> list[Message]:
        waiter = _Waiter(self._loop.create_future(), limit, self._loop.time() + wait)
        self._waiting.append(waiter)
        for broker in self._brokers:
            if broker not in self._polls:
                self._polls[broker] = self._loop.create_task(
                    self._poll(broker), name=f"litemq receives {self._topic} from {broker}"
                )
        timer = self._loop.call_later(wait, self._give_up, waiter)
        try:
            return [message for _, message in await waiter.future]
        except asyncio.CancelledError:
            if waiter.future.cancelled():
                with contextlib.suppress(ValueError):  # it may have been served
                    self._waiting.remove(waiter)
            elif waiter.future.exception() is None:
                self._spare.extendleft(reversed(waiter.future.result()))
                self._serve()
            raise
        finally:
            timer.cancel()

    def _give_up(self, waiter: _Waiter) -> None:
        """End a wait without messages."""
        if not waiter.future.done():
            self._waiting.remove(waiter)
            waiter.future.set_result([])

    async def _poll(self, broker: str) -> None:
        """Request messages from ``broker`` as long as callers wait."""
        backoff = Backoff(self._config.retry_backoff_ms, self._config.max_retry_backoff_ms)
        try:
            while self._waiting:
                limit = sum(waiter.limit for waiter in self._waiting)
                left = max(waiter.until for waiter in self._waiting) - self._loop.time()
                wait_ms = min(round(left * 1000), self._config.fetch_wait_ms)
                try:
                    await self._ask(broker, limit, max(wait_ms, 0))
                    backoff.reset()
                except _TRANSIENT as error:
                    _LOG.info("leasing messages of %s from %s failed, retrying: %s", self._topic, broker, error)
                    await asyncio.sleep(
                        backoff.next_delay(error.retry_after_ms if isinstance(error, OverloadedError) else 0)
                    )
        except LiteMQError as error:
            while self._waiting:
                waiter = self._waiting.popleft()
                if not waiter.future.done():
                    waiter.future.set_exception(error)
        finally:
            del self._polls[broker]

    # Delivering -----------------------------------------------------------------------------------

    def _serve(self) -> None:
        """Give spare messages to the waiting callers, in order. Keep the rest briefly."""
        while self._waiting and self._spare:
            taken = self._take(self._waiting[0].limit)
            if taken:
                waiter = self._waiting.popleft()
                if waiter.future.done():
                    self._spare.extendleft(reversed(taken))
                else:
                    waiter.future.set_result(taken)
        if self._spare and self._giving_back is None:
            self._giving_back = self._loop.call_later(_KEPT_SECONDS, self._give_back)

    def _give_back(self) -> None:
        """Return the spare messages to their brokers."""
        self._giving_back = None
        while self._spare:
            lease, message = self._spare.popleft()
            lease.give_back([message], untaken=True)

    def _take(self, limit: int) -> list[tuple[Lease, Message]]:
        taken: list[tuple[Lease, Message]] = []
        while self._spare and len(taken) < limit:
            lease, message = self._spare.popleft()
            if message in lease.open:  # else it was lost or returned
                taken.append((lease, message))
        return taken

    async def close(self) -> None:
        """Stop requesting messages; waiting callers get none."""
        if self._giving_back is not None:
            self._giving_back.cancel()
        self._give_back()
        polls = list(self._polls.values())
        for poll in polls:
            poll.cancel()
        await asyncio.gather(*polls, return_exceptions=True)
        for waiter in self._waiting:
            if not waiter.future.done():
                waiter.future.set_result([])
