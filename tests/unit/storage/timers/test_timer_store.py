"""``TimerStore`` against a plain dictionary, through loading, writing behind and crashes."""

import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from litemq.proto.control_pb2 import Control, TimerMoved, TimersEnded
from litemq.storage.files.disk import DISK
from litemq.storage.state.machine_parts import PlacedEvent
from litemq.storage.state.part import PlacedRecord
from litemq.storage.state.timers.moved_timers import MovedTimers
from litemq.storage.state.timers.pending_totals import TimersFired
from litemq.storage.timers import timer_store
from litemq.storage.timers.bucket_files import BucketFiles
from litemq.storage.timers.entries import MINUTE_MS, Timer
from litemq.storage.timers.timer_store import TimerStore, timer_end
from litemq.types import RecordKind

FAR = 1 << 60
HOUR = 60 * MINUTE_MS


def _open_store(directory: Path) -> TimerStore:
    return TimerStore(BucketFiles(DISK, directory))


def _live(store: TimerStore, timers: list[Timer]) -> set[Timer]:
    dues, pendings = (np.array([timer[field] for timer in timers], np.int64) for field in (0, 1))
    return {timer for timer, waits in zip(timers, store.live_among(dues, pendings).tolist(), strict=True) if waits}


def test_a_timer_is_written_and_loaded(tmp_path: Path) -> None:
    store = _open_store(tmp_path)
    store.load(HOUR)
    store.begin(50 * HOUR, 0, 8)
    store.write_behind(8)
    store.seal(8)
    again = _open_store(tmp_path)
    again.load(49 * HOUR)
    assert again.take(FAR, FAR, 9) == []
    again.load(50 * HOUR + 1)
    assert again.next_due == 50 * HOUR
    assert again.take(50 * HOUR, FAR, 9) == [Timer(50 * HOUR, 0, 8)]
    assert again.is_taken(0)
    again.end(50 * HOUR, 0, 8)
    assert not again.is_taken(0)
    again.write_behind(16)
    again.seal(16)
    assert [path.name for path in tmp_path.iterdir()] == ["manifest"]  # it has come and gone


def test_in_memory_alone() -> None:
    store = TimerStore(None)
    store.begin(50 * HOUR, 0, 8)
    store.load(HOUR)
    store.write_behind(8)
    store.seal(8)
    assert store.take(50 * HOUR, FAR, 9) == [Timer(50 * HOUR, 0, 8)]
    store.give_back([Timer(50 * HOUR, 0, 8)])
    assert store.next_due == 50 * HOUR


def test_timers_over_the_limit_stay_in_their_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("litemq.storage.timers.timer_store._MAX_NEAR", 2)
    store = _open_store(tmp_path)
    for number in range(6):
        store.begin(number * MINUTE_MS, 8 * number, 8)
    store.load(HOUR)
    assert store.near_end == 2 * MINUTE_MS
    for timer in store.take(HOUR, FAR, 9):
        store.end(timer.due, timer.pending, 1000)
    store.load(HOUR)
    assert [timer.due for timer in store.take(HOUR, FAR, 9)] == [2 * MINUTE_MS, 3 * MINUTE_MS]


def test_live_among(tmp_path: Path) -> None:
    store = _open_store(tmp_path)
    timers = [
        Timer(due, 8 * number, 8) for number, due in enumerate((HOUR, 30 * HOUR, 30 * HOUR + MINUTE_MS, 90 * HOUR))
    ]
    for timer in timers:
        store.begin(*timer)
    store.write_behind(16)
    with store.watch_ended() as has_ended:
        store.end(timers[1].due, timers[1].pending, 32)
        store.write_behind(64)
        assert [has_ended(timer.pending) for timer in timers] == [False, True, False, False]
        has_ended.forget([timers[1].pending])
        assert not has_ended(timers[1].pending)
    assert _live(store, timers) == {timers[0], timers[2], timers[3]}


@contextmanager
def _meanwhile(owner: object, name: str, act: Callable[[], None]) -> Iterator[None]:
    """Call ``act`` before the first call of the function ``name``."""
    work = getattr(owner, name)

    def acting(*arguments: object) -> object:
        replaced.stop()
        act()
        return work(*arguments)

    replaced = patch.object(owner, name, acting)
    replaced.start()
    try:
        yield
    finally:
        replaced.stop()


