"""The scheduler itself: it repeats a schedule, finds a race and a deadlock, and keeps time."""

from collections.abc import Callable

import pytest

from support.schedules.primitives import ScheduledCondition, ScheduledEvent, ScheduledExecutor, ScheduledLock
from support.schedules.scheduler import ScheduleError, Scheduler


def _in_threads(scheduler: Scheduler, *works: Callable[[], object]) -> None:
    tasks = [scheduler.spawn(f"thread-{number}", work) for number, work in enumerate(works)]
    scheduler.wait_for(lambda: all(task.is_done for task in tasks))


def _appended(seed: int) -> list[int]:
    scheduler = Scheduler(seed)
    seen: list[int] = []

    def work(number: int) -> Callable[[], None]:
        def append() -> None:
            for _ in range(5):
                scheduler.step()
                seen.append(number)

        return append

    scheduler.run(lambda: _in_threads(scheduler, *map(work, range(3))))
    return seen


def test_a_seed_repeats_its_schedule() -> None:
    assert _appended(1) == _appended(1)
    assert len({tuple(_appended(seed)) for seed in range(20)}) > 10


def test_an_unprotected_counter_loses_updates_and_a_lock_protects_it() -> None:
    def counted(seed: int, *, is_locked: bool) -> int:
        scheduler = Scheduler(seed)
        lock = ScheduledLock(scheduler, is_reentrant=False)
        counter = [0]

        def add() -> None:
            for _ in range(5):
                if is_locked:
                    lock.acquire()
                before = counter[0]
                scheduler.step()
                counter[0] = before + 1
                if is_locked:
                    lock.release()

        scheduler.run(lambda: _in_threads(scheduler, add, add))
        return counter[0]

    assert any(counted(seed, is_locked=False) < 10 for seed in range(20))
    assert all(counted(seed, is_locked=True) == 10 for seed in range(20))


def test_a_deadlock_is_found() -> None:
    def play(seed: int) -> None:
        scheduler = Scheduler(seed)
        first, second = (ScheduledLock(scheduler, is_reentrant=True) for _ in range(2))

        def take(one: ScheduledLock, other: ScheduledLock) -> Callable[[], None]:
            def both() -> None:
                with one, other:
                    pass

            return both

        scheduler.run(lambda: _in_threads(scheduler, take(first, second), take(second, first)))

    def outcome(seed: int) -> str:
        try:
            play(seed)
        except ScheduleError as error:
            return str(error).splitlines()[0]
        return "ended"

    assert {outcome(seed) for seed in range(30)} == {"ended", "all threads wait"}


def test_time_jumps_to_the_next_deadline() -> None:
    scheduler = Scheduler(1)
    event = ScheduledEvent(scheduler)
    assert scheduler.run(lambda: event.wait(3600)) is False
    assert scheduler.now_ns >= 3600 * 10**9


def test_a_condition_wakes_its_waiters() -> None:
    scheduler = Scheduler(3)
    condition = ScheduledCondition(scheduler)
    ready: list[int] = []

    def consume() -> None:
        with condition:
            assert condition.wait_for(lambda: len(ready) == 2)

    def produce() -> None:
        with condition:
            ready.append(1)
            condition.notify_all()

    scheduler.run(lambda: _in_threads(scheduler, consume, consume, produce, produce))
    assert ready == [1, 1]


def test_the_holder_of_a_lock_may_not_wait() -> None:
    scheduler = Scheduler(1)
    lock = ScheduledLock(scheduler, is_reentrant=True)
    scheduler.no_waiting.add(lock)

    def wait_with_lock() -> None:
        with lock:
            ScheduledEvent(scheduler).wait(1)

    with pytest.raises(ScheduleError, match="waits while it holds"):
        scheduler.run(wait_with_lock)


def test_an_executor_returns_results_and_errors() -> None:
    scheduler = Scheduler(1)

    def run() -> tuple[int, str]:
        executor = ScheduledExecutor(scheduler, 1)
        good, bad = executor.submit(lambda: 7), executor.submit(lambda: [][0])
        executor.shutdown()
        return good.result(), type(bad.exception()).__name__

    assert scheduler.run(run) == (7, "IndexError")


def test_an_error_in_any_thread_is_raised() -> None:
    def fail() -> None:
        raise ValueError("in a thread")

    scheduler = Scheduler(1)
    with pytest.raises(ValueError, match="in a thread"):
        scheduler.run(lambda: _in_threads(scheduler, fail))
