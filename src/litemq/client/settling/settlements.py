"""What is settled in one request: acknowledged messages as runs of offsets, failed tries one by one. No I/O."""

from __future__ import annotations

import asyncio
from typing import Final, NamedTuple

from litemq.client.settling.ack_policy import Failure
from litemq.errors import LiteMQError
from litemq.format.messages import MessageFields
from litemq.format.offset_runs import RunSet, pack_runs
from litemq.types import RecordKind

__all__ = ["FailedDelivery", "LeasedOffsets", "Place", "Settlements", "Unsettled", "pack_offsets", "place_of"]

_MOST: Final = 8_192
_MOST_FAILED: Final = 50  # each may tell a long story


class Place(NamedTuple):
    """Where a delivery stands at its broker. The retry queue of a group and topic is one, and has no number."""

    queue_id: int
    is_retry: bool
    offset: int


class LeasedOffsets(NamedTuple):
    """Messages of one queue under one lease; token 0: the queue itself is assigned to whoever asks."""

    queue_id: int
    is_retry: bool
    token: int
    offsets: list[int]  # runs, packed


class FailedDelivery(NamedTuple):
    """A try that failed, and where."""

    place: Place
    token: int
    attempt: int
    failure: Failure


class Unsettled(NamedTuple):
    """A delivery that a broker did not settle, and why."""

    place: Place
    error: LiteMQError


def place_of(fields: MessageFields) -> Place:
    """Where a message that was received stands."""
    if fields.kind is RecordKind.RETRY:
        return Place(0, True, fields.queue_offset)
    return Place(fields.queue_id, False, fields.queue_offset)


class Settlements:
    """Gathers what is settled together; and when the answer came, knows what became of each."""

    __slots__ = ("_acked", "_error", "_failed", "_is_answered", "_unsettled", "_waiting", "count")

    def __init__(self) -> None:
        self.count = 0
        self._acked: dict[tuple[int, bool, int], list[int]] = {}
        self._failed: list[FailedDelivery] = []
        self._waiting: list[tuple[Place | None, asyncio.Future[None]]] = []
        self._is_answered = False
        self._error: LiteMQError | None = None
        self._unsettled: dict[Place, LiteMQError] = {}

    def ack(self, queue_id: int, is_retry: bool, token: int, offset: int) -> None:
        """A message is done."""
        self.count += 1
        key = (queue_id, is_retry, token)
        offsets = self._acked.get(key)
        if offsets is None:
            self._acked[key] = [offset]
        else:
            offsets.append(offset)

    def fail(self, delivery: FailedDelivery) -> None:
        """A try failed."""
        self.count += 1
        self._failed.append(delivery)

    @property
    def is_full(self) -> bool:
        """Whether it is as large as a request should be."""
        return self.count >= _MOST or len(self._failed) >= _MOST_FAILED

    @property
    def acked(self) -> list[LeasedOffsets]:
        """What is acknowledged, queue by queue and lease by lease."""
        return [LeasedOffsets(*key, pack_offsets(offsets)) for key, offsets in self._acked.items()]

    @property
    def failed(self) -> list[FailedDelivery]:
        return self._failed

    # The answer

    def outcome(self, place: Place) -> asyncio.Future[None]:
        """Done once this one is settled, or failed with the reason why not."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        if self._is_answered:
            self._tell(place, future)
        else:
            self._waiting.append((place, future))
        return future

    async def wait_answered(self) -> None:
        """Wait until there is an answer, or none will come."""
        if not self._is_answered:
            future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting.append((None, future))
            await future

    def answered(self, unsettled: list[Unsettled]) -> None:
        """The broker settled all but these."""
        self._unsettled = dict(unsettled)
        self._finish()

    def lost(self, error: LiteMQError) -> None:
        """No answer came: nobody knows whether they are settled."""
        self._error = error
        self._finish()

    def _finish(self) -> None:
        self._is_answered = True
        waiting, self._waiting = self._waiting, []
        for place, future in waiting:
            if not future.done():
                self._tell(place, future)

    @property
    def has_errors(self) -> bool:
        """Whether something of it is not settled, or nobody knows."""
        return self._error is not None or bool(self._unsettled)

    def error_of(self, place: Place) -> LiteMQError | None:
        """Why one is not settled; nothing where it is."""
        return self._error or self._unsettled.get(place)

    def _tell(self, place: Place | None, future: asyncio.Future[None]) -> None:
        error = None if place is None else self.error_of(place)
        if error is None:
            future.set_result(None)
        else:
            future.set_exception(error)


def pack_offsets(offsets: list[int]) -> list[int]:
    """Offsets in any order as runs, each a pair: the distance from the end of the run before it, and how many."""
    offsets = sorted(offsets)
    first, last = offsets[0], offsets[-1]
    if last - first + 1 == len(offsets):
        return [first, len(offsets)]  # what was received in a row is mostly acknowledged in a row
    return pack_runs(RunSet((offset, offset + 1) for offset in offsets))
