"""The availability of a queue for a group, and the effect of settlements.

Pure: no clock, store or socket.

The log has the leases with their deadlines and tries (``storage/state/delivery/progress.py``).
``QueueAvailability`` adds the present: which messages are available, which are in flight, and
extensions that were too short for a record. If it is rebuilt from the log, only these extensions
are lost.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from litemq.format.offset_runs import Run, RunSet
from litemq.storage.state import QueueKey
from litemq.storage.state.delivery.leases import Lease, Leases
from litemq.storage.state.delivery.progress import Progress, QueueProgress

__all__ = ["ExtensionResult", "Piece", "QueueAvailability"]


class Piece(NamedTuple):
    """Messages to be leased, and the number of their earlier tries."""

    begin: int
    end: int
    tries: int


class ExtensionResult(NamedTuple):
    """The result of an extension."""

    kept: list[Lease]  # as they are now
    logged: list[Lease]  # those of them that need a record
    lost: list[Run]


_NOTHING = QueueProgress()
_SLOT_MS: Final = 10  # leases that expire within it share one alarm


class QueueAvailability:
    """One queue, for one group.

    A decision counts at once, and must be in the log before it is answered.
    """

    def __init__(self, group: str, key: QueueKey, progress: Progress) -> None:
        """Empty until the first ``refresh``."""
        self.key = key
        self._group_key = group, key
        self._progress = progress
        self.returned = RunSet()  # available again: below the frontier and not leased
        self.frontier = 0  # messages from here on were never leased
        self.in_flight = 0
        self._extended = Leases()  # leases whose deadline is later than in the log
        self._settled = RunSet()  # since the last record
        self._untried = Leases()  # returned without a try since the last record
        self._ends: dict[
            int, dict[Run, int]
        ] = {}  # by slot: tokens of leases that expire then, most are settled before
        self._seen: tuple[QueueProgress | None, int] = (None, -1)

    @property
    def offset(self) -> int:
        """The committed offset: all messages below it are done."""
        return self._progress.offsets.get(self._group_key, 0)

    @property
    def _queue(self) -> QueueProgress:
        return self._progress.queue(*self._group_key) or _NOTHING

    def is_done(self, offset: int) -> bool:
        """Return whether the group has finished a message."""
        return offset < self.offset or offset in self._queue.done or offset in self._settled

    # Following the log ----------------------------------------------------------------------------

    def refresh(self, now: int) -> list[Lease]:
        """Rebuild from the log's view if it has changed; return the leases to watch then."""
        if self._seen == self._view():
            return []
        queue, offset = self._queue, self.offset
        self.frontier = max(offset, queue.done.end, queue.leases.end)
        self._extended.remove(0, offset)
        live = [part for lease in queue.leases for part in self._until(lease) if part.deadline > now]
        self.in_flight = sum(lease.end - lease.begin for lease in live)
        self.returned = RunSet([(offset, self.frontier)])
        for run in queue.done:
            self.returned.remove(*run)
        for lease in live:
            self.returned.remove(lease.begin, lease.end)
        self._settled = RunSet()
        self._untried = Leases()
        self._ends = {}
        self._seen = self._view()
        return live

    def recorded(self) -> None:
        """The decisions of the tick are in the log, and applied."""
        self._settled = RunSet()
        self._untried = Leases()
        self._seen = self._view()

    def _view(self) -> tuple[QueueProgress | None, int]:
        return self._progress.queue(*self._group_key), self.offset

    # Granting -------------------------------------------------------------------------------------

    def take(self, limit: int, end_offset: int) -> Iterator[Piece]:
        """Take up to ``limit`` messages below ``end_offset``, oldest first.

        The caller owns each piece it takes, and must return unused messages with ``put_back``.
        """
        while limit > 0:
            first = self.returned.first()
            if first is None or first[0] >= end_offset:
                break
            begin, end = self._undone(first[0], min(first[1], end_offset))
            piece = self._counted(begin, min(end, begin + limit))
            self.returned.remove(first[0], piece.end)
            limit -= piece.end - piece.begin
            if piece.begin < piece.end:
                yield piece
        while limit > 0 and self.frontier < end_offset and not self.returned:
            begin, end = self._undone(self.frontier, end_offset)
            piece = Piece(begin, min(end, begin + limit), 0)
            self.frontier = piece.end
            limit -= piece.end - piece.begin
            if piece.begin < piece.end:
                yield piece

    def _undone(self, begin: int, end: int) -> Run:
        """Return the first run within ``begin`` … ``end`` that is not done."""
        done = self._queue.done
        if not done:
            return begin, end
        undone = done.without(max(begin, self.offset), end)
        return undone[0] if undone else (end, end)

    def _counted(self, begin: int, end: int) -> Piece:
        """Return the first messages of a run that have the same number of tries."""
        untried = self._untried.within(begin, end)
        if untried:
            if untried[0].begin == begin:
                return Piece(begin, untried[0].end, untried[0].tries)
            end = untried[0].begin
        leases = self._queue.leases.within(begin, end)
        if not leases:
            return Piece(begin, end, 0)
        first = leases[0]
        return Piece(begin, first.begin, 0) if begin < first.begin else Piece(begin, first.end, first.tries)

    def put_back(self, begin: int, end: int) -> None:
        """Return messages that were taken and not leased."""
        if end == self.frontier and not self._queue.leases.within(begin, end):
            self.frontier = begin
        else:
            self.returned.add(begin, end)

    def give_back(self, lease: Lease) -> None:
        """Return the messages of a lease without a try: they are available at once."""
        self._untried.put(lease)
        self.put_back(lease.begin, lease.end)

    def granted(self, count: int) -> None:
        """Count ``count`` taken messages as in flight."""
        self.in_flight += count

    def skipped_to(self, offset: int) -> None:
        """Nothing below ``offset`` is available: it is done, or retention took it."""
        self.returned.remove(0, offset)
        self.frontier = max(self.frontier, offset)

    # Settling -------------------------------------------------------------------------------------

    def settle(self, begin: int, end: int, token: int) -> tuple[list[Lease], list[Run]]:
        """Settle messages of the lease ``token``.

        Return the leases that held them, and the runs that it does not hold.

        An expired lease counts as long as its messages are not leased to another consumer.
        """
        mine: list[Lease] = []
        lost: list[Run] = []
        reached = begin
        for lease in self._queue.leases.within(begin, end):
            if lease.token != token or not token:
                continue
            for free_from, free_to in self._settled.without(lease.begin, lease.end):
                if reached < free_from:
                    lost.append((reached, free_from))
                reached = free_to
                mine.append(lease._replace(begin=free_from, end=free_to))
        if reached < end:
            lost.append((reached, end))
        for lease in mine:
            self.in_flight -= _size(self.returned.without(lease.begin, lease.end))
            self.returned.remove(lease.begin, lease.end)
            self._extended.remove(lease.begin, lease.end)
            self._settled.add(lease.begin, lease.end)
            ends = self._ends.get(_deadline_slot(lease.deadline))
            if ends is not None:
                ends.pop((lease.begin, lease.end), None)
        return mine, lost

    def settle_unleased(self, offset: int) -> None:
        """Settle a message without a lease, for the owner of the queue."""
        self._settled.add(offset, offset + 1)
        self.returned.remove(offset, offset + 1)
        if offset >= self.frontier:
            self.returned.add(self.frontier, offset)
            self.frontier = offset + 1

    def extend(self, begin: int, end: int, token: int, deadline: int, lease_ms: int) -> ExtensionResult:
        """Extend the lease ``token`` to ``deadline``, if that is later.

        Only an extension by half of ``lease_ms`` needs a record.
        """
        kept: list[Lease] = []
        logged: list[Lease] = []
        lost = RunSet([(begin, end)])
        for lease in self._queue.leases.within(begin, end):
            if lease.token != token or not token:
                continue
            for free_from, free_to in self._settled.without(lease.begin, lease.end):
                lost.remove(free_from, free_to)
                until = max(deadline, lease.deadline)
                extended = Lease(free_from, free_to, token, until, lease.tries)
                kept.append(extended)
                ended = self.returned.within(free_from, free_to)
                self.in_flight += _size(ended)
                self.returned.remove(free_from, free_to)
                if ended or until - lease.deadline >= lease_ms / 2:
                    logged.append(extended)
                    self._extended.remove(free_from, free_to)
                elif until > lease.deadline:
                    self._extended.put(extended)
        return ExtensionResult(kept, logged, list(lost))

    def watch(self, lease: Lease) -> int | None:
        """Note the end of a lease.

        Return the slot at which to call ``end``, or ``None`` if an earlier call returned it.
        """
        slot = _deadline_slot(lease.deadline)
        ends = self._ends.get(slot)
        if ends is None:
            self._ends[slot] = {(lease.begin, lease.end): lease.token}
            return slot
        ends[lease.begin, lease.end] = lease.token
        return None

    def end(self, slot: int, now: int) -> bool:
        """Expire the leases of ``slot``; return whether messages are available again."""
        ended = [self._lapse(begin, end, token, now) for (begin, end), token in self._ends.pop(slot, {}).items()]
        return any(ended)

    def _lapse(self, begin: int, end: int, token: int, now: int) -> bool:
        ended = False
        for lease in self._queue.leases.within(begin, end):
            if lease.token != token:
                continue
            for part in self._until(lease):
                if part.deadline <= now:
                    lapsed = self.returned.without(part.begin, part.end)
                    self.in_flight -= _size(lapsed)
                    self.returned.add(part.begin, part.end)
                    ended = ended or bool(lapsed)
        return ended

    def _until(self, lease: Lease) -> Iterator[Lease]:
        """Yield the parts of a lease, each with the deadline that counts."""
        reached = lease.begin
        for later in self._extended.within(lease.begin, lease.end):
            if reached < later.begin:
                yield lease._replace(begin=reached, end=later.begin)
            yield later if later.token == lease.token else lease._replace(begin=later.begin, end=later.end)
            reached = later.end
        if reached < lease.end:
            yield lease._replace(begin=reached)


def _deadline_slot(deadline: int) -> int:
    return -(-deadline // _SLOT_MS) * _SLOT_MS


def _size(runs: list[Run]) -> int:
    return sum(end - begin for begin, end in runs)
