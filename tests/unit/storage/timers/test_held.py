"""All timers of a store, against a plain dictionary, through loading, writing behind and crashes."""

import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from litemq.storage.files import DISK
from litemq.storage.timers.bucket_files import BucketFiles
from litemq.storage.timers.entries import MINUTE_MS, Timer
from litemq.storage.timers.held import HeldTimers

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
    monkeypatch.setattr("litemq.storage.timers.held._MOST_NEAR", 2)
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
    held.end(timers[1].due, timers[1].pending, 32)
    assert _live(held, timers) == {timers[0], timers[2], timers[3]}
    assert held.ended_meanwhile(timer.due for timer in timers) == {8}


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("begin"), st.integers(0, 60 * 60)),
        st.tuples(st.just("end"), st.integers(0, 50)),
        st.tuples(st.just("load"), st.integers(0, 3 * 60)),
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

        for step, number in steps:
            if step == "begin":
                say(Timer(now + number * MINUTE_MS + number, 8 * len(log), 8), begins=True)
            elif step == "end" and waiting:
                say(sorted(waiting.values())[number % len(waiting)], begins=False)
            elif step == "load":
                now += number * MINUTE_MS
                held.load(now + MINUTE_MS)
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
