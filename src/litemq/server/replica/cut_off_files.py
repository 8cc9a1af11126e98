"""The files ``cut-off-…`` of a replica: what its masters lacked, until they are deleted."""

from __future__ import annotations

import asyncio
import contextlib
from pathlib import Path
from typing import Final

from litemq.broker.replication.uninterrupted import uninterrupted

__all__ = ["CutOffFiles"]

_INTERVAL_S: Final = 2.0


class CutOffFiles:
    """Counts the files in ``directory``."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self.size = 0
        self.latest_ms = 0  # when the last of them was written; 0: there is none

    async def recount(self) -> None:
        """Count again and again until cancelled: an operator deletes them."""
        while True:
            with contextlib.suppress(OSError):  # one was deleted meanwhile, or the disk does not answer
                await uninterrupted(self.count)
            await asyncio.sleep(_INTERVAL_S)

    def count(self) -> None:
        """Count now. It may wait for the disk."""
        found = [path.stat() for path in self._directory.glob("cut-off-*")]
        self.size = sum(each.st_size for each in found)
        self.latest_ms = max([0, *(each.st_mtime_ns // 1_000_000 for each in found)])
