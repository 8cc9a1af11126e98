"""All timers of a store, against a plain dictionary, through loading, writing behind and crashes."""

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
from litemq.storage.timers import timer_store as held_module
from litemq.storage.timers.bucket_files import BucketFiles
from litemq.storage.timers.entries import MINUTE_MS, Timer
from litemq.storage.timers.timer_store import HeldTimers, ending_of
from litemq.types import RecordKind

FAR = 1 << 60
HOUR = 60 * MINUTE_MS


def _held(directory: Path) -> HeldTimers:
    return HeldTimers(BucketFiles(DISK, directory))


def _live(held: HeldTimers, timers: list[Timer]) -> set[Timer]:
    dues, pendings = (np.array([timer[field] for timer in timers], np.int64) for field in (0, 1))
    return {timer for timer, waits in zip(timers, held.live_among(dues, pendings).tolist(), strict=True) if waits}


def test_a_timer_goes_to_its_file_and_comes_back(tmp_path: Path) -> None:
    held = _held(tmp_path)
    held.load(HOUR)
    held.begin(50 * HOUR, 0, 8)
    held.write_behind(8)
    held.seal(8)
    again = _held(tmp_path)
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
    held = HeldTimers(None)
    held.begin(50 * HOUR, 0, 8)
    held.load(HOUR)
    held.write_behind(8)
    held.seal(8)
    assert held.take(50 * HOUR, FAR, 9) == [Timer(50 * HOUR, 0, 8)]
    held.give_back([Timer(50 * HOUR, 0, 8)])
    assert held.next_due == 50 * HOUR


def test_too_much_at_once_waits_in_its_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("litemq.storage.timers.timer_store._MOST_NEAR", 2)
    held = _held(tmp_path)
    for number in range(6):
        held.begin(number * MINUTE_MS, 8 * number, 8)
    held.load(HOUR)
    assert held.near_end == 2 * MINUTE_MS
    for timer in held.take(HOUR, FAR, 9):
        held.end(timer.due, timer.pending, 1000)
    held.load(HOUR)
    assert [timer.due for timer in held.take(HOUR, FAR, 9)] == [2 * MINUTE_MS, 3 * MINUTE_MS]


def test_those_that_still_wait_are_told(tmp_path: Path) -> None:
    held = _held(tmp_path)
    timers = [Timer(due, 8 * number, 8) for number, due in enumerate((HOUR, 30 * HOUR, 30 * HOUR + MINUTE_MS, 90 * HOUR))]
    for timer in timers:
        held.begin(*timer)
    held.write_behind(16)
    with held.watching() as has_ended:
        held.end(timers[1].due, timers[1].pending, 32)
        held.write_behind(64)
        assert [has_ended(timer.pending) for timer in timers] == [False, True, False, False]
        has_ended.forget([timers[1].pending])
        assert not has_ended(timers[1].pending)
    assert _live(held, timers) == {timers[0], timers[2], timers[3]}


