"""A scheduler whose threads belong to processes, which pause and are killed."""

from __future__ import annotations

import contextvars
from collections.abc import Callable
from typing import Final

from support.schedules.scheduler import Abandoned, ScheduleError, Scheduler, Task
from support.sim.process import PROCESS, Process

__all__ = ["SimulationScheduler"]

_STEP_NS: Final = 2_000
_MAX_STEPS: Final = 3_000_000


class SimulationScheduler(Scheduler):
    """Runs the event loop of a simulation and the threads of all its processes in turn."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self._owners: dict[Task, Process | None] = {}
        self.paused: set[Process | None] = set()

    def _add(self, name: str, work: Callable[[], object], handle: object = None) -> Task:
        context = contextvars.copy_context()
        task = super()._add(name, lambda: context.run(work), handle)
        self._owners[task] = PROCESS.get()
        return task

    def _pass_on(self, task: Task) -> None:
        if task.failure is None or isinstance(task.failure, Abandoned):
            self._tasks.remove(task)
            del self._owners[task]
        super()._pass_on(task)

    def kill_threads(self, process: Process) -> None:
        """End all threads of ``process``."""
        killed = [task for task, owner in self._owners.items() if owner is process]
        self.kill(killed)
        for task in killed:
            self._tasks.remove(task)
            del self._owners[task]

    def end(self) -> None:
        """End the schedule from inside: no thread goes on."""
        self._is_over = True

    def _choose(self, task: Task) -> Task:
        self.steps += 1
        self.now_ns += _STEP_NS
        if self.steps > _MAX_STEPS:
            raise ScheduleError(f"no end after {_MAX_STEPS} steps\n{self._stacks()}")
        if not task.is_done and task.waits_for is None and self.random.random() < self._stay:
            return task
        while True:
            ready = self._ready()
            if ready:
                return ready[0] if len(ready) == 1 else self.random.choice(ready)
            deadlines = [
                each.deadline for each in self._tasks if each.deadline is not None and not self._is_paused(each)
            ]
            if not deadlines:
                raise ScheduleError(f"all threads wait\n{self._stacks()}")
            self.now_ns = max(self.now_ns, min(deadlines))

    def _ready(self) -> list[Task]:
        """Return the threads that may go on."""
        now = self.now_ns
        ready = []
        for task in self._tasks:
            waits_for, deadline = task.waits_for, task.deadline
            may_go_on = waits_for is None or (deadline is not None and deadline <= now) or waits_for()
            if may_go_on and not task.is_done and not (self.paused and self._is_paused(task)):
                ready.append(task)
        return ready

    def _is_paused(self, task: Task) -> bool:
        return self._owners.get(task) in self.paused
