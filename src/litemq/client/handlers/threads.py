"""Threads for handlers that are no coroutines. One that cannot be waited for any longer is left behind, and another takes its place."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
from collections.abc import Callable
from dataclasses import dataclass
from queue import SimpleQueue
from threading import Thread
from typing import Any, TypeVar

__all__ = ["HandlerThreads"]

T = TypeVar("T")


@dataclass(eq=False, slots=True)
class _Job:
    call: Callable[[], Any]
    context: contextvars.Context
    loop: asyncio.AbstractEventLoop
    future: asyncio.Future[Any]


class _HandlerThread:
    """One thread. It is a daemon: a call that never ends must not keep the process from ending."""

    def __init__(self, ended: Callable[[_HandlerThread, _Job, Any, BaseException | None], None]) -> None:
        self._jobs: SimpleQueue[_Job | None] = SimpleQueue()
        self._ended = ended
        Thread(target=self._work, name="litemq handler", daemon=True).start()

    def give(self, job: _Job | None) -> None:
        """A call to make; ``None`` ends the thread."""
        self._jobs.put(job)

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            result: Any = None
            error: BaseException | None = None
            try:
                result = job.context.run(job.call)
            except BaseException as reason:  # noqa: BLE001  whoever waits for the call is told
                error = reason
            with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits any longer
                job.loop.call_soon_threadsafe(self._ended, self, job, result, error)
            del job, result, error  # nothing of a call is kept while the thread waits for the next


class HandlerThreads:
    """Runs calls on threads, as many as are asked for at once; whoever asks sets the bound. For one event loop."""

    def __init__(self) -> None:
        self._idle: list[_HandlerThread] = []
        self._left: set[_Job] = set()
        self._closed = False

    @property
    def stuck(self) -> int:
        """How many calls go on that nobody waits for."""
        return len(self._left)

    async def run(self, call: Callable[[], T]) -> T:
        """Make a call on a thread, and wait for it. Cancelling this leaves the call behind, since no thread can be stopped."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()
        job = _Job(call, contextvars.copy_context(), loop, future)
        thread = self._idle.pop() if self._idle else _HandlerThread(self._ended)
        thread.give(job)
        try:
            return await future
        except asyncio.CancelledError:
            if future.cancelled():
                self._left.add(job)
            raise

    def _ended(self, thread: _HandlerThread, job: _Job, result: Any, error: BaseException | None) -> None:
        self._left.discard(job)
        if self._closed:
            thread.give(None)
        else:
            self._idle.append(thread)
        if job.future.done():
            return
        if isinstance(error, StopIteration):
            error = RuntimeError(f"the handler raised {error!r}")  # no future takes that one
        if error is None:
            job.future.set_result(result)
        else:
            job.future.set_exception(error)

    def close(self) -> None:
        """End the threads that wait for a call; the others when theirs ends."""
        self._closed = True
        while self._idle:
            self._idle.pop().give(None)
