"""Group commit: many waiters share one sync of the log.

Bytes written during a sync wait for the next one. A failed sync is never repeated, because the
kernel may have dropped the dirty pages and would then report success for bytes that are not on
disk. Instead the log stops, and every waiter gets the error.
"""

from __future__ import annotations

import asyncio
import heapq
import os
from collections.abc import Callable
from itertools import count
from typing import TYPE_CHECKING, Final

from litemq.errors import LiteMQError, OffsetOutOfRangeError, StoreFailedError
from litemq.format import native
from litemq.storage.files.disk import Disk
from litemq.storage.log.commitlog import CommitLog
from litemq.storage.log.segment import Segment
from litemq.storage.log.sync_thread import SyncThread

if TYPE_CHECKING:
    from litemq.storage.log import _group_sync
else:
    try:
        from litemq.storage.log import _group_sync
    except ImportError:  # it was not built
        _group_sync = None

__all__ = ["LINGER_S", "Flusher", "OnFlushed"]


LINGER_S: Final = 0.02  # while nothing waits for a sync

OnFlushed = Callable[[LiteMQError | None], None]


class Flusher:
    """Calls the waiters when a thread has synced their bytes."""

    def __init__(self, log: CommitLog) -> None:
        self._log = log
        self._dirty: dict[int, Segment] = {}  # by descriptor; their files stay open until they are synced
        self._order = count()
        self._waiters: list[tuple[int, int, OnFlushed]] = []
        self._wanted = log.end  # the highest offset that a waiter of the event loop needs
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: _group_sync.GroupSync | SyncThread
        if _group_sync is not None and native.enabled and type(log.disk).fsync is Disk.fsync:
            self._thread = _group_sync.GroupSync(log.end, LINGER_S)
        else:  # disks of tests have their own syncs
            self._thread = SyncThread(log.end, LINGER_S, self._sync, self._notify)
        log.end_syncs = self._thread.abandon

    @property
    def flushed(self) -> int:
        """The offset below which everything is on disk."""
        return self._thread.flushed

    def mark_dirty(self, segments: list[Segment], *, is_wanted: bool = False) -> None:
        """Schedule a sync of ``segments``, which the writer has written to.

        If it ``is_wanted``, a waiter follows, and the sync begins at once.
        """
        if len(segments) > 1 or len(self._dirty) > 1:
            self._mark_full(segments[:-1])
        last = segments[-1]
        self._dirty[last.file.fd] = last
        self._check()  # a failed sync ends the log, with or without waiters
        self._thread.written(last.file.fd, self._log.end, is_wanted)

    def _mark_full(self, segments: list[Segment]) -> None:
        """Mark segments that are full, and release those that are synced."""
        flushed = self.flushed
        self._dirty = {fd: segment for fd, segment in self._dirty.items() if segment.end > flushed}
        for segment in segments:
            if segment.end > flushed:
                self._dirty[segment.file.fd] = segment
                self._thread.written(segment.file.fd, 0, False)

    def _sync(self, fd: int) -> None:
        self._dirty[fd].file.sync()

    # The event loop -------------------------------------------------------------------------------

    def when_flushed(self, offset: int, on_flushed: OnFlushed) -> None:
        """Call ``on_flushed(None)`` once everything below ``offset`` is on disk.

        If the log fails before that, call ``on_flushed(error)``. Only for the event loop.
        """
        if offset > self._log.end:
            raise OffsetOutOfRangeError(f"offset {offset} is out of range: the log ends at {self._log.end}")
        waiters = self._waiters
        is_first = not waiters or offset < waiters[0][0]
        heapq.heappush(waiters, (offset, next(self._order), on_flushed))
        loop = asyncio.get_running_loop()
        if loop is not self._loop:
            self._watch(loop)
        elif not is_first and offset <= self._wanted:
            return  # the thread knows of an earlier waiter, which comes first, and of a later one
        self._wanted = max(self._wanted, offset)
        self._thread.want(offset, waiters[0][0])
        # The offset may have been flushed, or the log failed, before the thread knew the waiter.
        self._wake()

    def _watch(self, loop: asyncio.AbstractEventLoop) -> None:
        if not isinstance(self._thread, SyncThread):
            loop.add_reader(self._thread.event, self._on_event)
        self._loop = loop

    def _on_event(self) -> None:
        if not isinstance(self._thread, SyncThread):
            self._thread.clear_event()
        self._on_flushed()

    def _on_flushed(self) -> None:
        """Call the waiters, and let the thread know the next one."""
        try:
            self._wake()
        finally:
            if self._waiters:
                lowest = self._waiters[0][0]
                self._thread.want(lowest, lowest)
                if lowest <= self.flushed and self._loop is not None:  # flushed since, or a waiter raised
                    self._loop.call_soon(self._on_flushed)

    def _wake(self) -> None:
        """Call the waiters whose bytes are flushed, or all of them after a failure."""
        flushed = self._thread.flushed
        self._check()
        failure = self._log.failure
        while self._waiters and (failure is not None or self._waiters[0][0] <= flushed):
            offset, _, on_flushed = heapq.heappop(self._waiters)
            on_flushed(None if offset <= flushed else StoreFailedError(failure))

    def _check(self) -> None:
        """Stop the log if a sync has failed."""
        error = self._thread.error
        if error:
            self._log.fail(f"fsync failed: {OSError(error, os.strerror(error))}")

    def _notify(self) -> None:
        """Wake the event loop; called by the thread."""
        self._check()
        loop = self._loop
        if loop is not None and not loop.is_closed():
            loop.call_soon_threadsafe(self._on_flushed)

    # Threads --------------------------------------------------------------------------------------

    def wait(self, offset: int, timeout: float | None = None) -> None:
        """Block until everything below ``offset`` is on disk.

        Raise ``StoreFailedError`` if the log fails, and ``TimeoutError`` after ``timeout`` seconds.
        """
        if offset > self._log.end:
            raise OffsetOutOfRangeError(f"offset {offset} is out of range: the log ends at {self._log.end}")
        done = self._thread.wait(offset, -1.0 if timeout is None else timeout)
        if self.flushed >= offset:
            return
        if not done:
            raise TimeoutError(f"offset {offset} was not flushed within {timeout} s")
        self._check()
        raise StoreFailedError(self._log.failure)

    def close(self) -> None:
        """Flush the remaining bytes, and end the thread."""
        self._thread.stop()
        self._check()
        loop = self._loop
        if loop is not None and not loop.is_closed():
            loop.call_soon_threadsafe(self._unwatch, loop)

    def _unwatch(self, loop: asyncio.AbstractEventLoop) -> None:
        if not isinstance(self._thread, SyncThread):
            loop.remove_reader(self._thread.event)
        self._wake()
