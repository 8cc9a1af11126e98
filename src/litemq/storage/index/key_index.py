"""One file of the key index: from a key's hash to the log offsets of the messages that carry it.

::

    at            bytes          field
     0                8  i64     begin: store timestamp of the first entry (ms)
     8                8  i64     end: store timestamp of the last entry (ms)
    16                8  i64     log offset of the first entry
    24                8  i64     log offset of the last entry
    32                4  u32     number of slots
    36                4  u32     number of entries
    40        4 x slots  u32     for each slot the number of its latest entry, counted from 1; 0 = none
     …    20 x entries           key hash u32, log offset i64, seconds since begin u32, the slot's entry before this one u32

A key's slot is its hash modulo the number of slots. The hash only narrows the search: the record at the offset decides.

While a file is being filled, its entries are appended as they come, and its slots are in memory, made anew from the entries when it is
opened; header and slots are written when the file is sealed. Until then the number of slots stands where that of the entries will. The index is a projection of the log: what is damaged is made anew from there.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt

from litemq.errors import CorruptStoreError
from litemq.format import native
from litemq.storage.files.block_crcs import BLOCK_BYTES, crc_path, read_checked, write_crcs
from litemq.storage.files.disk import Disk

__all__ = ["KEY_ENTRY", "ActiveKeyIndex", "SealedKeyIndex", "link"]

Longs = npt.NDArray[np.int64]

_HEADER: Final = struct.Struct(">qqqqII")
_SLOTS_WHILE_ACTIVE_AT: Final = 36  # in the place of the number of entries
KEY_ENTRY: Final = np.dtype([("hash", ">u4"), ("log_offset", ">i8"), ("seconds", ">u4"), ("previous", ">u4")])


def _entries_at(slots: int) -> int:
    return _HEADER.size + 4 * slots


def link(slots: npt.NDArray[np.uint32], hashes: npt.NDArray[np.uint32], first_number: int) -> npt.NDArray[np.uint32]:
    """Put entries into their slots, all at once; returns for each the entry that was the slot's latest before it."""
    if native.enabled:
        linked = np.empty(hashes.size, np.uint32)
        native.loops.link(slots, np.ascontiguousarray(hashes), first_number, linked)
        return linked
    at = hashes.astype(np.int64) % slots.size
    numbers = np.arange(first_number, first_number + at.size, dtype=np.uint32)
    order = np.argsort(at, kind="stable")
    ordered, ordered_numbers = at[order], numbers[order]
    begins_slot = np.ones(at.size, np.bool_)
    begins_slot[1:] = ordered[1:] != ordered[:-1]
    previous = np.empty(at.size, np.uint32)
    previous[order[~begins_slot]] = ordered_numbers[:-1][~begins_slot[1:]]
    previous[order[begins_slot]] = slots[ordered[begins_slot]]
    ends_slot = np.append(begins_slot[1:], np.True_) if at.size else begins_slot
    slots[ordered[ends_slot]] = ordered_numbers[ends_slot]
    return previous


def _follow(read: Callable[[int, int], bytes], entries_at: int, number: int, key_hash: int) -> list[int]:
    """The log offsets of the entries with a hash, along a slot's chain from its latest entry on."""
    found = []
    while number:
        at = entries_at + (number - 1) * KEY_ENTRY.itemsize
        entry = np.frombuffer(read(at, at + KEY_ENTRY.itemsize), KEY_ENTRY)[0]
        if entry["hash"] == key_hash:
            found.append(int(entry["log_offset"]))
        if not 0 <= entry["previous"] < number:
            break  # a chain leads back: what says otherwise stands in a block that is not full yet, and is damaged
        number = int(entry["previous"])
    return found