@pytest.mark.parametrize("where", ["written", "unwritten"])
@pytest.mark.parametrize("moment", ["read", "sorted"])
def test_a_timer_that_begins_before_the_loaded_minute(tmp_path: Path, moment: str, where: str) -> None:
    """A later minute was chosen to load, because no earlier timer existed then."""
    store = _open_store(tmp_path)
    store.load(MINUTE_MS)
    store.begin(5 * MINUTE_MS, 0, 8)
    store.write_behind(8 if where == "written" else 0)

    def meanwhile() -> None:
        store.begin(2 * MINUTE_MS, 8, 8)

    with (
        _meanwhile(BucketFiles, "read", meanwhile)
        if moment == "read"
        else _meanwhile(timer_store, "live_timers", meanwhile)
    ):
        store.load(6 * MINUTE_MS)
    store.write_behind(16)
    store.seal(16)
    assert store.take(6 * MINUTE_MS, FAR, 9) == [Timer(2 * MINUTE_MS, 8, 8), Timer(5 * MINUTE_MS, 0, 8)]


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("begin"), st.integers(0, 60) | st.integers(0, 60 * 60)),
        st.tuples(st.just("end"), st.integers(0, 50)),
        st.tuples(st.just("load"), st.integers(0, 3 * 60)),
        st.tuples(st.sampled_from(["while a file is read", "while a minute is sorted"]), st.integers(0, 60)),
        st.tuples(st.just("fire"), st.integers(1, 5)),
        st.tuples(st.just("write"), st.integers(0, 40)),
        st.tuples(st.just("crash"), st.just(0)),
    ),
    max_size=50,
)


@settings(max_examples=200, deadline=None)
@given(STEPS)
def test_timers_match_a_dictionary(steps: list[tuple[str, int]]) -> None:
    """The test keeps a log; after a crash, it replays the log from the sealed offset on."""
    with tempfile.TemporaryDirectory() as directory:
        store = _open_store(Path(directory))
        log: list[tuple[int, Timer, bool]] = []  # cause, timer, whether it begins
        waiting: dict[int, Timer] = {}
        now, sealed = 0, 0

        def record(timer: Timer, *, begins: bool) -> None:
            cause = timer.pending if begins else 8 * len(log)
            log.append((cause, timer, begins))
            if begins:
                store.begin(*timer)
                waiting[timer.pending] = timer
            else:
                store.end(timer.due, timer.pending, cause)
                del waiting[timer.pending]

        def both(now: int, number: int) -> None:
            if waiting:
                record(sorted(waiting.values())[number % len(waiting)], begins=False)
            record(Timer(now + number * MINUTE_MS, 8 * len(log), 8), begins=True)

        for step, number in steps:
            if step == "begin":
                record(Timer(now + number * MINUTE_MS + number, 8 * len(log), 8), begins=True)
            elif step == "end" and waiting:
                record(sorted(waiting.values())[number % len(waiting)], begins=False)
            elif step == "load":
                now += number * MINUTE_MS
                store.load(now + MINUTE_MS)
            elif step.startswith("while"):  # one begins and another ends meanwhile
                act = partial(both, now, number)
                with (
                    _meanwhile(BucketFiles, "read", act)
                    if "read" in step
                    else _meanwhile(timer_store, "live_timers", act)
                ):
                    store.load(now + 60 * MINUTE_MS)
            elif step == "fire":
                store.load(now + MINUTE_MS)
                found = store.take(now, FAR, number)
                assert found == sorted(timer for timer in waiting.values() if timer.due <= now)[:number]
                for timer in found:
                    record(timer, begins=False)
            elif step == "write":
                sealed = max(sealed, 8 * len(log) - 8 * number)
                store.write_behind(sealed)
                store.seal(sealed)
            elif step == "crash":
                files = BucketFiles(DISK, Path(directory))
                begin = max(files.applied or 0, sealed) if files.applied is not None else 0
                store = TimerStore(files)
                for cause, timer, begins in log:
                    if cause >= begin:
                        store.begin(*timer) if begins else store.end(timer.due, timer.pending, cause)
                store.load(now + MINUTE_MS)
            assert _live(store, [timer for _, timer, _ in log]) == set(waiting.values())
        store.load(now + 100 * 60 * HOUR)
        assert store.take(FAR, FAR, 1000) == sorted(waiting.values())


def _fired(delay_time: int, pending: int, log_offset: int) -> TimersFired:
    return TimersFired(*(np.array([value], np.int64) for value in (log_offset, pending, delay_time, 8)))


