"""Threads for handlers that are no coroutines.

A thread whose call does not end is abandoned and replaced.
"""

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
    """A daemon thread, so that a call that never ends does not keep the process alive."""

    def __init__(self, on_end: Callable[[_HandlerThread, _Job, Any, BaseException | None], None]) -> None:
        self._jobs: SimpleQueue[_Job | None] = SimpleQueue()
        self._on_end = on_end
        Thread(target=self._work, name="litemq handler", daemon=True).start()

    def give(self, job: _Job | None) -> None:
        """Hand over a call; ``None`` ends the thread."""
        self._jobs.put(job)

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            result: Any = None
            error: BaseException | None = None
            try:
                result = job.context.run(job.call)
            except BaseException as reason:  # noqa: BLE001  raised at the caller
                error = reason
            with contextlib.suppress(RuntimeError):  # the loop is closed, so no caller waits
                job.loop.call_soon_threadsafe(self._on_end, self, job, result, error)
            del job, result, error  # keep no references while idle


class HandlerThreads:
    """Runs calls on threads, as many as are requested at once.

    Callers set the bound. For one event loop.
    """

    def __init__(self) -> None:
        self._idle: list[_HandlerThread] = []
        self._abandoned: set[_Job] = set()
        self._closed = False

    @property
    def stuck(self) -> int:
        """The number of abandoned calls that still run."""
        return len(self._abandoned)

    async def run(self, call: Callable[[], T]) -> T:
        """Run ``call`` on a thread and wait for it.

        Cancelling this abandons the call: threads cannot be stopped.
        """
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()
        job = _Job(call, contextvars.copy_context(), loop, future)
        thread = self._idle.pop() if self._idle else _HandlerThread(self._on_call_end)
        thread.give(job)
        try:
            return await future
        except asyncio.CancelledError:
            if future.cancelled():
                self._abandoned.add(job)
            raise

    def _on_call_end(self, thread: _HandlerThread, job: _Job, result: Any, error: BaseException | None) -> None:
        self._abandoned.discard(job)
        if self._closed:
            thread.give(None)
        else:
            self._idle.append(thread)
        if job.future.done():
            return
        if isinstance(error, StopIteration):
            error = RuntimeError(f"the handler raised {error!r}")  # a future cannot hold StopIteration
        if error is None:
            job.future.set_result(result)
        else:
            job.future.set_exception(error)

    def close(self) -> None:
        """End the idle threads now, and the others after their calls."""
        self._closed = True
        while self._idle:
            self._idle.pop().give(None)
