"""The lock of a data directory: one process has it open at a time."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

from litemq.errors import StoreLockedError

__all__ = ["DirectoryLock"]

# A POSIX lock belongs to the process: a child does not inherit it, and cannot outlive its parent
# with it. But the kernel does not stop a process from locking the file twice, and closing any
# descriptor of the file releases the lock. So we never open a lock file that this process holds.
_held: set[tuple[int, int]] = set()


class DirectoryLock:
    """Held while the store is open. The kernel releases it when the process ends."""

    def __init__(self, directory: Path) -> None:
        path = directory / "lock"
        if path.exists() and _identity(path.stat()) in _held:
            raise StoreLockedError(f"{directory} is in use by process {os.getpid()} (this process): close it first")
        self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o640)
        try:
            self._take(directory)
        except BaseException:
            os.close(self._fd)
            raise
        self._file = _identity(os.fstat(self._fd))
        _held.add(self._file)

    def _take(self, directory: Path) -> None:
        try:
            fcntl.lockf(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except (BlockingIOError, PermissionError):
            holder = os.pread(self._fd, 32, 0).decode(errors="replace").strip()
            owner = f"process {holder}" if holder else "another process"
            raise StoreLockedError(
                f"{directory} is in use by {owner}: stop it first, or choose another data directory"
            ) from None
        os.ftruncate(self._fd, 0)
        os.pwrite(self._fd, str(os.getpid()).encode(), 0)

    def release(self) -> None:
        _held.discard(self._file)
        os.close(self._fd)


def _identity(status: os.stat_result) -> tuple[int, int]:
    return status.st_dev, status.st_ino