@contextmanager
def _meanwhile(owner: object, name: str, act: Callable[[], None]) -> Iterator[None]:
    """Something else happens the first time that a function is called, before it does its work."""
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
def test_one_that_begins_before_the_minute_that_is_loaded(tmp_path: Path, moment: str, where: str) -> None:
    """The next minute of which something is known is a later one: up to it nothing was due when it was chosen."""
    held = _held(tmp_path)
    held.load(MINUTE_MS)
    held.begin(5 * MINUTE_MS, 0, 8)
    held.write_behind(8 if where == "written" else 0)

    def meanwhile() -> None:
        held.begin(2 * MINUTE_MS, 8, 8)

    with _meanwhile(BucketFiles, "read", meanwhile) if moment == "read" else _meanwhile(held_module, "live_timers", meanwhile):
        held.load(6 * MINUTE_MS)
    held.write_behind(16)
    held.seal(16)
    assert held.take(6 * MINUTE_MS, FAR, 9) == [Timer(2 * MINUTE_MS, 8, 8), Timer(5 * MINUTE_MS, 0, 8)]


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
def test_as_a_dictionary_would(steps: list[tuple[str, int]]) -> None:
    """A log of what was said is kept beside it: after a crash, what is behind the sealed offset is said again."""
    with tempfile.TemporaryDirectory() as directory:
        held = _held(Path(directory))
        log: list[tuple[int, Timer, bool]] = []  # cause, timer, whether it begins
        waiting: dict[int, Timer] = {}
        now, sealed = 0, 0

        def say(timer: Timer, *, begins: bool) -> None:
            cause = timer.pending if begins else 8 * len(log)
            log.append((cause, timer, begins))
            if begins:
                held.begin(*timer)
                waiting[timer.pending] = timer
            else:
                held.end(timer.due, timer.pending, cause)
                del waiting[timer.pending]

        def both(now: int, number: int) -> None:
            if waiting:
                say(sorted(waiting.values())[number % len(waiting)], begins=False)
            say(Timer(now + number * MINUTE_MS, 8 * len(log), 8), begins=True)

        for step, number in steps:
            if step == "begin":
                say(Timer(now + number * MINUTE_MS + number, 8 * len(log), 8), begins=True)
            elif step == "end" and waiting:
                say(sorted(waiting.values())[number % len(waiting)], begins=False)
            elif step == "load":
                now += number * MINUTE_MS
                held.load(now + MINUTE_MS)
            elif step.startswith("while"):  # one begins and another ends meanwhile
                act = partial(both, now, number)
                with _meanwhile(BucketFiles, "read", act) if "read" in step else _meanwhile(held_module, "live_timers", act):
                    held.load(now + 60 * MINUTE_MS)
            elif step == "fire":
                held.load(now + MINUTE_MS)
                found = held.take(now, FAR, number)
                assert found == sorted(timer for timer in waiting.values() if timer.due <= now)[:number]
                for timer in found:
                    say(timer, begins=False)
            elif step == "write":
                sealed = max(sealed, 8 * len(log) - 8 * number)
                held.write_behind(sealed)
                held.seal(sealed)
            elif step == "crash":
                files = BucketFiles(DISK, Path(directory))
                begin = max(files.applied or 0, sealed) if files.applied is not None else 0
                held = HeldTimers(files)
                for cause, timer, begins in log:
                    if cause >= begin:
                        held.begin(*timer) if begins else held.end(timer.due, timer.pending, cause)
                held.load(now + MINUTE_MS)
            assert _live(held, [timer for _, timer, _ in log]) == set(waiting.values())
        held.load(now + 100 * 60 * HOUR)
        assert held.take(FAR, FAR, 1000) == sorted(waiting.values())


def _fired(delay_time: int, pending: int, log_offset: int) -> TimersFired:
    return TimersFired(*(np.array([value], np.int64) for value in (log_offset, pending, delay_time, 8)))


