"""Group commit: one thread syncs the log while bytes are dirty, and completes the waiters.

Many waiters share one sync: bytes written during a sync wait for the next one. A failed sync is
never repeated, because the kernel may have dropped the dirty pages and would then report success
for bytes that are not on disk. Instead the log stops, and every waiter gets the error.
"""

from __future__ import annotations

import asyncio
import heapq
import threading
from collections.abc import Callable
from itertools import count
from typing import Final

from litemq.errors import OffsetOutOfRangeError, StoreFailedError
from litemq.storage.log.commitlog import CommitLog
from litemq.storage.log.segment import Segment

__all__ = ["Flusher", "OnFlushed"]


_LINGER_S: Final = 0.002

OnFlushed = Callable[[StoreFailedError | None], None]


class Flusher:
    """The thread that syncs the log.

    ``flushed`` is the offset below which everything is on disk.
    """

    def __init__(self, log: CommitLog) -> None:
        self._log = log
        self.flushed = log.end
        self._lock = threading.Lock()
        self._is_dirty = threading.Condition(self._lock)
        self._is_wanted = threading.Condition(self._lock)
        self._is_flushed = threading.Condition(self._lock)
        self._dirty: list[Segment] = []
        self._written = log.end
        self._wanted = log.end  # the highest offset that a waiter needs
        self._stopping = False
        self._order = count()
        self._waiters: list[tuple[int, int, OnFlushed]] = []
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread = threading.Thread(target=self._run, name="litemq-flusher", daemon=True)
        self._thread.start()

    def mark_dirty(self, segments: list[Segment]) -> None:
        """Schedule a sync of ``segments``, which the writer has written to."""
        with self._lock:
            self._dirty += [segment for segment in segments if segment not in self._dirty]
            self._written = self._log.end
            self._is_dirty.notify()

    def _run(self) -> None:
        while True:
            with self._lock:
                self._is_dirty.wait_for(lambda: self._written > self.flushed or self._stopping)
                if self._written <= self.flushed or self._log.failure is not None:
                    return
                if self._wanted <= self.flushed:
                    # Without a waiter, linger: one sync then covers more writes.
                    self._is_wanted.wait_for(lambda: self._wanted > self.flushed or self._stopping, _LINGER_S)
                target, segments = self._written, self._dirty
                self._dirty = []
            try:
                for segment in segments:
                    segment.file.sync()
            except OSError as error:
                self._log.fail(f"fsync failed: {error}")
                self._notify()
                return
            self.flushed = target
            self._notify()

    def _notify(self) -> None:
        with self._lock:
            self._is_flushed.notify_all()
            loop = self._loop if self._waiters else None
        if loop is not None and not loop.is_closed():
            loop.call_soon_threadsafe(self._wake)

    def _wake(self) -> None:
        """Call the waiters whose bytes are flushed, or all of them after a failure.

        On the event loop.
        """
        failure = self._log.failure
        while self._waiters and (failure is not None or self._waiters[0][0] <= self.flushed):
            offset, _, on_flushed = heapq.heappop(self._waiters)
            on_flushed(None if offset <= self.flushed else StoreFailedError(failure))

    def when_flushed(self, offset: int, on_flushed: OnFlushed) -> None:
        """Call ``on_flushed(None)`` once everything below ``offset`` is on disk.

        If the log fails before that, call ``on_flushed(error)``. Only for the event loop.
        """
        if offset > self._log.end:
            raise OffsetOutOfRangeError(f"offset {offset} is out of range: the log ends at {self._log.end}")
        heapq.heappush(self._waiters, (offset, next(self._order), on_flushed))
        with self._lock:
            self._loop = asyncio.get_running_loop()
            self._want(offset)
        # The offset may have been flushed, or the log failed, before the waiter was in the list.
        self._wake()

    def _want(self, offset: int) -> None:
        if offset > self._wanted:
            self._wanted = offset
            self._is_wanted.notify()

    async def wait_flushed(self, offset: int) -> None:
        """Wait until everything below ``offset`` is on disk.

        Raise ``StoreFailedError`` if the log fails.
        """
        if self.flushed >= offset:
            return
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def on_flushed(error: StoreFailedError | None) -> None:
            if not future.done():
                future.set_result(None) if error is None else future.set_exception(error)

        self.when_flushed(offset, on_flushed)
        await future

    def wait(self, offset: int, timeout: float | None = None) -> None:
        """Block until everything below ``offset`` is on disk.

        Raise ``StoreFailedError`` if the log fails, and ``TimeoutError`` after ``timeout`` seconds.
        """
        if offset > self._log.end:
            raise OffsetOutOfRangeError(f"offset {offset} is out of range: the log ends at {self._log.end}")
        with self._lock:
            self._want(offset)
            done = self._is_flushed.wait_for(lambda: self.flushed >= offset or self._log.failure is not None, timeout)
        if self.flushed >= offset:
            return
        if not done:
            raise TimeoutError(f"offset {offset} was not flushed within {timeout} s")
        raise StoreFailedError(self._log.failure)

    def close(self) -> None:
        """Flush the remaining bytes, and end the thread."""
        with self._lock:
            self._stopping = True
            self._is_dirty.notify()
            self._is_wanted.notify()
        self._thread.join()
