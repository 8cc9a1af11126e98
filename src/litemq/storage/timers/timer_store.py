"""The timers of a store: those due soon in memory, all others in bucket files.

Entries are added in the order of the log and written to the files once the log is confirmed. After
a crash, the store replays entries that are missing from a file from the log. Minutes are loaded
into memory one by one: every timer that is due before ``near_end`` is in memory.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import Final

import numpy as np
import numpy.typing as npt

from litemq.errors import DiskFullError, InvalidArgumentError
from litemq.proto.control_pb2 import Control, TimerEnded, TimerMoved
from litemq.storage.batches.batch import Placed
from litemq.storage.state.machine_parts import PlacedEvent
from litemq.storage.state.part import PlacedRecord
from litemq.storage.state.timers.moved_timers import Moved
from litemq.storage.state.timers.pending_totals import TimersBegun, TimersFired, is_timer
from litemq.storage.timers.bucket_files import BucketFiles, BucketPosition
from litemq.storage.timers.entries import MINUTE_MS, Timer, encode_entries, live_timers
from litemq.storage.timers.near_timers import NearTimers
from litemq.storage.timers.pending_entries import DUE, PENDING, PendingEntries, Rows
from litemq.storage.timers.rescheduled import MOVED, resolve_moved
from litemq.types import RecordKind

__all__ = ["EndedTimers", "TimerStore", "timer_end"]

Longs = npt.NDArray[np.int64]

_FOREVER: Final = 1 << 62
_MAX_NEAR: Final = 500_000  # with this many timers in memory, the next minute is not loaded

_SPLIT_AHEAD_MS: Final = 6 * 3_600_000  # splitting a day may take a while, so it is done in advance


class EndedTimers:
    """The timers that ended since the watch began, by the log offset of their record.

    Call it to check one timer. A rescheduled timer has not ended.
    """

    def __init__(self, is_moved: Callable[[int], bool]) -> None:
        self.pendings: set[int] = set()
        self._is_moved = is_moved

    def __call__(self, pending: int) -> bool:
        return pending in self.pendings and not self._is_moved(pending)

    def forget(self, pendings: Iterable[int]) -> None:
        """Forget ``pendings``, which the caller will not check again, to save memory."""
        self.pendings.difference_update(pendings)


class TimerStore:
    """All timers. Thread-safe, but only one thread at a time may load or write behind.

    Without ``files``, all timers are in memory.
    """

    def __init__(self, files: BucketFiles | None) -> None:
        self._files = files
        self._lock = threading.Lock()
        self._near = NearTimers(_FOREVER if files is None else 0)
        self._unwritten = PendingEntries()  # entries that are not in their file yet
        self._moved: dict[int, int] = {}  # the due times of rescheduled timers
        self._watches: list[set[int]] = []

    @property
    def near_end(self) -> int:
        """Every timer that is due before this time (ms) is in memory."""
        return self._near.end

    # Events ---------------------------------------------------------------------------------------

    def place(self, event: PlacedEvent, *, was_half: bool = False) -> None:
        """Apply ``event``; ``was_half`` marks a new timer whose origin is a half."""
        if isinstance(event, TimersBegun):
            self.begin_many(event)
        elif isinstance(event, TimersFired):
            self._fired(event)
        elif isinstance(event, PlacedRecord) and is_timer(event):
            self._place(event, was_half=was_half)

    def _place(self, record: PlacedRecord, *, was_half: bool) -> None:
        with self._lock:
            home = due = record.delay_time
            if record.origin >= 0 and not was_half:
                due = self._end_at_home(home, record.origin, record.log_offset)
            if due != home:
                self._moved[record.log_offset] = due
            self._begin(due, record.log_offset, record.log_offset, record.size, MOVED if due != home else 0)

    def _end_at_home(self, home: int, pending: int, cause: int) -> int:
        """End a timer whose record is due at ``home``; return its actual due time."""
        due = self._moved.pop(pending, home)
        self._end(due, pending, cause)
        if due != home:
            self._add_entry(home, pending, cause, 0)
        return due

    def _fired(self, event: TimersFired) -> None:
        with self._lock:
            if self._moved or self._watches:  # end each timer on its own
                columns = event.dues.tolist(), event.origins.tolist(), event.log_offsets.tolist()
                for due, pending, cause in zip(*columns, strict=True):
                    self._end_at_home(due, pending, cause)
                return
            for due, pending in zip(event.dues.tolist(), event.origins.tolist(), strict=True):
                if due < self._near.end:
                    self._near.finish(due, pending)
            if self._files is not None:
                ended = np.zeros(event.dues.size, np.int64)
                self._unwritten.add_many(np.stack((event.dues, event.origins, event.log_offsets, ended), axis=1))

    def apply(self, control: Control, log_offset: int) -> None:
        """Apply a control record at ``log_offset``."""
        match control.WhichOneof("change"):
            case "timer_ended":
                self._apply_ended(control.timer_ended, log_offset)
            case "timers_ended":
                for ended in control.timers_ended.timers:
                    self._apply_ended(ended, log_offset)
            case "timer_moved":
                self._apply_moved(control.timer_moved, log_offset)

    def _apply_ended(self, ended: TimerEnded, log_offset: int) -> None:
        with self._lock:
            self._moved.pop(ended.pending, None)
            self._end(ended.moved_due or ended.due, ended.pending, log_offset)
            if ended.moved_due:
                self._add_entry(ended.due, ended.pending, log_offset, 0)

    def _apply_moved(self, moved: TimerMoved, log_offset: int) -> None:
        with self._lock:
            self._moved[moved.pending] = moved.due
            self._end(moved.due_before, moved.pending, log_offset)
            self._begin(moved.due, moved.pending, log_offset, moved.size, MOVED)

    def load_moved(self, moved: Iterable[tuple[int, Moved]], since: int) -> None:
        """Load the rescheduled timers of the state, after a replay of the log from ``since`` on.

        The replayed copies of carried timers do not have the new due times: this adds their
        entries.
        """
        with self._lock:
            known = dict(moved)
            self._moved = {pending: due for pending, (due, _) in known.items()}
            carried = [
                (due, pending, pending, size | MOVED) for pending, (due, size) in known.items() if pending >= since
            ]
            if carried and self._files is not None:
                self._unwritten.insert(np.array(carried, np.int64))

    def check_fired(self, placed: Iterable[Placed]) -> None:
        """Raise unless every timer that ``placed`` fires is taken and has not ended."""
        fired = [each.origin for each in placed if each.kind is RecordKind.FIRED]
        with self._lock:
            for origin in fired:
                if not self._near.is_taken(origin):
                    raise InvalidArgumentError(f"the timer at log offset {origin} was not taken or has ended")

    def begin(self, due: int, pending: int, size: int) -> None:
        """Add a new timer."""
        with self._lock:
            self._begin(due, pending, pending, size, 0)

    def _begin(self, due: int, pending: int, cause: int, size: int, moved: int) -> None:
        if due < self._near.end:
            self._near.begin(Timer(due, pending, size))
        self._add_entry(due, pending, cause, size | moved)

    def begin_many(self, begun: TimersBegun) -> None:
        """Add new timers."""
        dues, pendings, sizes = begun.dues, begun.log_offsets, begun.sizes
        with self._lock:
            for number in np.flatnonzero(dues < self._near.end).tolist():
                self._near.begin(Timer(int(dues[number]), int(pendings[number]), int(sizes[number])))
            if self._files is not None:
                self._unwritten.add_many(np.stack((dues, pendings, pendings, sizes), axis=1))

    def end(self, due: int, pending: int, cause: int) -> None:
        """End a timer; ``cause`` is the log offset of the record that ends it."""
        with self._lock:
            self._end(due, pending, cause)

    def _end(self, due: int, pending: int, cause: int) -> None:
        if due < self._near.end:
            self._near.finish(due, pending)
        self._add_entry(due, pending, cause, 0)
        for watch in self._watches:
            watch.add(pending)

    def _add_entry(self, due: int, pending: int, cause: int, size: int) -> None:
        if self._files is not None:
            self._unwritten.add((due, pending, cause, size))

    # Firing ---------------------------------------------------------------------------------------

    @property
    def next_due(self) -> int | None:
        """The due time of the first timer in memory."""
        with self._lock:
            return self._near.next_due

    def take(self, now: int, confirmed: int, limit: int) -> list[Timer]:
        """Take up to ``limit`` timers that are due and confirmed.

        The caller must fire each timer or return it with ``give_back``.
        """
        with self._lock:
            return self._near.take(now, confirmed, limit)

    def give_back(self, timers: Iterable[Timer]) -> None:
        """Return timers that were taken but not fired."""
        with self._lock:
            self._near.give_back(timers)

    def is_taken(self, pending: int) -> bool:
        """Return whether a timer is taken and has not ended."""
        with self._lock:
            return self._near.is_taken(pending)

    # Files ----------------------------------------------------------------------------------------

    def load(self, until: int) -> None:
        """Load the timers due before ``until`` (ms) in whole minutes, up to the limit."""
        files = self._files
        if files is None:
            return
        while self._near.end < until and len(self._near) < _MAX_NEAR:
            minute = self._next_minute(self._near.end // MINUTE_MS)
            if minute is None or minute * MINUTE_MS >= until:
                self._skip(until)
                continue
            self._load_minute(files, minute)
        with suppress(DiskFullError):  # what cannot be split is read from its whole day
            files.split_days((until + _SPLIT_AHEAD_MS) // MINUTE_MS)

    def _load_minute(self, files: BucketFiles, minute: int) -> None:
        """Load the next minute.

        Sorting it may take a while, so it is done without the lock. Entries that are added
        meanwhile, for this minute or an earlier one, are applied at the end.
        """
        stored = files.read(minute)
        first = self._near.end // MINUTE_MS
        with self._lock:
            if len(self._unwritten.between(first, minute)):
                return  # an earlier minute got entries: load that one first
            new, moved = self._unwritten.between(minute, minute + 1), self._moved.copy()
        entries = np.concatenate((stored, encode_entries(new)))
        live = resolve_moved(live_timers(entries), moved)
        with self._lock:
            since = self._unwritten.between(first, minute + 1)[len(new) :]
            changed = np.isin(live["pending"], since[:, PENDING])
            self._near.load(live[~changed] if changed.any() else live, (minute + 1) * MINUTE_MS)
            if len(since):
                before = entries[np.isin(entries["pending"], since[:, PENDING])]
                late = resolve_moved(live_timers(np.concatenate((before, encode_entries(since)))), self._moved)
                for timer in map(Timer, *(late[name].tolist() for name in Timer._fields)):
                    self._near.begin(timer)
            if not (live.size or new.size or since.size):
                files.drop(minute)

    def _skip(self, until: int) -> None:
        """Advance ``near_end`` to ``until``, unless a timer was added before it."""
        with self._lock:
            upcoming = self._unwritten.first_minute(self._near.end // MINUTE_MS)
            if upcoming is None or upcoming * MINUTE_MS >= until:
                self._near.end = -(-until // MINUTE_MS) * MINUTE_MS

    def _next_minute(self, minute: int) -> int | None:
        files = self._files
        with self._lock:
            unwritten = self._unwritten.first_minute(minute)
        stored = None if files is None else files.first_minute(minute)
        return min((found for found in (unwritten, stored) if found is not None), default=None)

    def write_behind(self, below: int) -> None:
        """Write the entries of records below the log offset ``below`` to the files."""
        files = self._files
        if files is None:
            return
        with self._lock:
            rows = self._without_gone(files, self._unwritten.take_below(below))
        if len(rows):
            try:
                files.write(encode_entries(rows))
            except BaseException:
                with self._lock:
                    self._unwritten.put_back(rows)  # writing an entry twice does no harm
                raise

    def _without_gone(self, files: BucketFiles, rows: Rows) -> Rows:
        """Remove the rows of past minutes without timers, and drop the buckets of these minutes."""
        near = self._near
        minutes = rows[:, DUE] // MINUTE_MS
        for minute in np.unique(minutes[minutes < near.end // MINUTE_MS]).tolist():
            is_gone = not near.has_minute(minute) and len(self._unwritten.between(minute, minute + 1)) == 0
            if is_gone and files.drop(minute):
                rows, minutes = rows[minutes != minute], minutes[minutes != minute]
        return rows

    def seal(self, applied: int) -> None:
        """Make the written entries valid; the caller has synced the files."""
        if self._files is not None:
            self._files.seal(applied)

    # Queries --------------------------------------------------------------------------------------

    def due_time(self, pending: int, delay_time: int) -> int:
        """Return the due time of a timer whose record has ``delay_time``."""
        with self._lock:
            return self._moved.get(pending, delay_time)

    def live_among(self, delay_times: Longs, pendings: Longs) -> npt.NDArray[np.bool_]:
        """Return which of the timers ``pendings`` have not ended.

        May read large files. The caller must not load or write behind meanwhile.
        """
        live = np.zeros(delay_times.size, np.bool_)
        minutes = delay_times // MINUTE_MS
        order = np.argsort(minutes, kind="stable")
        at = 0
        while at < order.size:
            minute = int(minutes[order[at]])
            end = minute + 1 if self._files is None else self._files.bucket_end(minute)
            until = int(np.searchsorted(minutes[order], end))
            some = order[at:until]
            live[some] = np.isin(pendings[some], self._live_in_bucket(minute, end, pendings[some]))
            at = until
        with self._lock:  # rescheduled timers are in other buckets, also if that happened meanwhile
            if self._moved:
                live |= np.isin(pendings, np.fromiter(self._moved, np.int64, len(self._moved)))
        return live

    def _live_in_bucket(self, minute: int, end: int, pendings: Longs) -> Longs:
        """Return those of ``pendings`` that have not ended, in the bucket ``minute … end``."""
        if self._files is None:
            with self._lock:
                return np.array([timer.pending for timer in self._near.all()], np.int64)
        pendings = np.sort(pendings)
        stored = self._files.read_timers(minute, pendings)
        with self._lock:
            new, moved = self._unwritten.between(minute, end), self._moved.copy()
        new = new[np.isin(new[:, PENDING], pendings)]
        return resolve_moved(live_timers(np.concatenate((stored, encode_entries(new)))), moved)["pending"].astype(
            np.int64
        )

    @contextmanager
    def watch_ended(self) -> Iterator[EndedTimers]:
        """Watch the ends of timers during a slow lookup."""
        ended = EndedTimers(lambda pending: pending in self._moved)
        with self._lock:
            self._watches.append(ended.pendings)
        try:
            yield ended
        finally:
            with self._lock:
                self._watches = [other for other in self._watches if other is not ended.pendings]

    def page(self, after: BucketPosition, until: int, limit: int) -> list[Timer]:
        """Return up to ``limit`` timers after ``after``, due before ``until`` (ms), in order.

        May read large files. The caller must not load or write behind meanwhile.
        """
        if self._files is None:
            with self._lock:
                return sorted(timer for timer in self._near.all() if after < timer[:2] and timer.due < until)[:limit]
        found: list[Timer] = []
        minute = self._next_minute(max(0, after[0]) // MINUTE_MS)
        while minute is not None and minute * MINUTE_MS < until and len(found) < limit:
            some, reached = self._bucket_page(self._files, minute, after, until, limit - len(found))
            found += some
            if reached is None:
                minute = self._next_minute(self._files.bucket_end(minute))
            else:
                after = reached
        return found

    def _bucket_page(
        self, files: BucketFiles, minute: int, after: BucketPosition, until: int, limit: int
    ) -> tuple[list[Timer], BucketPosition | None]:
        """Return the first timers of a bucket, and the position reached; ``None``: its end.

        Files may be large and are unordered. This reads a file twice: for the timers that may come
        next, and for the ends of these timers.
        """
        first, are_more = files.first_timers(minute, after, until, limit)
        with self._lock:
            new, moved = self._unwritten.between(minute, files.bucket_end(minute)), self._moved.copy()
        pendings = np.unique(np.concatenate((first["pending"].astype(np.int64), new[:, PENDING])))
        stored = files.read_timers(minute, pendings) if pendings.size else first
        live = resolve_moved(live_timers(np.concatenate((stored, encode_entries(new)))), moved)
        last = (int(first["due"][-1]), int(first["pending"][-1])) if are_more else (until, -1)
        columns = (live[name].tolist() for name in Timer._fields)
        timers = [timer for timer in map(Timer, *columns) if after < timer[:2] <= last]
        if len(timers) > limit:
            return timers[:limit], timers[limit - 1][:2]
        return timers, last if are_more else None


def timer_end(timers: TimerStore, pending: int, delay_time: int, size: int) -> TimerEnded:
    """Build the end of a timer that will not fire, for a control record."""
    due = timers.due_time(pending, delay_time)
    return TimerEnded(pending=pending, due=delay_time, size=size, moved_due=due if due != delay_time else 0)
