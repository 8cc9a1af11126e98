"""What a group may be given of a queue, and what a settlement does: pure decisions, without a clock, a store or a socket.

The log knows who was given what, until when, and how often (``storage/state/delivery/progress.py``). A ``Stock`` is that seen from now: which messages
can be had, which are in flight, and which deadlines moved by less than is worth a record. One that is made anew from the log's view knows
everything but those.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from litemq.format.offset_runs import Run, RunSet
from litemq.storage.state import QueueKey
from litemq.storage.state.delivery.leases import Lease, Leases
from litemq.storage.state.delivery.progress import Progress, QueueProgress

__all__ = ["Extended", "Piece", "Stock"]


class Piece(NamedTuple):
    """Messages to be given out, and how often they were given out before."""

    begin: int
    end: int
    tries: int


class Extended(NamedTuple):
    """What became of the wish to have some messages for longer."""

    kept: list[Lease]  # as they are now
    logged: list[Lease]  # those of them that are worth a record
    lost: list[Run]


_NOTHING = QueueProgress()
_SLOT_MS: Final = 10  # leases that end within it are looked at together


class Stock:
    """One queue, for one group. Decisions count at once; each is to be in the log before anybody is told of it."""

    def __init__(self, group: str, key: QueueKey, progress: Progress) -> None:
        """It knows nothing before the first ``refresh``."""
        self.key = key
        self._place = group, key
        self._progress = progress
        self.again = RunSet()  # can be had, though what stands behind them was given out already
        self.frontier = 0  # nothing from here on was ever given out
        self.in_flight = 0
        self._later = Leases()  # deadlines that the log does not know
        self._settled = RunSet()  # since the last record
        self._untried = Leases()  # given back since the last record, with the tries before
        self._ends: dict[int, dict[Run, int]] = {}  # tokens of leases that end by a time, most of them settled before
        self._seen: tuple[QueueProgress | None, int] = (None, -1)

    @property
    def offset(self) -> int:
        """Everything below it is done."""
        return self._progress.offsets.get(self._place, 0)

    @property
    def _queue(self) -> QueueProgress:
        return self._progress.of_queue(*self._place) or _NOTHING

    def is_done(self, offset: int) -> bool:
        """Whether nothing more is to happen with a message."""
        return offset < self.offset or offset in self._queue.done or offset in self._settled

    # Following the log --------------------------------------------------------------------------------------------------------

    def refresh(self, now: int) -> list[Lease]:
        """Look at the log's view anew, if others changed it; returns the leases that are to be watched then."""
        if self._seen == self._looks():
            return []
        queue, offset = self._queue, self.offset
        self.frontier = max(offset, queue.done.end, queue.leases.end)
        self._later.remove(0, offset)
        live = [part for lease in queue.leases for part in self._until(lease) if part.deadline > now]
        self.in_flight = sum(lease.end - lease.begin for lease in live)
        self.again = RunSet([(offset, self.frontier)])
        for run in queue.done:
            self.again.remove(*run)
        for lease in live:
            self.again.remove(lease.begin, lease.end)
        self._settled = RunSet()
        self._untried = Leases()
        self._ends = {}
        self._seen = self._looks()
        return live

    def recorded(self) -> None:
        """Everything that was decided is in the log, and applied."""
        self._settled = RunSet()
        self._untried = Leases()
        self._seen = self._looks()

    def _looks(self) -> tuple[QueueProgress | None, int]:
        return self._progress.of_queue(*self._place), self.offset

    # Giving out ---------------------------------------------------------------------------------------------------------------

    def take(self, most: int, following: int) -> Iterator[Piece]:
        """Up to so many messages of those before offset ``following``, the oldest first. Whoever takes a piece has it, or puts it back."""
        while most > 0:
            first = self.again.first()
            if first is None or first[0] >= following:
                break
            begin, end = self._undone(first[0], min(first[1], following))
            piece = self._counted(begin, min(end, begin + most))
            self.again.remove(first[0], piece.end)
            most -= piece.end - piece.begin
            if piece.begin < piece.end:
                yield piece
        while most > 0 and self.frontier < following and not self.again:
            begin, end = self._undone(self.frontier, following)
            piece = Piece(begin, min(end, begin + most), 0)
            self.frontier = piece.end
            most -= piece.end - piece.begin
            if piece.begin < piece.end:
                yield piece

    def _undone(self, begin: int, end: int) -> Run:
        """The first of some messages that are not done: others may have seen to them."""
        done = self._queue.done
        if not done:
            return begin, end
        undone = done.without(max(begin, self.offset), end)
        return undone[0] if undone else (end, end)

    def _counted(self, begin: int, end: int) -> Piece:
        """The first of some messages that were given out equally often."""
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
        """These were taken, and not given out."""
        if end == self.frontier and not self._queue.leases.within(begin, end):
            self.frontier = begin
        else:
            self.again.add(begin, end)

    def give_back(self, lease: Lease) -> None:
        """Nobody tried these: they can be had at once, as often as they were given out before."""
        self._untried.put(lease)
        self.put_back(lease.begin, lease.end)

    def granted(self, count: int) -> None:
        """So many of those that were taken are in flight now."""
        self.in_flight += count

    def skipped_to(self, offset: int) -> None:
        """Nothing below an offset is to be had: it is done, or gone."""
        self.again.remove(0, offset)
        self.frontier = max(self.frontier, offset)

    # Settling -----------------------------------------------------------------------------------------------------------------

    def settle(self, begin: int, end: int, token: int) -> tuple[list[Lease], list[Run]]:
        """Take messages out of a lease: those that were under it, and those that were not, or are not any more.

        A lease that ended and was given to nobody since is good enough: whoever had it last did the work.
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
            self.in_flight -= _size(self.again.without(lease.begin, lease.end))
            self.again.remove(lease.begin, lease.end)
            self._later.remove(lease.begin, lease.end)
            self._settled.add(lease.begin, lease.end)
            ends = self._ends.get(_slot_of(lease.deadline))
            if ends is not None:
                ends.pop((lease.begin, lease.end), None)
        return mine, lost

    def settle_unleased(self, offset: int) -> None:
        """A message is settled by one who has the whole queue."""
        self._settled.add(offset, offset + 1)
        self.again.remove(offset, offset + 1)
        if offset >= self.frontier:
            self.again.add(self.frontier, offset)
            self.frontier = offset + 1

    def extend(self, begin: int, end: int, token: int, deadline: int, lease_ms: int) -> Extended:
        """Let a lease last until a deadline, if that is later. Only what passes the last recorded deadline by half a lease is worth a record."""
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
                ended = self.again.within(free_from, free_to)
                self.in_flight += _size(ended)
                self.again.remove(free_from, free_to)
                if ended or until - lease.deadline >= lease_ms / 2:
                    logged.append(extended)
                    self._later.remove(free_from, free_to)
                elif until > lease.deadline:
                    self._later.put(extended)
        return Extended(kept, logged, list(lost))

    def watch(self, lease: Lease) -> int | None:
        """See to the end of a lease; returns when that is to be looked at, unless that was said before."""
        slot = _slot_of(lease.deadline)
        ends = self._ends.get(slot)
        if ends is None:
            self._ends[slot] = {(lease.begin, lease.end): lease.token}
            return slot
        ends[lease.begin, lease.end] = lease.token
        return None

    def end(self, slot: int, now: int) -> bool:
        """The time has come at which some leases were to end: whether anything can be had again."""
        ended = [self._lapse(begin, end, token, now) for (begin, end), token in self._ends.pop(slot, {}).items()]
        return any(ended)

    def _lapse(self, begin: int, end: int, token: int, now: int) -> bool:
        ended = False
        for lease in self._queue.leases.within(begin, end):
            if lease.token != token:
                continue
            for part in self._until(lease):
                if part.deadline <= now:
                    lapsed = self.again.without(part.begin, part.end)
                    self.in_flight -= _size(lapsed)
                    self.again.add(part.begin, part.end)
                    ended = ended or bool(lapsed)
        return ended

    def _until(self, lease: Lease) -> Iterator[Lease]:
        """A lease in parts, each with the deadline that counts."""
        reached = lease.begin
        for later in self._later.within(lease.begin, lease.end):
            if reached < later.begin:
                yield lease._replace(begin=reached, end=later.begin)
            yield later if later.token == lease.token else lease._replace(begin=later.begin, end=later.end)
            reached = later.end
        if reached < lease.end:
            yield lease._replace(begin=reached)


def _slot_of(deadline: int) -> int:
    return -(-deadline // _SLOT_MS) * _SLOT_MS


def _size(runs: list[Run]) -> int:
    return sum(end - begin for begin, end in runs)
