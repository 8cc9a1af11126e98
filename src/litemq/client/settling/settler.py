"""The settler: one request to a broker for the settlements of a tick, retried if it is lost."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Final, Protocol

from litemq.client.backoff import Backoff
from litemq.client.config import ClientConfig
from litemq.client.settling.settlements import FailedDelivery, LeasedOffsets, Settlements, Unsettled
from litemq.errors import (
    ClientClosedError,
    ConnectionLostError,
    LiteMQError,
    NotConfirmedError,
    NotGroupMemberError,
    NotMasterError,
    OverloadedError,
    RequestTimeoutError,
)

__all__ = ["SettleEngine", "Settler"]

_MAX_REQUESTS: Final = 4  # in flight; further settlements are batched, so requests grow under load

_RETRIABLE: Final = (
    ConnectionLostError,
    RequestTimeoutError,
    OverloadedError,
    NotGroupMemberError,
    NotMasterError,
    NotConfirmedError,
)


class SettleEngine(Protocol):
    """The methods of an engine that settle deliveries."""

    async def settle(
        self,
        broker: str,
        topic: str,
        group: str,
        acked: list[LeasedOffsets],
        failed: list[FailedDelivery],
        *,
        consumer: str,
    ) -> list[Unsettled]: ...

    async def extend(
        self, broker: str, topic: str, group: str, lease_ms: int, leases: list[LeasedOffsets]
    ) -> list[Unsettled]: ...


class Settler:
    """The settlements of one client for one group, topic and broker."""

    def __init__(self, engine: SettleEngine, broker: str, topic: str, group: str, config: ClientConfig) -> None:
        self.broker = broker
        self.topic = topic
        self.group = group
        self._engine = engine
        self._config = config
        self._loop = asyncio.get_running_loop()
        self._open = Settlements()
        self._full: deque[Settlements] = deque()
        self._in_flight: dict[asyncio.Task[None], Settlements] = {}
        self._is_scheduled = self._is_closed = False

    def ack(self, queue_id: int, is_retry: bool, token: int, offset: int) -> Settlements:
        """Acknowledge a message, and return the request that carries it."""
        settlements = self._open_request()
        settlements.ack(queue_id, is_retry, token, offset)
        return settlements

    def fail(self, delivery: FailedDelivery) -> Settlements:
        """Report a failed delivery, and return the request that carries it."""
        settlements = self._open_request()
        settlements.fail(delivery)
        return settlements

    def _open_request(self) -> Settlements:
        if self._is_closed:
            raise ClientClosedError("the client is closed: the message is delivered again when its lease ends")
        if self._open.is_full:
            self._full.append(self._open)
            self._open = Settlements()
        if not self._is_scheduled and len(self._in_flight) < _MAX_REQUESTS:
            self._is_scheduled = True
            self._loop.call_soon(self._send)
        return self._open

    def _send(self) -> None:
        self._is_scheduled = False
        while len(self._in_flight) < _MAX_REQUESTS:
            if self._full:
                settlements = self._full.popleft()
            elif self._open.count:
                settlements, self._open = self._open, Settlements()
            else:
                return
            task = self._loop.create_task(self._settle(settlements), name=f"litemq settles {self.topic}")
            self._in_flight[task] = settlements
            task.add_done_callback(self._on_done)

    def _on_done(self, task: asyncio.Task[None]) -> None:
        del self._in_flight[task]
        self._send()

    async def _settle(self, settlements: Settlements) -> None:
        try:
            settlements.answered(await self._ask(settlements))
        except LiteMQError as error:
            settlements.lost(error)
        except BaseException:
            settlements.lost(
                ClientClosedError(
                    "the client was closed before the broker answered: the message may be delivered again"
                )
            )
            raise

    async def _ask(self, settlements: Settlements) -> list[Unsettled]:
        """Send until there is an answer, or ``delivery_timeout_ms`` is over.

        Settling twice is safe. A client that is rejoining its group is refused for a moment. A
        queue that has another owner stays refused: its deliveries do not hold up the others.
        """
        acked = settlements.acked
        until = self._loop.time() + self._config.delivery_timeout_ms / 1000
        backoff = Backoff(self._config.retry_backoff_ms, self._config.max_retry_backoff_ms)
        while acked or settlements.failed:
            try:
                return await self._engine.settle(
                    self.broker, self.topic, self.group, acked, settlements.failed, consumer=self._config.client_id
                )
            except _RETRIABLE as error:
                if isinstance(error, NotGroupMemberError) and settlements.give_up_lost(error):
                    continue
                pause = backoff.next_delay(error.retry_after_ms if isinstance(error, OverloadedError) else 0)
                if self._is_closed or self._loop.time() + pause > until:
                    raise
            await asyncio.sleep(pause)
        return []

    async def extend(self, lease_ms: int, leases: list[LeasedOffsets]) -> list[Unsettled]:
        """Extend leases to ``lease_ms`` from now; return deliveries no longer leased."""
        return await self._engine.extend(self.broker, self.topic, self.group, lease_ms, leases)

    async def flush(self) -> None:
        """Wait until every settlement so far is answered or has failed."""
        before = [*self._in_flight.values(), *self._full, *([self._open] if self._open.count else [])]
        for settlements in before:
            await settlements.wait_answered()

    async def close(self) -> None:
        """Cancel all requests; the outcome of unanswered settlements is unknown."""
        self._is_closed = True
        for settlements in (*self._full, self._open):
            settlements.lost(
                ClientClosedError("the client was closed before the message was settled: it is delivered again")
            )
        self._full.clear()
        self._open = Settlements()
        for task in self._in_flight:
            task.cancel()
        await asyncio.gather(*self._in_flight, return_exceptions=True)
