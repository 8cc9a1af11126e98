"""Damage of a log on disk, for tests."""

from __future__ import annotations

import os
from pathlib import Path

from litemq.storage.log.segment import segment_path, segment_starts
from litemq.storage.replica_store import ReplicaStore

__all__ = ["damage_log", "log_bytes", "record_starts"]


def damage_log(folder: Path, log_offset: int, mask: int = 1) -> None:
    """Flip the bits ``mask`` of the byte at ``log_offset``, in the file of its segment."""
    start = max(start for start in segment_starts(folder / "commitlog") if start <= log_offset)
    fd = os.open(segment_path(folder / "commitlog", start), os.O_RDWR)
    try:
        [byte] = os.pread(fd, 1, log_offset - start)
        os.pwrite(fd, bytes([byte ^ mask]), log_offset - start)
    finally:
        os.close(fd)


def log_bytes(folder: Path) -> dict[int, bytes]:
    """Return the bytes of each segment, by its start."""
    starts = segment_starts(folder / "commitlog")
    return {start: segment_path(folder / "commitlog", start).read_bytes() for start in starts}


def record_starts(store: ReplicaStore) -> list[int]:
    """Return the log offsets of all records, by reading one record per chunk."""
    at, starts = 0, []
    while (chunk := store.read_chunk(at, 1)).data:
        starts.append(chunk.begin)
        at = chunk.begin + len(chunk.data)
    return starts
