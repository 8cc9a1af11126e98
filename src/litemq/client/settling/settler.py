"""Telling a broker what is settled: everything of one turn in one request, again where an answer was lost."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Final, Protocol

from litemq.client.backoff import Backoff
from litemq.client.config import ClientConfig
from litemq.client.settling.settlements import FailedDelivery, LeasedOffsets, Settlements, Unsettled
from litemq.errors import ClientClosedError, ConnectionLostError, LiteMQError, NotGroupMemberError, OverloadedError, RequestTimeoutError

__all__ = ["SettleWith", "Settler"]

_MOST_ON_THEIR_WAY: Final = 4  # what is settled meanwhile goes together: the more there is to do, the larger the requests

_AGAIN: Final = (ConnectionLostError, RequestTimeoutError, OverloadedError, NotGroupMemberError)


class SettleWith(Protocol):
    """How a broker is asked."""

    async def settle(
        self, broker: str, topic: str, group: str, acked: list[LeasedOffsets], failed: list[FailedDelivery], *, consumer: str
    ) -> list[Unsettled]: ...

    async def extend(self, broker: str, topic: str, group: str, lease_ms: int, leases: list[LeasedOffsets]) -> list[Unsettled]: ...


class Settler:
    """What one client settles for a group of a topic at one broker."""

    def __init__(self, backend: SettleWith, broker: str, topic: str, group: str, config: ClientConfig) -> None:
        self.broker = broker
        self.topic = topic
        self.group = group
        self._backend = backend
        self._config = config
        self._loop = asyncio.get_running_loop()
        self._open = Settlements()
        self._full: deque[Settlements] = deque()
        self._asking: dict[asyncio.Task[None], Settlements] = {}
        self._is_scheduled = self._is_closed = False

    def ack(self, queue_id: int, is_retry: bool, token: int, offset: int) -> Settlements:
        """A message is done; told in the request that is returned."""
        settlements = self._next()
        settlements.ack(queue_id, is_retry, token, offset)
        return settlements

    def fail(self, delivery: FailedDelivery) -> Settlements:
        """A try failed; told in the request that is returned."""
        settlements = self._next()
        settlements.fail(delivery)
        return settlements

    def _next(self) -> Settlements:
        if self._is_closed:
            raise ClientClosedError("the client was closed: the message comes again when its lease ends")
        if self._open.is_full:
            self._full.append(self._open)
            self._open = Settlements()
        if not self._is_scheduled and len(self._asking) < _MOST_ON_THEIR_WAY:
            self._is_scheduled = True
            self._loop.call_soon(self._send)
        return self._open

    def _send(self) -> None:
        self._is_scheduled = False
        while len(self._asking) < _MOST_ON_THEIR_WAY:
            if self._full:
                settlements = self._full.popleft()
            elif self._open.count:
                settlements, self._open = self._open, Settlements()
            else:
                return
            task = self._loop.create_task(self._settle(settlements), name=f"litemq settles {self.topic}")
            self._asking[task] = settlements
            task.add_done_callback(self._asked)

    def _asked(self, task: asyncio.Task[None]) -> None:
        del self._asking[task]
        self._send()

    async def _settle(self, settlements: Settlements) -> None:
        try:
            settlements.answered(await self._ask(settlements))
        except LiteMQError as error:
            settlements.lost(error)
        except BaseException:
            settlements.lost(ClientClosedError("the client was closed before a broker answered: the message may come again"))
            raise

    async def _ask(self, settlements: Settlements) -> list[Unsettled]:
        """Until there is an answer, or the time is up: what is settled already is settled by asking again."""
        acked, failed = settlements.acked, settlements.failed
        until = self._loop.time() + self._config.delivery_timeout_ms / 1000
        backoff = Backoff(self._config.retry_backoff_ms, self._config.max_retry_backoff_ms)
        while True:
            try:
                return await self._backend.settle(self.broker, self.topic, self.group, acked, failed, consumer=self._config.client_id)
            except _AGAIN as error:
                pause = backoff.next(error.retry_after_ms if isinstance(error, OverloadedError) else 0)
                if self._is_closed or self._loop.time() + pause > until:
                    raise
            await asyncio.sleep(pause)

    async def extend(self, lease_ms: int, leases: list[LeasedOffsets]) -> list[Unsettled]:
        """Keep messages for so long from now; those that are no longer ours are returned."""
        return await self._backend.extend(self.broker, self.topic, self.group, lease_ms, leases)

    async def flush(self) -> None:
        """Wait until everything that was settled before is answered, or has failed."""
        before = [*self._asking.values(), *self._full, *([self._open] if self._open.count else [])]
        for settlements in before:
            await settlements.wait_answered()

    async def close(self) -> None:
        """Tell no more; what is not answered is not known."""
        self._is_closed = True
        for settlements in (*self._full, self._open):
            settlements.lost(ClientClosedError("the client was closed before this was settled: the message comes again"))
        self._full.clear()
        self._open = Settlements()
        for task in self._asking:
            task.cancel()
        await asyncio.gather(*self._asking, return_exceptions=True)
