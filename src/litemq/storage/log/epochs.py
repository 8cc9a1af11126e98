"""The epochs file: one entry for each time a process opened the log for writing.

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

from litemq.errors import CorruptStoreError
from litemq.format.crc import crc32c
from litemq.storage.files.disk import Disk

__all__ = ["Epoch", "EpochFile", "read_epochs"]

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
        name = host.encode()[:46].decode(errors="ignore").encode()
        tail = _ENTRY.pack(0, number, start_offset, len(name), name)[4:]
        self._file.write(struct.pack(">I", crc32c(tail)) + tail, len(self.entries) * _ENTRY.size)
        self._file.sync()
        epoch = Epoch(number, start_offset, name.decode())
        self.entries.append(epoch)
        return epoch


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
