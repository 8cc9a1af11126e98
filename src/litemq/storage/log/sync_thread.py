"""The thread that syncs the log, in Python.

It runs if the C extension is not built, and on the disks of tests. ``GroupSync`` in C does the same
without the interpreter's lock; the tests hold them equal.
"""

from __future__ import annotations

import errno
import threading
from collections.abc import Callable

__all__ = ["SyncThread"]


class SyncThread:
    """Syncs files while bytes are dirty. ``flushed`` is the offset below which all is on disk.

    Bytes written during a sync wait for the next one. While nothing waits, it lingers before a
    sync, which then covers more writes. It ends after a failed sync, whose ``errno`` is ``error``,
    and after ``abandon``.
    """

    def __init__(self, end: int, linger_s: float, sync: Callable[[int], None], on_flushed: Callable[[], None]) -> None:
        """``sync`` syncs the file with a descriptor.

        This thread calls ``on_flushed`` when an awaited offset is on disk, and after a failure.
        """
        self.flushed = end
        self.error = 0
        self._sync = sync
        self._on_flushed = on_flushed
        self._linger_s = linger_s
        self._lock = threading.Lock()
        self._is_dirty = threading.Condition(self._lock)
        self._is_wanted = threading.Condition(self._lock)
        self._is_settled = threading.Condition(self._lock)
        self._files: list[int] = []
        self._written = end
        self._wanted = end  # the highest offset that a waiter needs
        self._awaited: int | None = None  # the lowest offset that the event loop waits for
        self._stopping = False
        self._thread = threading.Thread(target=self._run, name="litemq-flusher", daemon=True)
        self._thread.start()

    def written(self, fd: int, end: int, is_wanted: bool) -> None:
        """Schedule a sync of the file ``fd``: the log is now written up to ``end``.

        If it ``is_wanted``, the sync begins without lingering.
        """
        with self._lock:
            if fd not in self._files:
                self._files.append(fd)
            if end > self._written:
                self._written = end
                self._is_dirty.notify()
                if is_wanted:
                    self._want(end)

    def want(self, offset: int, awaited: int) -> None:
        """Sync up to ``offset`` without lingering; call ``on_flushed`` once at ``awaited``."""
        with self._lock:
            self._awaited = awaited
            self._want(offset)

    def _want(self, offset: int) -> None:
        if offset > self._wanted:
            self._wanted = offset
            self._is_wanted.notify()

    def wait(self, offset: int, timeout: float) -> bool:
        """Block until ``offset`` is on disk or a sync has failed; return whether it is so.

        Return ``False`` after ``timeout`` seconds; if it is negative, wait without limit.
        """
        with self._lock:
            self._want(offset)
            return self._is_settled.wait_for(
                lambda: self.flushed >= offset or self.error != 0, None if timeout < 0 else timeout
            )

    def abandon(self) -> None:
        """End the thread without a further sync, as after a failed one."""
        with self._lock:
            if self.error:
                return
            self.error = errno.ECANCELED
            self._is_dirty.notify()
            self._is_wanted.notify()
            self._is_settled.notify_all()
        self._on_flushed()

    def stop(self) -> None:
        """Sync the remaining bytes, and end the thread."""
        with self._lock:
            self._stopping = True
            self._is_dirty.notify()
            self._is_wanted.notify()
        self._thread.join()
        # The callbacks refer to the owner of this: without the cycle, its files close with it.
        self._sync, self._on_flushed = lambda _fd: None, lambda: None

    def _run(self) -> None:
        while True:
            with self._lock:
                self._is_dirty.wait_for(lambda: self._written > self.flushed or self._is_ending)
                if self._written > self.flushed >= self._wanted:
                    self._is_wanted.wait_for(lambda: self._wanted > self.flushed or self._is_ending, self._linger_s)
                if self._written <= self.flushed or self.error:
                    return
                target, files = self._written, self._files
                self._files = []
            error = self._sync_all(files)
            if error:
                self.error = error
            else:
                self.flushed = target
            with self._lock:
                self._is_settled.notify_all()
                is_awaited = error or (self._awaited is not None and self._awaited <= target)
                if is_awaited:
                    self._awaited = None
            if is_awaited:
                self._on_flushed()

    @property
    def _is_ending(self) -> bool:
        return self._stopping or self.error != 0

    def _sync_all(self, files: list[int]) -> int:
        """Sync ``files``; return the ``errno`` of a failure, or 0."""
        try:
            for fd in files:
                self._sync(fd)
        except OSError as error:
            return error.errno or -1
        return 0
