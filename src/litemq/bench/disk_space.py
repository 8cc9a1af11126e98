"""The disk space of benchmarks: enough before one begins, and no watermark while it runs.

A store near its watermarks drops segments and refuses messages. Its figures would be those of the
machine's disk.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from litemq.errors import DiskFullError
from litemq.storage.config import StoreConfig
from litemq.storage.files.disk import DISK

__all__ = ["BROKER_ENVIRONMENT", "STORE_CONFIG", "check_disk_space"]

# For stores in this process, and for brokers in their own.
STORE_CONFIG: Final = StoreConfig(disk_clean_percent=100, disk_refuse_percent=100)
BROKER_ENVIRONMENT: Final = {"LITEMQ_BROKER_DISK_CLEAN_PERCENT": "100", "LITEMQ_BROKER_DISK_REFUSE_PERCENT": "100"}

# Each store preallocates a segment and a spare one of 1 GiB; a suite runs up to two of them.
_SEGMENTS_GIB: Final = 4
_DATA_GIB: Final = 12  # at --scale 1


def check_disk_space(folder: Path, scale: float) -> None:
    """Raise ``DiskFullError`` unless a suite's data fit on the disk of ``folder``."""
    needed, free = _SEGMENTS_GIB + _DATA_GIB * scale, DISK.free_bytes(folder) / (1 << 30)
    if free < needed:
        raise DiskFullError(
            f"the disk of {folder} has {free:.1f} GiB free, and the suite needs {needed:.1f} GiB: "
            "free some space, or set TMPDIR to another directory"
        )
