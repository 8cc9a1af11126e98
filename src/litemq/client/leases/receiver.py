"""Messages under leases for those who ask with ``receive``: from all brokers of a topic, and no more than were asked for.

Whoever asks may be cancelled at any moment, and a broker that was asked cannot be called back: what it grants too late waits here for
the next one who asks, but not for long.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import deque
from typing import Final, NamedTuple

from litemq.client.backoff import Backoff
from litemq.client.config import ClientConfig
from litemq.client.engine.engine import Backend, LeaseTerms
from litemq.client.leases.lease import Lease
from litemq.client.leases.leases import Leases
from litemq.client.messages.message import Message
from litemq.client.settling.ack_policy import Handling
from litemq.errors import ConnectionLostError, LiteMQError, NoRouteError, OverloadedError, RequestTimeoutError

__all__ = ["Receiver"]

_LOG = logging.getLogger(__name__)
_MAX_BYTES: Final = 4 << 20
_PATIENCE: Final = 1.0  # seconds, with each broker where there are others
_PASSING: Final = (ConnectionLostError, RequestTimeoutError, OverloadedError)
_KEPT_SECONDS: Final = 1.0  # so long, what nobody waited for is kept for the next one


class _Waiter(NamedTuple):
    future: asyncio.Future[list[tuple[Lease, Message]]]
    most: int
    until: float


class Receiver:
    """What one client receives for a group of a topic, on the same terms."""

    def __init__(
        self, backend: Backend, leases: Leases, topic: str, group: str, terms: LeaseTerms, handling: Handling, config: ClientConfig
    ) -> None:
        self._backend = backend
        self._leases = leases
        self._topic = topic
        self._group = group
        self._terms = terms
        self._handling = handling
        self._config = config
        self._loop = asyncio.get_running_loop()
        self._brokers: list[str] = []
        self._asked_route = -1e9
        self._spare: deque[tuple[Lease, Message]] = deque()
        self._giving_back: asyncio.TimerHandle | None = None
        self._waiting: deque[_Waiter] = deque()
        self._polls: dict[str, asyncio.Task[None]] = {}

    async def receive(self, most: int, wait: float) -> list[Message]:
        """Up to so many messages: what is there, or what comes first within ``wait`` seconds."""
        if not self._spare:
            await self._find_brokers()
            if wait == 0 or len(self._brokers) > 1:
                await asyncio.shield(self._loop.create_task(self._ask_each_once(most)))
            if not self._spare and wait:
                return await self._wait(most, wait)
        return [message for _, message in self._take(most)]

    # Asking -------------------------------------------------------------------------------------------------------------------

    async def _find_brokers(self) -> None:
        now = self._loop.time()
        if now < self._asked_route + self._config.route_refresh_ms / 1000:
            return
        try:
            route = await self._backend.route(self._topic, create=not self._brokers)
        except NoRouteError:
            if not self._brokers:
                raise
        else:
            self._brokers = [place.name for place in route.brokers]
        self._asked_route = now

    async def _ask(self, broker: str, most: int, wait_ms: int) -> int:
        """Ask one broker; what it grants is spare until somebody takes it. Returns how many."""
        lease = await self._leases.ask(
            broker,
            self._topic,
            self._group,
            self._terms,
            self._handling,
            self,
            max_messages=min(most, self._config.max_poll_records),
            max_bytes=_MAX_BYTES,
            wait_ms=wait_ms,
        )
        if lease is None:
            return 0
        messages = list(lease.open)
        self._spare.extend((lease, message) for message in messages)
        self._serve()
        return len(messages)

    async def _ask_each_once(self, most: int) -> None:
        """One broker after another, until there are enough: each begins another time, and one that does not answer is passed by."""
        self._brokers.append(self._brokers.pop(0))
        failures: list[LiteMQError] = []
        for broker in list(self._brokers):
            asking = self._loop.create_task(self._ask(broker, most - len(self._spare), 0))
            asking.add_done_callback(lambda task: task.cancelled() or task.exception())
            await asyncio.wait([asking], timeout=_PATIENCE)
            if asking.done() and isinstance(error := asking.exception(), LiteMQError):
                failures.append(error)
            if len(self._spare) >= most:
                return
        if failures and not self._spare and not isinstance(failures[0], _PASSING):
            raise failures[0]

    async def _wait(self, most: int, wait: float) -> list[Message]:
        waiter = _Waiter(self._loop.create_future(), most, self._loop.time() + wait)
        self._waiting.append(waiter)
        for broker in self._brokers:
            if broker not in self._polls:
                self._polls[broker] = self._loop.create_task(self._poll(broker), name=f"litemq receives {self._topic} from {broker}")
        timer = self._loop.call_later(wait, self._give_up, waiter)
        try:
            return [message for _, message in await waiter.future]
        except asyncio.CancelledError:
            if waiter.future.cancelled():
                with contextlib.suppress(ValueError):  # its turn may have come, and nobody was there
                    self._waiting.remove(waiter)
            elif waiter.future.exception() is None:
                self._spare.extendleft(reversed(waiter.future.result()))
                self._serve()
            raise
        finally:
            timer.cancel()

    def _give_up(self, waiter: _Waiter) -> None:
        """Nothing came within its time."""
        if not waiter.future.done():
            self._waiting.remove(waiter)
            waiter.future.set_result([])

    async def _poll(self, broker: str) -> None:
        """Ask a broker as long as somebody waits."""
        backoff = Backoff(self._config.retry_backoff_ms, self._config.max_retry_backoff_ms)
        try:
            while self._waiting:
                most = sum(waiter.most for waiter in self._waiting)
                left = max(waiter.until for waiter in self._waiting) - self._loop.time()
                wait_ms = min(round(left * 1000), self._config.fetch_wait_ms)
                try:
                    await self._ask(broker, most, max(wait_ms, 0))
                    backoff.reset()
                except _PASSING as error:
                    _LOG.info("leases of %s at %s are asked for again: %s", self._topic, broker, error)
                    await asyncio.sleep(backoff.next(error.retry_after_ms if isinstance(error, OverloadedError) else 0))
        except LiteMQError as error:
            while self._waiting:
                waiter = self._waiting.popleft()
                if not waiter.future.done():
                    waiter.future.set_exception(error)
        finally:
            del self._polls[broker]

    # Giving out ---------------------------------------------------------------------------------------------------------------

    def _serve(self) -> None:
        """To those who wait, in their order; what is left is kept for a moment."""
        while self._waiting and self._spare:
            taken = self._take(self._waiting[0].most)
            if taken:
                waiter = self._waiting.popleft()
                if waiter.future.done():
                    self._spare.extendleft(reversed(taken))
                else:
                    waiter.future.set_result(taken)
        if self._spare and self._giving_back is None:
            self._giving_back = self._loop.call_later(_KEPT_SECONDS, self._give_back)

    def _give_back(self) -> None:
        """Nobody asked for these: others may have them."""
        self._giving_back = None
        while self._spare:
            lease, message = self._spare.popleft()
            lease.give_back([message], untaken=True)

    def _take(self, most: int) -> list[tuple[Lease, Message]]:
        taken: list[tuple[Lease, Message]] = []
        while self._spare and len(taken) < most:
            lease, message = self._spare.popleft()
            if message in lease.open:  # else it was lost, or given back
                taken.append((lease, message))
        return taken

    async def close(self) -> None:
        """Ask no more."""
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