class ActiveKeyIndex:
    """The file that is being filled. ``applied`` is the log offset up to which the entries in it were read back and believed."""

    def __init__(self, disk: Disk, path: Path, *, slots: int, capacity: int) -> None:
        self._disk = disk
        self.path = path
        self._capacity = capacity
        self._file = disk.open(path, create=True)
        # It may have been begun with other settings.
        slots = int.from_bytes(self._file.read(4, _SLOTS_WHILE_ACTIVE_AT), "big") or slots
        self._slots = np.zeros(slots, np.uint32)
        self._crcs = disk.open(crc_path(path), create=True)
        self._at = _entries_at(slots)
        self._count = 0
        self._first_log_offset = self._last_log_offset = -1
        self._begin = self._end = 0
        self._load()

    def _load(self) -> None:
        """Believe the entries in full blocks whose checksums fit; what stands behind them is made anew from the log."""
        stored = max(0, self._file.size - self._at) // KEY_ENTRY.itemsize
        end = self._at + stored * KEY_ENTRY.itemsize
        whole = end // BLOCK_BYTES * BLOCK_BYTES
        try:
            raw = read_checked(self._file, lambda: self._crcs, self._at, whole, whole, complete=False) if whole > self._at else b""
        except CorruptStoreError as error:
            raw = (
                read_checked(self._file, lambda: self._crcs, self._at, error.offset, error.offset, complete=False)
                if error.offset > self._at
                else b""
            )
        kept = np.frombuffer(raw[: len(raw) // KEY_ENTRY.itemsize * KEY_ENTRY.itemsize], KEY_ENTRY)
        if kept.size:
            first_time = self._file.read(8, 0)
            self._begin = struct.unpack(">q", first_time)[0] if len(first_time) == 8 else 0
            link(self._slots, kept["hash"].astype(np.uint32), 1)
            self._count = int(kept.size)
            self._first_log_offset, self._last_log_offset = int(kept["log_offset"][0]), int(kept["log_offset"][-1])
            self._end = self._begin + int(kept["seconds"][-1]) * 1000

    def __len__(self) -> int:
        return self._count

    @property
    def room(self) -> int:
        """How many entries more it takes."""
        return max(0, self._capacity - len(self))  # it may have been filled with a larger capacity

    @property
    def last_log_offset(self) -> int:
        """The log offset of the last entry, -1 = none."""
        return self._last_log_offset

    def add(self, hashes: npt.NDArray[np.uint32], log_offsets: Longs, store_timestamps: Longs) -> None:
        """Append entries, at most ``room``, of records that stand behind those that are there."""
        if hashes.size == 0:
            return
        if not len(self):
            self._begin = int(store_timestamps[0])
            self._first_log_offset = int(log_offsets[0])
            self._file.write(_HEADER.pack(self._begin, 0, -1, -1, 0, self._slots.size), 0)
        entries = np.empty(hashes.size, KEY_ENTRY)
        entries["hash"] = hashes
        entries["log_offset"] = log_offsets
        entries["seconds"] = np.maximum(0, store_timestamps - self._begin) // 1000
        entries["previous"] = link(self._slots, hashes, len(self) + 1)
        begin = self._at + len(self) * KEY_ENTRY.itemsize
        self._file.write(entries.tobytes(), begin)
        write_crcs(self._file, self._crcs, begin, begin + entries.nbytes)
        self._count += entries.size
        self._last_log_offset = int(log_offsets[-1])
        self._end = int(store_timestamps[-1])

    def find(self, key_hash: int) -> list[int]:
        """The log offsets of the entries with a hash, the latest first."""
        end = self._at + self._count * KEY_ENTRY.itemsize

        def read(begin: int, until: int) -> bytes:
            return read_checked(self._file, lambda: self._crcs, begin, until, end, complete=False)

        return _follow(read, self._at, int(self._slots[key_hash % self._slots.size]), key_hash)

    def seal(self) -> SealedKeyIndex:
        """Write header, slots and all checksums; nothing more is added."""
        header = _HEADER.pack(self._begin, self._end, self._first_log_offset, self._last_log_offset, self._slots.size, len(self))
        self._file.write(header + self._slots.astype(">u4").tobytes(), 0)
        end = self._at + self._count * KEY_ENTRY.itemsize
        self._file.truncate(end)
        write_crcs(self._file, self._crcs, 0, end, last=True)
        return SealedKeyIndex(self._disk, self.path)


class SealedKeyIndex:
    """A file that is full: read where a key leads, block by block, each held against its checksum."""

    def __init__(self, disk: Disk, path: Path) -> None:
        self._file = disk.open(path)
        try:
            self._crcs = disk.open(crc_path(path))
        except FileNotFoundError:
            raise CorruptStoreError(str(crc_path(path)), 0, "the file is missing") from None
        self._size = self._file.size
        self.begin, self.end, self.first_log_offset, self.last_log_offset, self._slots, self._count = _HEADER.unpack(
            self._read(0, _HEADER.size)
        )
        if _entries_at(self._slots) + self._count * KEY_ENTRY.itemsize != self._size:
            raise CorruptStoreError(str(path), 32, "the file's size does not fit its numbers of slots and entries")

    def __len__(self) -> int:
        return int(self._count)

    def _read(self, begin: int, end: int) -> bytes:
        return read_checked(self._file, lambda: self._crcs, begin, end, self._size, complete=True)

    def find(self, key_hash: int) -> list[int]:
        """The log offsets of the entries with a hash, the latest first."""
        at = _HEADER.size + 4 * (key_hash % self._slots)
        return _follow(self._read, _entries_at(self._slots), int.from_bytes(self._read(at, at + 4), "big"), key_hash)
