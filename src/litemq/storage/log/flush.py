"""From written to safe: one thread that syncs whenever bytes are dirty, and everyone who waits for it.

Many waiters share one sync (group commit): while one runs, what is written meanwhile waits for the next. A sync that fails is never
repeated: the kernel may have dropped the dirty pages and would then report success for bytes that are not on disk. The log stops for
good, and every waiter is told why.
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

__all__ = ["Flusher", "Told"]


_LINGER_S: Final = 0.002

Told = Callable[[StoreFailedError | None], None]


class Flusher:
    """Keeps ``flushed``, the offset below which everything is on disk, as close to the log's end as the disk allows."""

    def __init__(self, log: CommitLog) -> None:
        self._log = log
        self.flushed = log.end
        self._lock = threading.Lock()
        self._is_dirty = threading.Condition(self._lock)
        self._is_wanted = threading.Condition(self._lock)
        self._is_flushed = threading.Condition(self._lock)
        self._dirty: list[Segment] = []
        self._written = log.end
        self._wanted = log.end  # so far somebody waits for it
        self._stopping = False
        self._order = count()
        self._waiters: list[tuple[int, int, Told]] = []
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread = threading.Thread(target=self._run, name="litemq-flusher", daemon=True)
        self._thread.start()

    def written(self, segments: list[Segment]) -> None:
        """The writer has added bytes up to the log's end, in these segments."""
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
                    # Nobody waits: more comes together, and the writer is not disturbed for each piece of it.
                    self._is_wanted.wait_for(lambda: self._wanted > self.flushed or self._stopping, _LINGER_S)
                target, segments = self._written, self._dirty
                self._dirty = []
            try:
                for segment in segments:
                    segment.file.sync()
            except OSError as error:
                self._log.fail(f"fsync failed: {error}")
                self._tell()
                return
            self.flushed = target
            self._tell()

    def _tell(self) -> None:
        with self._lock:
            self._is_flushed.notify_all()
            loop = self._loop if self._waiters else None
        if loop is not None and not loop.is_closed():
            loop.call_soon_threadsafe(self._wake)

    def _wake(self) -> None:
        """On the event loop: answer those whose bytes are safe, or all of them if no byte will ever be again."""
        failure = self._log.failure
        while self._waiters and (failure is not None or self._waiters[0][0] <= self.flushed):
            offset, _, told = heapq.heappop(self._waiters)
            told(None if offset <= self.flushed else StoreFailedError(failure))

    def when_flushed(self, offset: int, told: Told) -> None:
        """On the event loop: call ``told`` with nothing once everything below ``offset`` is on disk, or with why that will never be."""
        if offset > self._log.end:
            raise OffsetOutOfRangeError(f"offset {offset}: the log ends at {self._log.end}")
        heapq.heappush(self._waiters, (offset, next(self._order), told))
        with self._lock:
            self._loop = asyncio.get_running_loop()
            self._want(offset)
        # It may have been flushed, or have failed, before this was in the list.
        self._wake()

    def _want(self, offset: int) -> None:
        if offset > self._wanted:
            self._wanted = offset
            self._is_wanted.notify()

    async def wait_flushed(self, offset: int) -> None:
        """Return when everything below ``offset`` is on disk; raise if that will never be."""
        if self.flushed >= offset:
            return
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def told(error: StoreFailedError | None) -> None:
            if not future.done():
                future.set_result(None) if error is None else future.set_exception(error)

        self.when_flushed(offset, told)
        await future

    def wait(self, offset: int, timeout: float | None = None) -> None:
        """The same for a thread."""
        if offset > self._log.end:
            raise OffsetOutOfRangeError(f"offset {offset}: the log ends at {self._log.end}")
        with self._lock:
            self._want(offset)
            done = self._is_flushed.wait_for(lambda: self.flushed >= offset or self._log.failure is not None, timeout)
        if self.flushed >= offset:
            return
        if not done:
            raise TimeoutError(f"offset {offset} was not flushed within {timeout} s")
        raise StoreFailedError(self._log.failure)

    def close(self) -> None:
        """Flush what is left, and end."""
        with self._lock:
            self._stopping = True
            self._is_dirty.notify()
            self._is_wanted.notify()
        self._thread.join()
