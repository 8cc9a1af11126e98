"""Locks, conditions, events, threads and executors: every operation is a step of a schedule."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent import futures
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

from litemq.storage.log.sync_thread import SyncThread
from support.schedules.scheduler import Abandoned, Scheduler, Task


class ScheduledLock:
    """A lock, reentrant or not."""

    def __init__(self, scheduler: Scheduler, *, is_reentrant: bool) -> None:
        self._scheduler = scheduler
        self._is_reentrant = is_reentrant
        self._owner: Task | None = None
        self._depth = 0

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        task = self._scheduler.current
        if self._depth and self._owner is task and self._is_reentrant:
            self._depth += 1
            return True
        self._scheduler.step()
        if self._depth and not blocking:
            return False
        if self._depth and not self._scheduler.wait_for(lambda: not self._depth, None if timeout < 0 else timeout):
            return False
        self._owner = task
        self._depth = 1
        if task is not None:
            task.held.append(self)
        return True

    def release(self) -> None:
        self._depth = max(0, self._depth - 1)
        if not self._depth:
            if self._owner is not None and self in self._owner.held:
                self._owner.held.remove(self)
            self._owner = None
            self._scheduler.step()

    def locked(self) -> bool:
        return self._depth > 0

    def release_all(self) -> int:
        """Release the lock for a wait; return its depth."""
        depth, self._depth = self._depth, 1
        self.release()
        return depth

    def acquire_at(self, depth: int) -> None:
        """Take the lock again after a wait."""
        self.acquire()
        self._depth = depth

    def __enter__(self) -> bool:
        return self.acquire()

    def __exit__(self, *_error: object) -> None:
        self.release()


class ScheduledCondition:
    """A condition variable."""

    def __init__(self, scheduler: Scheduler, lock: ScheduledLock | None = None) -> None:
        self._scheduler = scheduler
        self._lock = lock or ScheduledLock(scheduler, is_reentrant=True)
        self._waiters: list[list[bool]] = []

    def __enter__(self) -> bool:
        return self._lock.acquire()

    def __exit__(self, *_error: object) -> None:
        self._lock.release()

    def wait(self, timeout: float | None = None) -> bool:
        waiter = [False]
        self._waiters.append(waiter)
        depth = self._lock.release_all()
        self._scheduler.check_may_wait()
        is_notified = self._scheduler.wait_for(lambda: waiter[0], timeout)
        if waiter in self._waiters:
            self._waiters.remove(waiter)
        self._lock.acquire_at(depth)
        return is_notified

    def wait_for(self, predicate: Callable[[], bool], timeout: float | None = None) -> bool:
        until = None if timeout is None else self._scheduler.now_ns + round(timeout * 1e9)
        while not predicate():
            left = None if until is None else (until - self._scheduler.now_ns) / 1e9
            if left is not None and left <= 0:
                return predicate()
            self.wait(left)
        return True

    def notify(self, count: int = 1) -> None:
        for waiter in self._waiters[:count]:
            waiter[0] = True
        del self._waiters[:count]

    def notify_all(self) -> None:
        self.notify(len(self._waiters))


class ScheduledEvent:
    """An event."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._is_set = False

    def set(self) -> None:
        self._is_set = True
        self._scheduler.step()

    def clear(self) -> None:
        self._is_set = False

    def is_set(self) -> bool:
        return self._is_set

    def wait(self, timeout: float | None = None) -> bool:
        self._scheduler.check_may_wait()
        self._scheduler.wait_for(lambda: self._is_set, timeout)
        return self._is_set


class ScheduledThread:
    """A thread."""

    def __init__(
        self,
        scheduler: Scheduler,
        target: Callable[..., object],
        name: str = "thread",
        args: tuple[object, ...] = (),
    ) -> None:
        self._scheduler = scheduler
        self._work = lambda: target(*args)
        self.name = name
        self._task: Task | None = None

    def start(self) -> None:
        self._task = self._scheduler.spawn(self.name, self._work, handle=self)

    def join(self, timeout: float | None = None) -> None:
        task = self._task
        if task is not None:
            self._scheduler.check_may_wait()
            self._scheduler.wait_for(lambda: task.is_done, timeout)


