"""The epochs file: one entry for each writer of the log.

A broker without replicas begins an epoch whenever it opens the log. In a replicated group an epoch
begins with its first record, and the file of each replica follows the records.

An entry (64 bytes, big-endian)::

    at  bytes  field
     0      4  crc32c over bytes 4 … 64
     4      4  epoch, rising
     8      8  start offset: the epoch's first record is there or later
    16      2  length of the host's name
    18     46  host, UTF-8, padded with zeros
"""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np

from litemq.errors import CorruptStoreError
from litemq.format.crc import crc32c
from litemq.storage.files.disk import Disk
from litemq.storage.log.reader import SegmentedLog, read_log

__all__ = ["Epoch", "EpochFile", "find_epochs", "read_epochs"]

_ENTRY: Final = struct.Struct(">IIqH46s")


class Epoch(NamedTuple):
    """The time of one writer, from ``start_offset`` on."""

    number: int
    start_offset: int
    host: str


class EpochFile:
    """The file ``epochs`` of a data directory. Entries are appended and synced."""

    ENTRY_BYTES = _ENTRY.size

    def __init__(self, disk: Disk, path: Path) -> None:
        existed = path.exists()
        self._file = disk.open(path, create=True)
        if not existed:
            disk.sync_directory(path.parent)
        self.entries = self._load()

    def _load(self) -> list[Epoch]:
        raw = self._file.read(self._file.size, 0)
        entries = _parse(raw, self._file.path)
        if len(entries) * _ENTRY.size < len(raw):
            self._file.truncate(len(entries) * _ENTRY.size)
            self._file.sync()
        return entries

    @property
    def latest(self) -> Epoch | None:
        return self.entries[-1] if self.entries else None

    def begin(self, start_offset: int, host: str, *, at_least: int = 1) -> Epoch:
        """Begin an epoch at ``start_offset``, numbered ``at_least`` or higher.

        It is durable on return, before any record has its number.
        """
        number = max(at_least, self.entries[-1].number + 1 if self.entries else 1)
        name = host.encode()[:46].decode(errors="ignore")
        epoch = Epoch(number, start_offset, name)
        self._file.write(_pack(epoch), len(self.entries) * _ENTRY.size)
        size = (len(self.entries) + 1) * _ENTRY.size
        if self._file.size > size:  # ``hide`` left some
            self._file.truncate(size)
        self._file.sync()
        self.entries.append(epoch)
        return epoch

    def cut(self, end: int) -> None:
        """Remove the epochs that begin at log offset ``end`` or later: they have no record."""
        kept = [epoch for epoch in self.entries if epoch.start_offset < end]
        if len(kept) < len(self.entries):
            self._file.truncate(len(kept) * _ENTRY.size)
            self._file.sync()
            self.entries = kept

    def hide(self, end: int) -> None:
        """Remove the epochs as ``cut`` does, in memory: the file has them until ``begin``."""
        self.entries = [epoch for epoch in self.entries if epoch.start_offset < end]

    def replace(self, entries: list[Epoch]) -> None:
        """Write ``entries`` instead of the file's own."""
        self._file.truncate(0)
        self._file.write(b"".join(map(_pack, entries)), 0)
        self._file.sync()
        self.entries = entries


def _pack(epoch: Epoch) -> bytes:
    name = epoch.host.encode()
    tail = _ENTRY.pack(0, epoch.number, epoch.start_offset, len(name), name)[4:]
    return struct.pack(">I", crc32c(tail)) + tail


def find_epochs(log: SegmentedLog, begin: int, end: int) -> list[Epoch]:
    """Read the log from ``begin`` to ``end``, and list the epochs of its records."""
    found: list[Epoch] = []
    for window in read_log(log, begin, end, on_damage=lambda _error: None):
        numbers, firsts = np.unique(window.columns.header["epoch"], return_index=True)
        for number, first in zip(numbers.tolist(), window.columns.starts[firsts].tolist(), strict=True):
            if not found or number > found[-1].number:
                found.append(Epoch(number, window.base + first, ""))
    return found


def read_epochs(path: Path) -> list[Epoch]:
    """Read the epochs of a store that may be open. A torn last entry is ignored."""
    return _parse(path.read_bytes(), path)


def _parse(raw: bytes, path: Path) -> list[Epoch]:
    entries: list[Epoch] = []
    for at in range(0, len(raw), _ENTRY.size):
        piece = raw[at : at + _ENTRY.size]
        if len(piece) < _ENTRY.size or struct.unpack(">I", piece[:4])[0] != crc32c(piece[4:]):
            if at + _ENTRY.size < len(raw):
                reason = "checksum mismatch in an epoch. Delete the file to begin a new one; only host names are lost"
                raise CorruptStoreError(str(path), at, reason)
            break  # a power cut tore the last entry: no record of its epoch was ever acknowledged
        _, number, start_offset, length, host = _ENTRY.unpack(piece)
        entries.append(Epoch(number, start_offset, host[:length].decode(errors="replace")))
    return entries
