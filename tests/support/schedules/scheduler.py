"""A scheduler of threads: one runs at a time, and a seed decides which one goes on at each step.

The threads are greenlets, since turns of the system's threads took half of the time. A thread gives
up its turn at each *step*: when it takes or releases a lock, waits, starts a thread, or touches the
disk. The same seed gives the same schedule. Time is virtual: it passes a little with each step, and
jumps to the next deadline if every thread waits.
"""

from __future__ import annotations

import random
import traceback
from asyncio import _get_running_loop, _set_running_loop
from collections.abc import Callable, Iterable
from typing import Final, TypeVar

from greenlet import getcurrent, greenlet

T = TypeVar("T")

_STEP_NS: Final = 5_000
_MAX_STEPS: Final = 400_000
# How likely the running thread goes on at a step. Some races need long runs, others many switches.
_STAYS: Final = (0.0, 0.5, 0.9, 0.98)


class ScheduleError(AssertionError):
    """The schedule shows a fault: all threads wait, or a thread waits where it must not."""


class Abandoned(BaseException):
    """Ends a thread of a schedule that is over."""


class Task:
    """A thread of the schedule."""

    def __init__(self, name: str, handle: object = None) -> None:
        self.name = name
        self.handle = handle  # the thread object of the code under test
        self.thread: greenlet | None = None
        self.waits_for: Callable[[], bool] | None = None
        self.deadline: int | None = None
        self.held: list[object] = []  # locks
        self.is_done = False
        self.is_killed = False
        self.failure: BaseException | None = None


class Scheduler:
    """Runs threads in turn, in an order that ``seed`` decides."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.now_ns = 0
        self.steps = 0
        self.no_waiting: set[object] = set()  # locks whose holder must not wait for anything but locks
        self._stay = self.random.choice(_STAYS)
        self._tasks: list[Task] = []
        self._current: Task | None = None
        self._following: Task | None = None  # goes on when a thread has ended
        self._is_over = False
        self._outside = getcurrent()

    @property
    def current(self) -> Task | None:
        """The task that runs now; ``None`` outside the schedule."""
        return self._current

    def run(self, main: Callable[[], T]) -> T:
        """Run ``main`` as the first thread, and end the others when it returns or raises."""
        results: list[T] = []

        def first() -> None:
            try:
                results.append(main())
            finally:
                self._is_over = True

        task = self._add("main", first)
        following: Task | None = task
        while following is not None:  # after the end of each thread
            self._current = following
            self._turn(following)
            following = self._following
            self._following = None
        self._end_all()
        self._current = None
        failures = [each.failure for each in self._tasks if each.failure is not None]
        if task.failure is not None:
            raise task.failure
        if failures:
            raise failures[0]
        return results[0]

    def spawn(self, name: str, work: Callable[[], object], *, handle: object = None) -> Task:
        """Start a thread; it runs from one of the next steps on."""
        task = self._add(name, work, handle)
        self.step()
        return task

    def _add(self, name: str, work: Callable[[], object], handle: object = None) -> Task:
        task = Task(name, handle)

        def run() -> None:
            try:
                if not self._is_over:
                    work()
            except Abandoned:
                pass
            except BaseException as error:  # noqa: BLE001  reported by ``run``
                task.failure = error
            finally:
                task.is_done = True
                if not self._is_over and not task.is_killed:
                    self._pass_on(task)

        task.thread = greenlet(run, self._outside)
        self._tasks.append(task)
        return task

    def step(self) -> None:
        """Let another thread run first, if the seed says so."""
        self.wait_for(None)

    def wait_for(self, condition: Callable[[], bool] | None, timeout: float | None = None) -> bool:
        """Wait until ``condition`` holds; return whether it does, or the time is over."""
        task = self._current
        if task is not None and task.is_killed:
            raise Abandoned
        if self._is_over or task is None:
            if task is not None and getcurrent() is task.thread and condition is not None:
                raise Abandoned
            return True
        task.waits_for = condition
        task.deadline = None if timeout is None else self.now_ns + round(timeout * 1e9)
        following = self._choose(task)
        if following is not task:
            self._current = following
            self._turn(following)
        if self._is_over or task.is_killed:
            raise Abandoned
        is_met = condition is None or condition()
        task.waits_for = task.deadline = None
        return is_met

    def kill(self, tasks: Iterable[Task]) -> None:
        """End threads that wait for their turn, as the end of their process would."""
        running = self._current
        for task in tasks:
            if not task.is_done:
                task.is_killed = True
                self._current = task
                self._end(task)
        self._current = running

    def check_may_wait(self) -> None:
        """Raise if the running thread holds a lock of ``no_waiting``."""
        task = self._current
        if task is not None and not self._is_over and any(lock in self.no_waiting for lock in task.held):
            raise ScheduleError(f"{task.name} waits while it holds the writer's or the maintenance lock")

    def _pass_on(self, task: Task) -> None:
        """The running thread has ended: another one goes on."""
        try:
            following = self._choose(task)
        except ScheduleError as error:
            task.failure = task.failure or error
            following = self._tasks[0]  # it ends the schedule
            self._is_over = True
        self._following = following

    def _choose(self, task: Task) -> Task:
        self.steps += 1
        self.now_ns += _STEP_NS
        if self.steps > _MAX_STEPS:
            raise ScheduleError(f"no end after {_MAX_STEPS} steps\n{self._stacks()}")
        while True:
            ready = [each for each in self._tasks if self._is_ready(each)]
            if ready:
                break
            deadlines = [each.deadline for each in self._tasks if not each.is_done and each.deadline is not None]
            if not deadlines:
                raise ScheduleError(f"all threads wait\n{self._stacks()}")
            self.now_ns = max(self.now_ns, min(deadlines))
        if task in ready and self.random.random() < self._stay:
            return task
        return self.random.choice(ready)

    def _is_ready(self, task: Task) -> bool:
        if task.is_done:
            return False
        is_late = task.deadline is not None and task.deadline <= self.now_ns
        return is_late or task.waits_for is None or task.waits_for()

    def _end_all(self) -> None:
        """End each thread at its next step."""
        for task in self._tasks:
            if not task.is_done:
                self._current = task
                self._end(task)

    def _end(self, task: Task) -> None:
        """Let ``task`` run to its end, and go on then."""
        assert task.thread is not None
        task.thread.parent = getcurrent()
        self._turn(task)

    @staticmethod
    def _turn(task: Task) -> None:
        """Let ``task`` run until it gives the turn back. Each thread has its own running loop."""
        assert task.thread is not None
        loop = _get_running_loop()
        _set_running_loop(None)
        task.thread.switch()
        _set_running_loop(loop)

    def _stacks(self) -> str:
        shown = []
        for task in self._tasks:
            if task.thread is not None and not task.is_done:
                stack = traceback.format_stack(task.thread.gr_frame)[-8:]
                shown.append(f"{task.name}:\n{''.join(stack)}")
        return "\n".join(shown)