class _Log:
    """A log of events, applied to the timers and to the state, with a dictionary as the model."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.events: list[PlacedEvent | Control] = []
        self.moved = MovedTimers()
        self.store = _open_store(directory)
        self.waiting: dict[int, tuple[int, int]] = {}  # by pending: due time, and that of the record
        self.sealed = 0

    @property
    def end(self) -> int:
        return 8 * len(self.events)

    def record(self, event: PlacedEvent | Control) -> None:
        at = self.end
        self.events.append(event)
        self._apply(self.store, event, at)
        if isinstance(event, Control):
            self.moved.apply(event)
        elif isinstance(event, TimersFired):
            self.moved.apply_fired(event)
        elif isinstance(event, PlacedRecord):
            self.moved.place(event)

    @staticmethod
    def _apply(store: TimerStore, event: PlacedEvent | Control, at: int) -> None:
        if isinstance(event, Control):
            store.apply(event, at)
        else:
            store.place(event)

    def place(self, kind: RecordKind, delay_time: int, origin: int = -1) -> None:
        self.record(PlacedRecord(self.end, kind, origin, 1, 0, 0, 0, delay_time, 8, 0))

    def begin(self, due: int) -> None:
        self.waiting[self.end] = due, due
        self.place(RecordKind.PENDING, due)

    def carry(self, pending: int) -> None:
        due, home = self.waiting.pop(pending)
        self.waiting[self.end] = due, home
        self.place(RecordKind.PENDING, home, pending)

    def fire(self, pending: int) -> None:
        _, home = self.waiting.pop(pending)
        self.record(_fired(home, pending, self.end))

    def move(self, pending: int, due: int) -> None:
        before, home = self.waiting[pending]
        assert self.store.due_time(pending, home) == before
        self.waiting[pending] = due, home
        self.record(
            Control(timer_moved=TimerMoved(pending=pending, delay_time=home, due_before=before, due=due, size=8))
        )

    def cancel(self, pending: int) -> None:
        _, home = self.waiting.pop(pending)
        self.record(Control(timers_ended=TimersEnded(timers=[timer_end(self.store, pending, home, 8)], cancelled=True)))

    def seal(self, below: int = 1 << 60) -> None:
        self.sealed = max(self.sealed, min(below, self.end))
        self.store.write_behind(self.sealed)
        self.store.seal(self.sealed)

    def crash(self, *, lose_files: bool) -> None:
        """Reopen: the state is complete, the files are as sealed, and the rest is replayed."""
        files = BucketFiles(DISK, self.directory)
        if lose_files:
            files.clear()
        begin = 0 if files.applied is None else max(files.applied, self.sealed)
        self.store = TimerStore(files)
        for number, event in enumerate(self.events):
            if 8 * number >= begin:
                self._apply(self.store, event, 8 * number)
        self.store.load_moved(self.moved, begin)

    def check(self) -> None:
        pendings = [
            event.log_offset
            for event in self.events
            if isinstance(event, PlacedRecord) and event.kind is RecordKind.PENDING
        ]
        homes = [
            event.delay_time
            for event in self.events
            if isinstance(event, PlacedRecord) and event.kind is RecordKind.PENDING
        ]
        live = self.store.live_among(np.array(homes, np.int64), np.array(pendings, np.int64)).tolist()
        assert {pending for pending, waits in zip(pendings, live, strict=True) if waits} == set(self.waiting)
        expected = sorted(Timer(due, pending, 8) for pending, (due, _) in self.waiting.items())
        assert self.store.page((0, -1), FAR, 1000) == expected
        if expected:
            middle = expected[len(expected) // 2]
            assert self.store.page(middle[:2], FAR, 1000) == [timer for timer in expected if timer > middle]


MOVES = st.lists(
    st.one_of(
        st.tuples(st.just("begin"), st.integers(0, 60 * 60), st.just(0)),
        st.tuples(st.sampled_from(["carry", "cancel"]), st.integers(0, 50), st.just(0)),
        st.tuples(st.just("move"), st.integers(0, 50), st.sampled_from([0, 1, 2, 61, 1500, 3000])),
        st.tuples(st.just("pass"), st.integers(0, 3 * 60), st.just(0)),
        st.tuples(st.just("write"), st.integers(0, 10), st.just(0)),
        st.tuples(st.just("crash"), st.integers(0, 4), st.just(0)),
    ),
    max_size=40,
)


@settings(max_examples=200, deadline=None)
@given(MOVES)
def test_moved_carried_and_cancelled_timers_match_a_dictionary(steps: list[tuple[str, int, int]]) -> None:
    with tempfile.TemporaryDirectory() as directory:
        log = _Log(Path(directory))
        now = HOUR  # nothing is moved to before 1970
        for step, number, minutes in steps:
            pendings = sorted(log.waiting)
            chosen = pendings[number % len(pendings)] if pendings else None
            if step == "begin":
                log.begin(now + number * MINUTE_MS + number)
            elif step == "carry" and chosen is not None:
                log.carry(chosen)
            elif step == "cancel" and chosen is not None:
                log.cancel(chosen)
            elif step == "move" and chosen is not None:
                log.move(chosen, now + minutes * MINUTE_MS)
            elif step == "pass":
                now += number * MINUTE_MS
                log.store.load(now + MINUTE_MS)
                taken = log.store.take(now, FAR, 1000)
                assert taken == sorted(
                    Timer(due, pending, 8) for pending, (due, _) in log.waiting.items() if due <= now
                )
                for timer in taken:
                    log.fire(timer.pending)
            elif step == "write":
                log.seal(log.end - 8 * number)
            elif step == "crash":
                log.crash(lose_files=number == 0)
                log.store.load(now + MINUTE_MS)
            log.check()
        log.store.load(now + 100 * 60 * HOUR)
        assert log.store.take(FAR, FAR, 1000) == sorted(
            Timer(due, pending, 8) for pending, (due, _) in log.waiting.items()
        )


def test_a_timer_carried_after_sealing_keeps_its_moved_time(tmp_path: Path) -> None:
    """The replayed records do not have its due time; the state does."""
    log = _Log(tmp_path)
    log.begin(50 * HOUR)
    log.move(0, 90 * HOUR)
    log.seal()
    log.carry(0)
    for _ in range(2):
        log.crash(lose_files=False)
        log.check()
    log.store.load(50 * HOUR + 1)
    assert log.store.take(89 * HOUR, FAR, 9) == []
    log.store.load(90 * HOUR + 1)
    assert log.store.take(90 * HOUR, FAR, 9) == [Timer(90 * HOUR, 16, 8)]


@pytest.mark.parametrize("ending", ["fire", "cancel", "carry", "move", "move again"])
@pytest.mark.parametrize("sealed", ["before the carrying", "after the carrying"])
@pytest.mark.parametrize("crashes", ["only at the end", "before it ends, too"])
@pytest.mark.parametrize("due", [10, 90, 51])
def test_a_timer_that_ended_at_its_moved_time_stays_ended(
    tmp_path: Path, ending: str, sealed: str, crashes: str, due: int
) -> None:
    """It fires at neither of its due times, although the files have only part of its entries."""
    log = _Log(tmp_path)
    log.begin(50 * HOUR)
    log.move(0, due * HOUR)
    if sealed == "before the carrying":
        log.seal()
    log.carry(0)
    if sealed == "after the carrying":
        log.seal()
    if crashes == "before it ends, too":
        log.crash(lose_files=False)
    match ending:
        case "fire":
            log.fire(16)
        case "cancel":
            log.cancel(16)
        case "carry":
            log.carry(16)
        case "move":
            log.move(16, 130 * HOUR)
            log.cancel(16)
        case "move again":
            log.move(16, 130 * HOUR)
            log.move(16, 50 * HOUR)
            log.move(16, 130 * HOUR)
            log.fire(16)
    log.check()
    log.crash(lose_files=False)
    log.check()
    log.crash(lose_files=True)
    log.check()


def test_a_timer_moved_while_its_minute_is_loaded(tmp_path: Path) -> None:
    log = _Log(tmp_path)
    for _ in range(4):
        log.begin(50 * HOUR)
    log.move(8, 60 * HOUR)
    log.store.write_behind(log.end)

    def meanwhile() -> None:
        log.move(0, 55 * HOUR)  # away
        log.move(8, 50 * HOUR + 5)  # to here
        log.move(16, 50 * HOUR + 7)  # within it
        log.cancel(24)
        log.move(8, 70 * HOUR)
        log.move(8, 50 * HOUR + 6)

    with _meanwhile(timer_store, "live_timers", meanwhile):
        log.store.load(50 * HOUR + 1)
    log.check()
    assert log.store.take(51 * HOUR, FAR, 9) == [Timer(50 * HOUR + 6, 8, 8), Timer(50 * HOUR + 7, 16, 8)]


def test_watch_ended() -> None:
    store = TimerStore(None)
    for pending in (0, 8, 16):
        store.begin(50, pending, 8)
    store.end(50, 0, 24)
    with store.watch_ended() as has_ended:
        store.end(50, 8, 32)
        store.apply(Control(timer_moved=TimerMoved(pending=16, delay_time=50, due_before=50, due=60, size=8)), 40)
        assert [has_ended(pending) for pending in (0, 8, 16)] == [False, True, False]
        store.place(_fired(50, 16, 48))
        assert has_ended(16)
    assert store.page((0, -1), FAR, 9) == []