class _Log:
    """What records say, to timers and to the part of the state that knows the moved ones; and a plain dictionary of what must be."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.said: list[PlacedEvent | Control] = []
        self.moved = MovedTimers()
        self.held = _held(directory)
        self.waiting: dict[int, tuple[int, int]] = {}  # by pending: due time, and that of the record
        self.sealed = 0

    @property
    def end(self) -> int:
        return 8 * len(self.said)

    def say(self, event: PlacedEvent | Control) -> None:
        at = self.end
        self.said.append(event)
        self._tell(self.held, event, at)
        if isinstance(event, Control):
            self.moved.apply(event)
        elif isinstance(event, TimersFired):
            self.moved.fired(event)
        elif isinstance(event, PlacedRecord):
            self.moved.place(event)

    @staticmethod
    def _tell(held: HeldTimers, event: PlacedEvent | Control, at: int) -> None:
        if isinstance(event, Control):
            held.apply(event, at)
        else:
            held.place(event)

    def place(self, kind: RecordKind, delay_time: int, origin: int = -1) -> None:
        self.say(PlacedRecord(self.end, kind, origin, 1, 0, 0, 0, delay_time, 8, 0))

    def begin(self, due: int) -> None:
        self.waiting[self.end] = due, due
        self.place(RecordKind.PENDING, due)

    def carry(self, pending: int) -> None:
        due, home = self.waiting.pop(pending)
        self.waiting[self.end] = due, home
        self.place(RecordKind.PENDING, home, pending)

    def fire(self, pending: int) -> None:
        _, home = self.waiting.pop(pending)
        self.say(_fired(home, pending, self.end))

    def move(self, pending: int, due: int) -> None:
        before, home = self.waiting[pending]
        assert self.held.due_of(pending, home) == before
        self.waiting[pending] = due, home
        self.say(Control(timer_moved=TimerMoved(pending=pending, delay_time=home, due_before=before, due=due, size=8)))

    def cancel(self, pending: int) -> None:
        _, home = self.waiting.pop(pending)
        self.say(Control(timers_ended=TimersEnded(timers=[ending_of(self.held, pending, home, 8)], cancelled=True)))

    def seal(self, below: int = 1 << 60) -> None:
        self.sealed = max(self.sealed, min(below, self.end))
        self.held.write_behind(self.sealed)
        self.held.seal(self.sealed)

    def crash(self, *, lose_files: bool) -> None:
        """The state is known up to the log's end, the files only up to where they were sealed: the rest is told again."""
        files = BucketFiles(DISK, self.directory)
        if lose_files:
            files.clear()
        begin = 0 if files.applied is None else max(files.applied, self.sealed)
        self.held = HeldTimers(files)
        for number, event in enumerate(self.said):
            if 8 * number >= begin:
                self._tell(self.held, event, 8 * number)
        self.held.know_moved(self.moved, begin)

    def check(self) -> None:
        everybody = [event.log_offset for event in self.said if isinstance(event, PlacedRecord) and event.kind is RecordKind.PENDING]
        homes = [event.delay_time for event in self.said if isinstance(event, PlacedRecord) and event.kind is RecordKind.PENDING]
        live = self.held.live_among(np.array(homes, np.int64), np.array(everybody, np.int64)).tolist()
        assert {pending for pending, waits in zip(everybody, live, strict=True) if waits} == set(self.waiting)
        expected = sorted(Timer(due, pending, 8) for pending, (due, _) in self.waiting.items())
        assert self.held.page((0, -1), FAR, 1000) == expected
        if expected:
            middle = expected[len(expected) // 2]
            assert self.held.page(middle[:2], FAR, 1000) == [timer for timer in expected if timer > middle]


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
def test_moved_carried_and_cancelled_as_in_a_dictionary(steps: list[tuple[str, int, int]]) -> None:
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
                log.held.load(now + MINUTE_MS)
                taken = log.held.take(now, FAR, 1000)
                assert taken == sorted(Timer(due, pending, 8) for pending, (due, _) in log.waiting.items() if due <= now)
                for timer in taken:
                    log.fire(timer.pending)
            elif step == "write":
                log.seal(log.end - 8 * number)
            elif step == "crash":
                log.crash(lose_files=number == 0)
                log.held.load(now + MINUTE_MS)
            log.check()
        log.held.load(now + 100 * 60 * HOUR)
        assert log.held.take(FAR, FAR, 1000) == sorted(Timer(due, pending, 8) for pending, (due, _) in log.waiting.items())


def test_carried_on_after_the_files_were_sealed_it_keeps_its_moved_time(tmp_path: Path) -> None:
    """The records that are told again do not say when it is due: the state does."""
    log = _Log(tmp_path)
    log.begin(50 * HOUR)
    log.move(0, 90 * HOUR)
    log.seal()
    log.carry(0)
    for _ in range(2):
        log.crash(lose_files=False)
        log.check()
    log.held.load(50 * HOUR + 1)
    assert log.held.take(89 * HOUR, FAR, 9) == []
    log.held.load(90 * HOUR + 1)
    assert log.held.take(90 * HOUR, FAR, 9) == [Timer(90 * HOUR, 16, 8)]


@pytest.mark.parametrize("ending", ["fire", "cancel", "carry", "move", "move again"])
@pytest.mark.parametrize("sealed", ["before the carrying", "behind the carrying"])
@pytest.mark.parametrize("crashes", ["only at the end", "before it ends, too"])
@pytest.mark.parametrize("due", [10, 90, 51])
def test_what_ended_at_its_moved_time_does_not_come_back(tmp_path: Path, ending: str, sealed: str, crashes: str, due: int) -> None:
    """Neither at the time that its record says, nor at the one that it was moved to, though the files know only part of it."""
    log = _Log(tmp_path)
    log.begin(50 * HOUR)
    log.move(0, due * HOUR)
    if sealed == "before the carrying":
        log.seal()
    log.carry(0)
    if sealed == "behind the carrying":
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


def test_moved_while_its_minute_is_loaded(tmp_path: Path) -> None:
    log = _Log(tmp_path)
    for _ in range(4):
        log.begin(50 * HOUR)
    log.move(8, 60 * HOUR)
    log.held.write_behind(log.end)

    def meanwhile() -> None:
        log.move(0, 55 * HOUR)  # away
        log.move(8, 50 * HOUR + 5)  # to here
        log.move(16, 50 * HOUR + 7)  # within it
        log.cancel(24)
        log.move(8, 70 * HOUR)
        log.move(8, 50 * HOUR + 6)

    with _meanwhile(held_module, "live_timers", meanwhile):
        log.held.load(50 * HOUR + 1)
    log.check()
    assert log.held.take(51 * HOUR, FAR, 9) == [Timer(50 * HOUR + 6, 8, 8), Timer(50 * HOUR + 7, 16, 8)]


def test_watching_tells_what_has_ended_since() -> None:
    held = HeldTimers(None)
    for pending in (0, 8, 16):
        held.begin(50, pending, 8)
    held.end(50, 0, 24)
    with held.watching() as has_ended:
        held.end(50, 8, 32)
        held.apply(Control(timer_moved=TimerMoved(pending=16, delay_time=50, due_before=50, due=60, size=8)), 40)
        assert [has_ended(pending) for pending in (0, 8, 16)] == [False, True, False]
        held.place(_fired(50, 16, 48))
        assert has_ended(16)
    assert held.page((0, -1), FAR, 9) == []
