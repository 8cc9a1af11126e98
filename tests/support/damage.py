"""Damage of a log on disk, for tests."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from litemq.format.record import Buffer
from litemq.storage.log.commitlog import CommitLog
from litemq.storage.log.segment import segment_path, segment_starts
from litemq.storage.replica_store import ReplicaStore

__all__ = ["BadSector", "damage_log", "log_bytes", "record_starts"]


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


class BadSector:
    """A page of a file that the disk cannot read until it is written again.

    ``install`` replaces ``os.pread`` and ``os.pwrite``, and lets no read use the page cache.
    """

    def __init__(self, path: Path, offset: int) -> None:
        self._path = path
        self._page = offset // 4096
        self.is_bad = True

    def install(self, monkeypatch: pytest.MonkeyPatch) -> None:
        read, write = os.pread, os.pwrite

        def pread(fd: int, count: int, offset: int) -> bytes:
            if self.is_bad and self._has(fd, count, offset):
                raise OSError(errno.EIO, os.strerror(errno.EIO))
            return read(fd, count, offset)

        def pwrite(fd: int, data: Buffer, offset: int) -> int:
            if self._has(fd, len(data), offset):
                self.is_bad = False
            return write(fd, data, offset)

        monkeypatch.setattr(os, "pread", pread)
        monkeypatch.setattr(os, "pwrite", pwrite)
        monkeypatch.setattr(CommitLog, "is_hot", lambda _log, _offset: False)

    def _has(self, fd: int, count: int, offset: int) -> bool:
        first, last = offset // 4096, (offset + count - 1) // 4096
        return first <= self._page <= last and Path(f"/proc/self/fd/{fd}").readlink() == self._path
