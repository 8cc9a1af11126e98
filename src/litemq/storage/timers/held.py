"""All timers of a store: those due soon in memory, the others in bucket files, and what is on its way there.

What records say comes in the order of the log, and goes to the files once it is confirmed; what a file does not hold at a crash comes again from
the log. Minutes move from the files into memory as they come near, always the next one: everything due before ``near_end`` is in memory.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable
from typing import Final

import numpy as np
import numpy.typing as npt

from litemq.errors import InvalidArgumentError
from litemq.proto.control_pb2 import Control
from litemq.storage.appending import Placed
from litemq.storage.state.delivery import PlacedRecord
from litemq.storage.state.timers import is_timer
from litemq.storage.timers.bucket_files import BucketFiles
from litemq.storage.timers.entries import MINUTE_MS, Timer, entries_of, live_timers
from litemq.storage.timers.near import NearTimers
from litemq.types import RecordKind

__all__ = ["HeldTimers"]

Longs = npt.NDArray[np.int64]

_FOREVER: Final = 1 << 62
_MOST_NEAR: Final = 500_000  # when so many are in memory, the next minute waits until they have been fired

_APART_BEFORE_MS: Final = 6 * 3_600_000  # taking a day apart may take a while, and nobody must wait for it

_Row = tuple[int, int, int, int]  # due, pending, cause, size


class HeldTimers:
    """Any thread may call; whoever loads or writes behind does so one at a time, as a store's keeper does."""

    def __init__(self, files: BucketFiles | None) -> None:
        """Without files, everything is in memory."""
        self._files = files
        self._lock = threading.Lock()
        self._near = NearTimers(_FOREVER if files is None else 0)
        self._waiting: dict[int, list[_Row]] = {}  # by minute: what is not in its file yet

    @property
    def near_end(self) -> int:
        """Everything that is due before it (ms) is in memory."""
        return self._near.end

    # What records say ---------------------------------------------------------------------------------------------------------

    def place(self, record: PlacedRecord) -> None:
        """Take in a record that is no plain message."""
        begins = is_timer(record)
        if record.kind is RecordKind.FIRED or (begins and record.origin >= 0):
            self.end(record.delay_time, record.origin, record.log_offset)
        if begins:
            self.begin(record.delay_time, record.log_offset, record.size)

    def apply(self, control: Control, log_offset: int) -> None:
        """Take in a change."""
        if control.HasField("timer_ended"):
            self.end(control.timer_ended.due, control.timer_ended.pending, log_offset)

    def check_fired(self, placed: Iterable[Placed]) -> None:
        """Refuse to fire what nobody has taken, or what has ended since: nothing is delivered twice."""
        for each in placed:
            if each.kind is RecordKind.FIRED and not self.is_taken(each.origin):
                raise InvalidArgumentError(f"the record at log offset {each.origin} is no timer that was taken, or it has ended")

    def begin(self, due: int, pending: int, size: int) -> None:
        """A record waits until it is due."""
        with self._lock:
            if due < self._near.end:
                self._near.begin(Timer(due, pending, size))
            self._note(due, pending, pending, size)

    def end(self, due: int, pending: int, cause: int) -> None:
        """The record at ``cause`` says that a pending one waits no longer."""
        with self._lock:
            if due < self._near.end:
                self._near.finish(due, pending)
            self._note(due, pending, cause, 0)

    def _note(self, due: int, pending: int, cause: int, size: int) -> None:
        if self._files is not None:
            self._waiting.setdefault(due // MINUTE_MS, []).append((due, pending, cause, size))

    # Firing -------------------------------------------------------------------------------------------------------------------

    @property
    def next_due(self) -> int | None:
        """When the first of those in memory is due."""
        with self._lock:
            return self._near.next_due

    def take(self, now: int, confirmed: int, most: int) -> list[Timer]:
        """Up to ``most`` timers that are due, to be fired or given back by whoever takes them."""
        with self._lock:
            return self._near.take(now, confirmed, most)

    def give_back(self, timers: Iterable[Timer]) -> None:
        """They were not fired."""
        with self._lock:
            self._near.give_back(timers)

    def is_taken(self, pending: int) -> bool:
        """Whether a timer was taken and has not ended since, whoever ended it."""
        with self._lock:
            return self._near.is_taken(pending)

    # Files --------------------------------------------------------------------------------------------------------------------

    def load(self, until: int) -> None:
        """Bring what is due before ``until`` (ms), and the rest of its minute, into memory; less, where that is too much at once."""
        files = self._files
        if files is None:
            return
        while self._near.end < until and len(self._near) < _MOST_NEAR:
            minute = self._next_minute(self._near.end // MINUTE_MS)
            if minute is None or minute * MINUTE_MS >= until:
                self._skip(until)
                continue
            stored = files.read(minute)
            with self._lock:
                new = entries_of(self._waiting.get(minute, ()))
                live = live_timers(np.concatenate((stored, new)))
                self._near.load(live, (minute + 1) * MINUTE_MS)
                if not (live.size or new.size):
                    files.drop(minute)
        files.take_apart((until + _APART_BEFORE_MS) // MINUTE_MS)

    def _skip(self, until: int) -> None:
        """Nothing is due before ``until``, unless somebody has begun to wait just now."""
        with self._lock:
            if not any(self._near.end <= minute * MINUTE_MS < until for minute in self._waiting):
                self._near.end = -(-until // MINUTE_MS) * MINUTE_MS

    def _next_minute(self, minute: int) -> int | None:
        files = self._files
        with self._lock:
            waiting = min((other for other in self._waiting if other >= minute), default=None)
        stored = None if files is None else files.first_from(minute)
        return min((found for found in (waiting, stored) if found is not None), default=None)

    def write_behind(self, below: int) -> None:
        """Put what records below a log offset have said into the files."""
        files = self._files
        if files is None:
            return
        rows: list[_Row] = []
        with self._lock:
            near_minute = self._near.end // MINUTE_MS
            for minute, waiting in list(self._waiting.items()):
                safe = _count_below(waiting, below)
                if safe == len(waiting) and minute < near_minute and not self._near.has_any_of(minute):
                    files.drop(minute)  # all of it has come and gone
                    del self._waiting[minute]
                elif safe:
                    rows += waiting[:safe]
                    self._waiting[minute] = waiting[safe:]
                    if safe == len(waiting):
                        del self._waiting[minute]
        if rows:
            try:
                files.write(entries_of(rows))
            except BaseException:
                self._put_back(rows)  # what is in a file by then does no harm there twice
                raise

    def _put_back(self, rows: list[_Row]) -> None:
        with self._lock:
            again: dict[int, list[_Row]] = {}
            for row in rows:
                again.setdefault(row[0] // MINUTE_MS, []).append(row)
            for minute, before in again.items():
                self._waiting[minute] = before + self._waiting.get(minute, [])

    def seal(self, applied: int) -> None:
        """What was written behind is safe."""
        if self._files is not None:
            self._files.seal(applied)

    # Carrying forward ---------------------------------------------------------------------------------------------------------

    def live_among(self, dues: Longs, pendings: Longs) -> npt.NDArray[np.bool_]:
        """Which of some timers still wait. It may read much from the files; nobody loads or writes behind meanwhile."""
        live = np.zeros(dues.size, np.bool_)
        minutes = dues // MINUTE_MS
        order = np.argsort(minutes, kind="stable")
        at = 0
        while at < order.size:
            behind, waiting = self._live_with(int(minutes[order[at]]))
            until = int(np.searchsorted(minutes[order], behind))
            some = order[at:until]
            live[some] = np.isin(pendings[some], waiting)
            at = until
        return live

    def _live_with(self, minute: int) -> tuple[int, Longs]:
        """What waits of a minute and those behind it in the same file, and the minute behind those."""
        behind, stored = (minute + 1, entries_of(())) if self._files is None else self._files.read_with(minute)
        with self._lock:
            new = [row for other in range(minute, behind) for row in self._waiting.get(other, ())]
        return behind, live_timers(np.concatenate((stored, entries_of(new))))["pending"].astype(np.int64)

    def ended_meanwhile(self, dues: Iterable[int]) -> set[int]:
        """The timers with some due times that ended since the last writing behind, by their places in the log."""
        minutes = {due // MINUTE_MS for due in dues}
        with self._lock:
            return {row[1] for minute in minutes for row in self._waiting.get(minute, ()) if row[3] == 0}


def _count_below(rows: list[_Row], below: int) -> int:
    """How many of some rows, which are in the order of their causes, were said by records below a log offset."""
    if rows[-1][2] < below:
        return len(rows)
    return next(number for number, row in enumerate(rows) if row[2] >= below)
