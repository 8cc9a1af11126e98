"""All timers of a store: those due soon in memory, the others in bucket files, and what is on its way there.

What records say comes in the order of the log, and goes to the files once it is confirmed; what a file does not hold at a crash comes again from
the log. Minutes move from the files into memory as they come near, always the next one: everything due before ``near_end`` is in memory.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Final

import numpy as np
import numpy.typing as npt

from litemq.errors import InvalidArgumentError
from litemq.proto.control_pb2 import Control, TimerEnded, TimerMoved
from litemq.storage.batches.batch import Placed
from litemq.storage.state.machine_parts import PlacedEvent
from litemq.storage.state.part import PlacedRecord
from litemq.storage.state.timers.moved_timers import Moved
from litemq.storage.state.timers.pending_totals import TimersBegun, TimersFired, is_timer
from litemq.storage.timers.bucket_files import BucketFiles, Place
from litemq.storage.timers.entries import MINUTE_MS, Timer, entries_of, live_timers
from litemq.storage.timers.near_timers import NearTimers
from litemq.storage.timers.pending_entries import DUE, PENDING, Rows, UnwrittenRows
from litemq.storage.timers.rescheduled import MOVED, true_timers
from litemq.types import RecordKind

__all__ = ["EndedSince", "HeldTimers", "ending_of"]

Longs = npt.NDArray[np.int64]

_FOREVER: Final = 1 << 62
_MOST_NEAR: Final = 500_000  # when so many are in memory, the next minute waits until they have been fired

_APART_BEFORE_MS: Final = 6 * 3_600_000  # taking a day apart may take a while, and nobody must wait for it


class EndedSince:
    """Which timers have ended since somebody began to watch: at their place in the log, not those that were moved to another time."""

    def __init__(self, is_moved: Callable[[int], bool]) -> None:
        self.places: set[int] = set()
        self._is_moved = is_moved

    def __call__(self, pending: int) -> bool:
        return pending in self.places and not self._is_moved(pending)

    def forget(self, pendings: Iterable[int]) -> None:
        """Nobody will ask for these any more: of millions that are carried on, only those count that are still to be."""
        self.places.difference_update(pendings)


class HeldTimers:
    """Any thread may call; whoever loads or writes behind does so one at a time, as a store's keeper does."""

    def __init__(self, files: BucketFiles | None) -> None:
        """Without files, everything is in memory."""
        self._files = files
        self._lock = threading.Lock()
        self._near = NearTimers(_FOREVER if files is None else 0)
        self._unwritten = UnwrittenRows()  # what is not in its file yet
        self._moved: dict[int, int] = {}  # when those are due that wait until another time than their record says
        self._watches: list[set[int]] = []

    @property
    def near_end(self) -> int:
        """Everything that is due before it (ms) is in memory."""
        return self._near.end

    # What records say ---------------------------------------------------------------------------------------------------------

    def place(self, event: PlacedEvent, *, was_half: bool = False) -> None:
        """Take in what records say that are no plain messages; ``was_half``: one waits, but its origin did not wait for a time."""
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
        """One that was due at ``home`` at first waits no longer; returns when it was due in the end."""
        due = self._moved.pop(pending, home)
        self._end(due, pending, cause)
        if due != home:
            self._note(home, pending, cause, 0)
        return due

    def _fired(self, event: TimersFired) -> None:
        with self._lock:
            if self._moved or self._watches:  # somebody wants to know more of each
                for due, pending, cause in zip(event.dues.tolist(), event.origins.tolist(), event.log_offsets.tolist(), strict=True):
                    self._end_at_home(due, pending, cause)
                return
            for due, pending in zip(event.dues.tolist(), event.origins.tolist(), strict=True):
                if due < self._near.end:
                    self._near.finish(due, pending)
            if self._files is not None:
                ended = np.zeros(event.dues.size, np.int64)
                self._unwritten.add_many(np.stack((event.dues, event.origins, event.log_offsets, ended), axis=1))

    def apply(self, control: Control, log_offset: int) -> None:
        """Take in a change."""
        match control.WhichOneof("change"):
            case "timer_ended":
                self._end_told(control.timer_ended, log_offset)
            case "timers_ended":
                for told in control.timers_ended.timers:
                    self._end_told(told, log_offset)
            case "timer_moved":
                self._move(control.timer_moved, log_offset)

    def _end_told(self, told: TimerEnded, log_offset: int) -> None:
        with self._lock:
            self._moved.pop(told.pending, None)
            self._end(told.moved_due or told.due, told.pending, log_offset)
            if told.moved_due:
                self._note(told.due, told.pending, log_offset, 0)

    def _move(self, told: TimerMoved, log_offset: int) -> None:
        with self._lock:
            self._moved[told.pending] = told.due
            self._end(told.due_before, told.pending, log_offset)
            self._begin(told.due, told.pending, log_offset, told.size, MOVED)

    def know_moved(self, moved: Iterable[tuple[int, Moved]], since: int) -> None:
        """All timers that were moved, as they are at the end of a log of which the records from ``since`` on were told.

        Of those that were carried on meanwhile, the records alone did not say when they are due.
        """
        with self._lock:
            told = dict(moved)
            self._moved = {pending: due for pending, (due, _) in told.items()}
            carried = [(due, pending, pending, size | MOVED) for pending, (due, size) in told.items() if pending >= since]
            if carried and self._files is not None:
                self._unwritten.insert(np.array(carried, np.int64))

    def check_fired(self, placed: Iterable[Placed]) -> None:
        """Refuse to fire what nobody has taken, or what has ended since: nothing is delivered twice."""
        fired = [each.origin for each in placed if each.kind is RecordKind.FIRED]
        with self._lock:
            for origin in fired:
                if not self._near.is_taken(origin):
                    raise InvalidArgumentError(f"the record at log offset {origin} is no timer that was taken, or it has ended")

    def begin(self, due: int, pending: int, size: int) -> None:
        """A record waits until it is due."""
        with self._lock:
            self._begin(due, pending, pending, size, 0)

    def _begin(self, due: int, pending: int, cause: int, size: int, moved: int) -> None:
        if due < self._near.end:
            self._near.begin(Timer(due, pending, size))
        self._note(due, pending, cause, size | moved)

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
            self._end(due, pending, cause)

    def _end(self, due: int, pending: int, cause: int) -> None:
        if due < self._near.end:
            self._near.finish(due, pending)
        self._note(due, pending, cause, 0)
        for watch in self._watches:
            watch.add(pending)

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
        """The next minute comes into memory. Sorting it may take a while, in which nobody has to wait: what is said meanwhile, of this minute or
        of those before it, of which nothing was known, comes behind."""
        stored = files.read(minute)
        first = self._near.end // MINUTE_MS
        with self._lock:
            if len(self._unwritten.between(first, minute)):
                return  # an earlier one is the next by now
            new, moved = self._unwritten.between(minute, minute + 1), self._moved.copy()
        entries = np.concatenate((stored, entries_of(new)))
        live = true_timers(live_timers(entries), moved)
        with self._lock:
            since = self._unwritten.between(first, minute + 1)[len(new) :]
            said_since = np.isin(live["pending"], since[:, PENDING])
            self._near.load(live[~said_since] if said_since.any() else live, (minute + 1) * MINUTE_MS)
            if len(since):
                said_before = entries[np.isin(entries["pending"], since[:, PENDING])]
                late = true_timers(live_timers(np.concatenate((said_before, entries_of(since)))), self._moved)
                for timer in map(Timer, *(late[name].tolist() for name in Timer._fields)):
                    self._near.begin(timer)
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

    # Asking -------------------------------------------------------------------------------------------------------------------

    def due_of(self, pending: int, delay_time: int) -> int:
        """When a timer that waits fires; its record has a delay time."""
        with self._lock:
            return self._moved.get(pending, delay_time)

    def live_among(self, delay_times: Longs, pendings: Longs) -> npt.NDArray[np.bool_]:
        """Which of some timers, with the delay times of their records, still wait.

        It may read much from the files; nobody loads or writes behind meanwhile.
        """
        live = np.zeros(delay_times.size, np.bool_)
        minutes = delay_times // MINUTE_MS
        order = np.argsort(minutes, kind="stable")
        at = 0
        while at < order.size:
            minute = int(minutes[order[at]])
            behind = minute + 1 if self._files is None else self._files.behind(minute)
            until = int(np.searchsorted(minutes[order], behind))
            some = order[at:until]
            live[some] = np.isin(pendings[some], self._live_of(minute, behind, pendings[some]))
            at = until
        with self._lock:  # those that were moved are elsewhere; and whoever was since has ended only here
            if self._moved:
                live |= np.isin(pendings, np.fromiter(self._moved, np.int64, len(self._moved)))
        return live

    def _live_of(self, minute: int, behind: int, pendings: Longs) -> Longs:
        """Those of some timers that wait in the minutes of one file."""
        if self._files is None:
            with self._lock:
                return np.array([timer.pending for timer in self._near.all()], np.int64)
        pendings = np.sort(pendings)
        stored = self._files.read_of(minute, pendings)
        with self._lock:
            new, moved = self._unwritten.between(minute, behind), self._moved.copy()
        new = new[np.isin(new[:, PENDING], pendings)]
        return true_timers(live_timers(np.concatenate((stored, entries_of(new)))), moved)["pending"].astype(np.int64)

    @contextmanager
    def watching(self) -> Iterator[EndedSince]:
        """While somebody looks things up that take a while: says whether a timer has ended since, at its place in the log."""
        ended = EndedSince(lambda pending: pending in self._moved)
        with self._lock:
            self._watches.append(ended.places)
        try:
            yield ended
        finally:
            with self._lock:
                self._watches = [other for other in self._watches if other is not ended.places]

    def page(self, after: Place, until: int, most: int) -> list[Timer]:
        """Up to ``most`` timers that wait, in order, behind a due time and a place and due before ``until`` (ms).

        It may read much from the files; nobody loads or writes behind meanwhile.
        """
        if self._files is None:
            with self._lock:
                return sorted(timer for timer in self._near.all() if after < timer[:2] and timer.due < until)[:most]
        found: list[Timer] = []
        minute = self._next_minute(max(0, after[0]) // MINUTE_MS)
        while minute is not None and minute * MINUTE_MS < until and len(found) < most:
            some, reached = self._page_of_file(self._files, minute, after, until, most - len(found))
            found += some
            if reached is None:
                minute = self._next_minute(self._files.behind(minute))
            else:
                after = reached
        return found

    def _page_of_file(self, files: BucketFiles, minute: int, after: Place, until: int, most: int) -> tuple[list[Timer], Place | None]:
        """The first that wait in the file of a minute, and how far it was looked at; nothing: to its end.

        Files may be large, and are in no order: first those are found that may come next, and then what became of them.
        """
        first, are_more = files.first_of(minute, after, until, most)
        with self._lock:
            new, moved = self._unwritten.between(minute, files.behind(minute)), self._moved.copy()
        pendings = np.unique(np.concatenate((first["pending"].astype(np.int64), new[:, PENDING])))
        stored = files.read_of(minute, pendings) if pendings.size else first
        live = true_timers(live_timers(np.concatenate((stored, entries_of(new)))), moved)
        last = (int(first["due"][-1]), int(first["pending"][-1])) if are_more else (until, -1)
        timers = [timer for timer in map(Timer, *(live[name].tolist() for name in Timer._fields)) if after < timer[:2] <= last]
        if len(timers) > most:
            return timers[:most], timers[most - 1][:2]
        return timers, last if are_more else None


def ending_of(timers: HeldTimers, pending: int, delay_time: int, size: int) -> TimerEnded:
    """What is said of a timer that waits and will not fire."""
    due = timers.due_of(pending, delay_time)
    return TimerEnded(pending=pending, due=delay_time, size=size, moved_due=due if due != delay_time else 0)
