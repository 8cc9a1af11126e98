"""``litemq`` with a disk that is held up for 100 ms in each second, as by a busy neighbour.

Run as a module, it takes the arguments of ``litemq broker``.
"""

from __future__ import annotations

import runpy
import time
from functools import partial
from pathlib import Path
from typing import Final

from litemq.storage.disk_store import DiskStore
from litemq.storage.files.disk import Disk, OpenFile

__all__ = ["HeldDisk"]

_HELD_S: Final = 0.1


class HeldDisk(Disk):
    """A disk whose syncs wait for the rest of the first 100 ms of each second."""

    def fsync(self, file: OpenFile) -> None:
        """Sync a file."""
        _wait()
        super().fsync(file)

    def sync_all(self, path: Path) -> None:
        """Sync all files of the disk of ``path``."""
        _wait()
        super().sync_all(path)


def _wait() -> None:
    time.sleep(max(0.0, _HELD_S - time.monotonic() % 1.0))


if __name__ == "__main__":
    from litemq.server import broker

    setattr(broker, "DiskStore", partial(DiskStore, disk=HeldDisk()))  # noqa: B010  not the type of the name
    runpy.run_module("litemq", run_name="__main__")