class ScheduledExecutor(futures.Executor):
    """An executor with a thread for each call, of which ``max_workers`` run at a time."""

    def __init__(self, scheduler: Scheduler, max_workers: int = 4) -> None:
        self._scheduler = scheduler
        self._max_workers = max_workers
        self._running = self._unfinished = 0

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> futures.Future[Any]:
        future: futures.Future[Any] = futures.Future()
        self._unfinished += 1
        self._scheduler.spawn("executor", lambda: self._run(future, lambda: fn(*args, **kwargs)))
        return future

    def _run(self, future: futures.Future[Any], call: Callable[[], object]) -> None:
        self._scheduler.wait_for(lambda: self._running < self._max_workers)
        self._running += 1
        try:
            if future.set_running_or_notify_cancel():
                try:
                    future.set_result(call())
                except Abandoned:
                    raise
                except BaseException as error:  # noqa: BLE001  the future has it
                    future.set_exception(error)
        finally:
            self._running -= 1
            self._unfinished -= 1

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:  # noqa: ARG002
        if wait:
            self._scheduler.wait_for(lambda: not self._unfinished)


def _threading(scheduler: Scheduler) -> SimpleNamespace:
    """Return a replacement of the module ``threading`` for ``scheduler``."""

    def thread(
        *, target: Callable[..., object], name: str = "thread", args: tuple[object, ...] = (), daemon: bool = True
    ) -> ScheduledThread:
        del daemon  # every thread of a schedule ends with it
        return ScheduledThread(scheduler, target, name, args)

    return SimpleNamespace(
        Lock=lambda: ScheduledLock(scheduler, is_reentrant=False),
        RLock=lambda: ScheduledLock(scheduler, is_reentrant=True),
        Condition=lambda lock=None: ScheduledCondition(scheduler, lock),
        Event=lambda: ScheduledEvent(scheduler),
        Thread=thread,
        current_thread=lambda: scheduler.current and scheduler.current.handle,
        get_ident=lambda: id(scheduler.current),
        get_native_id=threading.get_native_id,
    )


@contextmanager
def scheduled_modules(scheduler: Scheduler) -> Iterator[None]:
    """Let the modules of LiteMQ use the primitives of ``scheduler``."""

    def executor(max_workers: int = 4, **_options: object) -> ScheduledExecutor:
        return ScheduledExecutor(scheduler, max_workers)

    def sleep(seconds: float) -> None:
        scheduler.wait_for(lambda: False, seconds)

    replaced: Mapping[str, tuple[object, object]] = {
        "threading": (threading, _threading(scheduler)),
        "ThreadPoolExecutor": (futures.ThreadPoolExecutor, executor),
        "sleep": (time.sleep, sleep),
    }
    undo: list[tuple[object, str, object]] = []
    modules: list[Any] = [module for name, module in list(sys.modules.items()) if name.split(".")[0] == "litemq"]
    for module in modules:
        for name, (original, replacement) in replaced.items():
            if vars(module).get(name) is original:
                undo.append((module, name, original))
                setattr(module, name, replacement)
    setattr(SyncThread, "flushed", _stepping_attribute(scheduler, "_stepping_flushed"))  # noqa: B010  of each instance
    try:
        yield
    finally:
        delattr(SyncThread, "flushed")
        for module, name, original in undo:
            setattr(module, name, original)


def _stepping_attribute(scheduler: Scheduler, name: str) -> property:
    """Return an attribute that other threads change without a lock: to read it is a step."""

    def read(owner: object) -> object:
        scheduler.step()
        return getattr(owner, name)

    return property(read, lambda owner, value: setattr(owner, name, value))
