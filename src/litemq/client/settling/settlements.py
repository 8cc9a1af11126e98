"""The contents of one settle request: runs of acknowledged offsets, and failed deliveries.

No I/O.
"""

from __future__ import annotations

import asyncio
from typing import Final, NamedTuple, Protocol

from litemq.client.settling.ack_policy import Failure
from litemq.errors import LiteMQError
from litemq.format.messages import MessageFields
from litemq.format.offset_runs import RunSet, pack_runs
from litemq.types import RecordKind

__all__ = [
    "AssignedQueue",
    "DeliveryPosition",
    "FailedDelivery",
    "LeasedOffsets",
    "Settlements",
    "Unsettled",
    "delivery_position",
    "pack_offsets",
]

_MAX_SETTLED: Final = 8_192
_MAX_FAILED: Final = 50  # each may carry a long stack trace


class DeliveryPosition(NamedTuple):
    """The position of a delivery at its broker.

    A group has one retry queue for a topic; its ``queue_id`` is 0.
    """

    queue_id: int
    is_retry: bool
    offset: int


class LeasedOffsets(NamedTuple):
    """Messages of one queue under one lease; token 0: the queue is assigned to the caller."""

    queue_id: int
    is_retry: bool
    token: int
    offsets: list[int]  # packed runs


class AssignedQueue(Protocol):
    """A queue that was assigned to this client."""

    is_lost: bool  # it may have another owner


class FailedDelivery(NamedTuple):
    """A failed delivery attempt."""

    position: DeliveryPosition
    token: int
    attempt: int
    failure: Failure
    queue: AssignedQueue | None = None  # None: the message is leased


class Unsettled(NamedTuple):
    """A delivery that a broker did not settle, and why."""

    position: DeliveryPosition
    error: LiteMQError


def delivery_position(fields: MessageFields) -> DeliveryPosition:
    """Return the position of a received message."""
    if fields.kind is RecordKind.RETRY:
        return DeliveryPosition(0, True, fields.queue_offset)
    return DeliveryPosition(fields.queue_id, False, fields.queue_offset)


class Settlements:
    """The settlements of one request; after the answer, the outcome of each."""

    __slots__ = ("_acked", "_error", "_failed", "_is_answered", "_unsettled", "_waiting", "count")

    def __init__(self) -> None:
        self.count = 0
        self._acked: dict[tuple[int, bool, int], list[int]] = {}
        self._failed: list[FailedDelivery] = []
        self._waiting: list[tuple[DeliveryPosition | None, asyncio.Future[None]]] = []
        self._is_answered = False
        self._error: LiteMQError | None = None
        self._unsettled: dict[DeliveryPosition, LiteMQError] = {}

    def ack(self, queue_id: int, is_retry: bool, token: int, offset: int) -> None:
        """Add an acknowledged message."""
        self.count += 1
        key = (queue_id, is_retry, token)
        offsets = self._acked.get(key)
        if offsets is None:
            self._acked[key] = [offset]
        else:
            offsets.append(offset)

    def fail(self, delivery: FailedDelivery) -> None:
        """Add a failed delivery."""
        self.count += 1
        self._failed.append(delivery)

    @property
    def is_full(self) -> bool:
        """Whether the request has its maximum size."""
        return self.count >= _MAX_SETTLED or len(self._failed) >= _MAX_FAILED

    @property
    def acked(self) -> list[LeasedOffsets]:
        """The acknowledged messages, by queue and lease."""
        return [LeasedOffsets(*key, pack_offsets(offsets)) for key, offsets in self._acked.items()]

    @property
    def failed(self) -> list[FailedDelivery]:
        return self._failed

    def give_up_lost(self, error: LiteMQError) -> bool:
        """Fail the deliveries of lost queues with ``error``; return whether there were any."""
        lost = {each.position: error for each in self._failed if each.queue is not None and each.queue.is_lost}
        self._unsettled |= lost
        self._failed = [delivery for delivery in self._failed if delivery.position not in lost]
        return bool(lost)

    # The answer

    def outcome(self, position: DeliveryPosition) -> asyncio.Future[None]:
        """Return a future that is done when the delivery is settled, or fails with the reason."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        if self._is_answered:
            self._resolve(position, future)
        else:
            self._waiting.append((position, future))
        return future

    async def wait_answered(self) -> None:
        """Wait until the broker has answered, or the request has failed."""
        if not self._is_answered:
            future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting.append((None, future))
            await future

    def answered(self, unsettled: list[Unsettled]) -> None:
        """Record the broker's answer: it settled all deliveries except ``unsettled``."""
        self._unsettled |= dict(unsettled)
        self._finish()

    def lost(self, error: LiteMQError) -> None:
        """Record that no answer arrived: the outcome of all deliveries is unknown."""
        self._error = error
        self._finish()

    def _finish(self) -> None:
        self._is_answered = True
        waiting, self._waiting = self._waiting, []
        for position, future in waiting:
            if not future.done():
                self._resolve(position, future)

    @property
    def has_errors(self) -> bool:
        """Whether a delivery is not settled, or its outcome is unknown."""
        return self._error is not None or bool(self._unsettled)

    def error_for(self, position: DeliveryPosition) -> LiteMQError | None:
        """Return why a delivery is not settled; ``None`` if it is."""
        return self._error or self._unsettled.get(position)

    def _resolve(self, position: DeliveryPosition | None, future: asyncio.Future[None]) -> None:
        error = None if position is None else self.error_for(position)
        if error is None:
            future.set_result(None)
        else:
            future.set_exception(error)


def pack_offsets(offsets: list[int]) -> list[int]:
    """Pack ``offsets``, in any order, as runs: the gap to the previous run and the length."""
    offsets = sorted(offsets)
    first, last = offsets[0], offsets[-1]
    if last - first + 1 == len(offsets):
        return [first, len(offsets)]  # the common case: one run
    return pack_runs(RunSet((offset, offset + 1) for offset in offsets))
