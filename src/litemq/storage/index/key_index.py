"""A key index file: the log offsets of messages by the hash of a key.

::

    at            bytes          field
     0                8  i64     begin: store timestamp of the first entry (ms)
     8                8  i64     end: store timestamp of the last entry (ms)
    16                8  i64     log offset of the first entry
    24                8  i64     log offset of the last entry
    32                4  u32     number of slots
    36                4  u32     number of entries
    40        4 x slots  u32     for each slot the number of its latest entry, from 1; 0 = none
     …    20 x entries           key hash u32, log offset i64, seconds since begin u32,
                                 number of the slot's previous entry u32

A key's slot is its hash modulo the number of slots. The hash is a hint: the record decides.

An active file is appended to. Its slots are in memory, and are rebuilt from its entries at opening.
Sealing a file writes its header and slots. Until then, the field of the number of entries has the
number of slots.
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
_SLOTS_WHILE_ACTIVE_AT: Final = 36  # the field of the number of entries
KEY_ENTRY: Final = np.dtype([("hash", ">u4"), ("log_offset", ">i8"), ("seconds", ">u4"), ("previous", ">u4")])


def _entries_at(slots: int) -> int:
    return _HEADER.size + 4 * slots


def link(slots: npt.NDArray[np.uint32], hashes: npt.NDArray[np.uint32], first_number: int) -> npt.NDArray[np.uint32]:
    """Put entries into their ``slots``, and return for each the slot's entry before it.

    The entries are numbered from ``first_number`` on.
    """
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


def _follow_chain(read: Callable[[int, int], bytes], entries_at: int, number: int, key_hash: int) -> list[int]:
    """Return the log offsets with ``key_hash`` in the chain that begins at entry ``number``."""
    found = []
    while number:
        at = entries_at + (number - 1) * KEY_ENTRY.itemsize
        entry = np.frombuffer(read(at, at + KEY_ENTRY.itemsize), KEY_ENTRY)[0]
        if entry["hash"] == key_hash:
            found.append(int(entry["log_offset"]))
        if not 0 <= entry["previous"] < number:
            break  # chains lead to lower numbers: the entry is damaged, in a block without checksum
        number = int(entry["previous"])
    return found


class ActiveKeyIndex:
    """The index file that is being filled."""

    def __init__(self, disk: Disk, path: Path, *, slots: int, capacity: int) -> None:
        self._disk = disk
        self.path = path
        self._capacity = capacity
        self._file = disk.open(path, create=True)
        # The file keeps the number of slots that it was created with.
        slots = int.from_bytes(self._file.read(4, _SLOTS_WHILE_ACTIVE_AT), "big") or slots
        self._slots = np.zeros(slots, np.uint32)
        self._crcs = disk.open(crc_path(path), create=True)
        self._at = _entries_at(slots)
        self._count = 0
        self._first_log_offset = self._last_log_offset = -1
        self._begin = self._end = 0
        self._load()

    def _load(self) -> None:
        """Load the entries in full blocks with valid checksums. Indexing adds the rest."""
        stored = max(0, self._file.size - self._at) // KEY_ENTRY.itemsize
        end = self._at + stored * KEY_ENTRY.itemsize
        whole = end // BLOCK_BYTES * BLOCK_BYTES
        try:
            raw = (
                read_checked(self._file, lambda: self._crcs, self._at, whole, whole, complete=False)
                if whole > self._at
                else b""
            )
        except CorruptStoreError as error:
            raw = (
                read_checked(self._file, lambda: self._crcs, self._at, error.offset, error.offset, complete=False)
                if error.offset > self._at
                else b""
            )
        loaded = np.frombuffer(raw[: len(raw) // KEY_ENTRY.itemsize * KEY_ENTRY.itemsize], KEY_ENTRY)
        if loaded.size:
            first_time = self._file.read(8, 0)
            self._begin = struct.unpack(">q", first_time)[0] if len(first_time) == 8 else 0
            link(self._slots, loaded["hash"].astype(np.uint32), 1)
            self._count = int(loaded.size)
            self._first_log_offset, self._last_log_offset = int(loaded["log_offset"][0]), int(loaded["log_offset"][-1])
            self._end = self._begin + int(loaded["seconds"][-1]) * 1000

    def __len__(self) -> int:
        return self._count

    @property
    def free_entries(self) -> int:
        """The number of entries that still fit."""
        return max(0, self._capacity - len(self))  # an old file may exceed the capacity

    @property
    def first_log_offset(self) -> int:
        """The log offset of the first entry, -1 = none."""
        return self._first_log_offset

    @property
    def last_log_offset(self) -> int:
        """The log offset of the last entry, -1 = none."""
        return self._last_log_offset

    def add(self, hashes: npt.NDArray[np.uint32], log_offsets: Longs, store_timestamps: Longs) -> None:
        """Append up to ``free_entries`` entries, of records after those in the index."""
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
        entries["previous"] = previous = link(self._slots, hashes, len(self) + 1)
        begin = self._at + len(self) * KEY_ENTRY.itemsize
        try:
            self._file.write(entries.tobytes(), begin)
            write_crcs(self._file, self._crcs, begin, begin + entries.nbytes)
        except BaseException:
            # Without these entries, each slot leads to the entry before the first of them. The
            # reversed order assigns that one last.
            self._slots[(hashes % self._slots.size)[::-1]] = previous[::-1]
            raise
        self._count += entries.size
        self._last_log_offset = int(log_offsets[-1])
        self._end = int(store_timestamps[-1])

    def find(self, key_hash: int) -> list[int]:
        """Return the log offsets of the entries with ``key_hash``, the latest first."""
        end = self._at + self._count * KEY_ENTRY.itemsize

        def read(begin: int, until: int) -> bytes:
            return read_checked(self._file, lambda: self._crcs, begin, until, end, complete=False)

        return _follow_chain(read, self._at, int(self._slots[key_hash % self._slots.size]), key_hash)

    def seal(self) -> SealedKeyIndex:
        """Write the header, the slots and all checksums. The file is read-only from then on."""
        header = _HEADER.pack(
            self._begin, self._end, self._first_log_offset, self._last_log_offset, self._slots.size, len(self)
        )
        self._file.write(header + self._slots.astype(">u4").tobytes(), 0)
        end = self._at + self._count * KEY_ENTRY.itemsize
        self._file.truncate(end)
        write_crcs(self._file, self._crcs, 0, end, last=True)
        return SealedKeyIndex(self._disk, self.path)


class SealedKeyIndex:
    """A full index file. Reads verify the blocks that they touch."""

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
            raise CorruptStoreError(str(path), 32, "the file's size does not match its numbers of slots and entries")

    def __len__(self) -> int:
        return int(self._count)

    def _read(self, begin: int, end: int) -> bytes:
        return read_checked(self._file, lambda: self._crcs, begin, end, self._size, complete=True)

    def find(self, key_hash: int) -> list[int]:
        """Return the log offsets of the entries with ``key_hash``, the latest first."""
        at = _HEADER.size + 4 * (key_hash % self._slots)
        return _follow_chain(
            self._read, _entries_at(self._slots), int.from_bytes(self._read(at, at + 4), "big"), key_hash
        )
