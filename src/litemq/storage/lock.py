"""One process a data directory."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

from litemq.errors import StoreLockedError

__all__ = ["DirectoryLock"]


class DirectoryLock:
    """Held while the store is open. The kernel lets go of it with the process, however that ends."""

    def __init__(self, directory: Path) -> None:
        self._fd = os.open(directory / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o640)
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.pread(self._fd, 32, 0).decode(errors="replace").strip()
            os.close(self._fd)
            who = f"process {holder}" if holder else "another process"
            raise StoreLockedError(f"{directory} is in use by {who}: stop it first, or choose another data directory") from None
        os.ftruncate(self._fd, 0)
        os.pwrite(self._fd, str(os.getpid()).encode(), 0)

    def release(self) -> None:
        os.close(self._fd)
