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
from litemq.storage.state.delivery import PlacedEvent, PlacedRecord
from litemq.storage.state.timers import TimersBegun, is_timer
from litemq.storage.timers.bucket_files import BucketFiles
from litemq.storage.timers.entries import MINUTE_MS, Timer, entries_of, live_timers
from litemq.storage.timers.near import NearTimers
from litemq.storage.timers.unwritten import DUE, PENDING, SIZE, Rows, UnwrittenRows
from litemq.types import RecordKind

__all__ = ["HeldTimers"]

Longs = npt.NDArray[np.int64]

_FOREVER: Final = 1 << 62
_MOST_NEAR: Final = 500_000  # when so many are in memory, the next minute waits until they have been fired

_APART_BEFORE_MS: Final = 6 * 3_600_000  # taking a day apart may take a while, and nobody must wait for it


class HeldTimers:
    """Any thread may call; whoever loads or writes behind does so one at a time, as a store's keeper does."""

    def __init__(self, files: BucketFiles | None) -> None:
        """Without files, everything is in memory."""
        self._files = files
        self._lock = threading.Lock()
        self._near = NearTimers(_FOREVER if files is None else 0)
        self._unwritten = UnwrittenRows()  # what is not in its file yet

    @property
    def near_end(self) -> int:
        """Everything that is due before it (ms) is in memory."""
        return self._near.end

    # What records say ---------------------------------------------------------------------------------------------------------

    def place(self, event: PlacedEvent) -> None:
        """Take in what records say that are no plain messages."""
        if isinstance(event, TimersBegun):
            self.begin_many(event)
        elif isinstance(event, PlacedRecord):
            self._place(event)

    def _place(self, record: PlacedRecord) -> None:
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

    def begin_many(self, begun: TimersBegun) -> None:
        """Many records wait, each until it is due."""
        dues, pendings, sizes = begun.dues, begun.log_offsets, begun.sizes
        with self._lock:
            for number in np.flatnonzero(dues < self._near.end).tolist():
                self._near.begin(Timer(int(dues[number]), int(pendings[number]), int(sizes[number])))
            if self._files is not None:
                self._unwritten.add_many(np.stack((dues, pendings, pendings, sizes), axis=1))

    def end(self, due: int, pending: int, cause: int) -> None:
        """The record at ``cause`` says that a pending one waits no longer."""
        with self._lock:
            if due < self._near.end:
                self._near.finish(due, pending)
            self._note(due, pending, cause, 0)

    def _note(self, due: int, pending: int, cause: int, size: int) -> None:
        if self._files is not None:
            self._unwritten.add((due, pending, cause, size))

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
            self._load_minute(files, minute)
        files.take_apart((until + _APART_BEFORE_MS) // MINUTE_MS)

    def _load_minute(self, files: BucketFiles, minute: int) -> None:
        """The next minute comes into memory. Sorting it may take a while, in which nobody has to wait."""
        stored = files.read(minute)
        with self._lock:
            new = self._unwritten.between(minute, minute + 1)
        live = live_timers(np.concatenate((stored, entries_of(new))))
        with self._lock:
            self._near.load(live, (minute + 1) * MINUTE_MS)
            since = self._unwritten.between(minute, minute + 1)[len(new) :]
            for due, pending, _, size in since.tolist():
                if size:
                    self._near.begin(Timer(due, pending, size))
                else:
                    self._near.finish(due, pending)
            if not (live.size or new.size or since.size):
                files.drop(minute)

    def _skip(self, until: int) -> None:
        """Nothing is due before ``until``, unless somebody has begun to wait just now."""
        with self._lock:
            upcoming = self._unwritten.first_from(self._near.end // MINUTE_MS)
            if upcoming is None or upcoming * MINUTE_MS >= until:
                self._near.end = -(-until // MINUTE_MS) * MINUTE_MS

    def _next_minute(self, minute: int) -> int | None:
        files = self._files
        with self._lock:
            unwritten = self._unwritten.first_from(minute)
        stored = None if files is None else files.first_from(minute)
        return min((found for found in (unwritten, stored) if found is not None), default=None)

    def write_behind(self, below: int) -> None:
        """Put what records below a log offset have said into the files."""
        files = self._files
        if files is None:
            return
        with self._lock:
            rows = self._without_gone(files, self._unwritten.take_below(below))
        if len(rows):
            try:
                files.write(entries_of(rows))
            except BaseException:
                with self._lock:
                    self._unwritten.put_back(rows)  # what is in a file by then does no harm there twice
                raise

    def _without_gone(self, files: BucketFiles, rows: Rows) -> Rows:
        """Some rows without those of minutes that have come and gone: their files go, too."""
        near = self._near
        minutes = rows[:, DUE] // MINUTE_MS
        for minute in np.unique(minutes[minutes < near.end // MINUTE_MS]).tolist():
            if not near.has_any_of(minute) and len(self._unwritten.between(minute, minute + 1)) == 0:
                files.drop(minute)
                rows, minutes = rows[minutes != minute], minutes[minutes != minute]
        return rows

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
            new = self._unwritten.between(minute, behind)
        return behind, live_timers(np.concatenate((stored, entries_of(new))))["pending"].astype(np.int64)

    def ended_meanwhile(self, dues: Iterable[int]) -> set[int]:
        """The timers with some due times that ended since the last writing behind, by their places in the log."""
        minutes = np.unique(np.fromiter(dues, np.int64) // MINUTE_MS)
        with self._lock:
            rows = self._unwritten.all()
        ended = rows[(rows[:, SIZE] == 0) & np.isin(rows[:, DUE] // MINUTE_MS, minutes)]
        return set(ended[:, PENDING].tolist())
