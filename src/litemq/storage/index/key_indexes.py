"""The key index of a store: files ``index/<creation time in ms>``; the last is being filled.

The index follows the log in chunks, and is rebuilt if it is damaged. After a restart, indexing
resumes at the record of the last entry with a valid checksum.
"""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Final

import numpy as np

from litemq.errors import CorruptStoreError
from litemq.format.columns.keys import KeyHashes, hash_keys
from litemq.format.columns.record_columns import RecordColumns
from litemq.storage.files.block_crcs import crc_path
from litemq.storage.files.disk import Disk
from litemq.storage.index.key_index import ActiveKeyIndex, SealedKeyIndex
from litemq.types import RecordKind

__all__ = ["KeyIndexes", "hash_message_keys"]

_LOG = logging.getLogger(__name__)
_SEALED_MARK: Final = slice(32, 36)  # the number of slots: zero until a file is sealed


def hash_message_keys(columns: RecordColumns) -> KeyHashes:
    """Hash the ids and keys of all records except control records, which have none to find."""
    chosen = np.flatnonzero(columns.header["kind"] != RecordKind.CONTROL)
    if chosen.size == len(columns):
        return hash_keys(columns)
    hashes, owners = hash_keys(columns.subset(chosen))
    return KeyHashes(hashes, chosen[owners])


class KeyIndexes:
    """All files of a store's key index."""

    def __init__(self, disk: Disk, directory: Path, *, slots: int, capacity: int) -> None:
        self._disk = disk
        self._directory = directory
        self._slots = slots
        self._capacity = capacity
        self._sealed: list[tuple[Path, SealedKeyIndex]] = []
        self._active: ActiveKeyIndex | None = None
        disk.make_directory(directory)
        try:
            self._open()
        except CorruptStoreError as error:
            self.rebuild(error)

    def _open(self) -> None:
        paths = sorted(path for path in self._directory.iterdir() if path.name.isdigit())
        for path in paths:
            with path.open("rb") as file:
                sealed = any(file.read(40)[_SEALED_MARK])
            try:
                if sealed:
                    self._sealed.append((path, SealedKeyIndex(self._disk, path)))
                    continue
            except CorruptStoreError:
                if path != paths[-1]:
                    raise
                # A power cut interrupted the sealing: use the entries with valid checksums.
            self._active = ActiveKeyIndex(self._disk, path, slots=self._slots, capacity=self._capacity)

    @property
    def resume_at(self) -> int:
        """The log offset of the last indexed record, -1 = none.

        Only some of its keys may be indexed.
        """
        if self._active is not None and len(self._active):
            return self._active.last_log_offset
        return max((sealed.last_log_offset for _, sealed in self._sealed), default=-1)

    def gaps(self, log_start: int) -> list[tuple[int, int]]:
        """Return the ranges of the log before and between the files of the index.

        A range begins at ``log_start`` or with the last record of a file. No other record in it may
        have a key: otherwise a file is missing.
        """
        files = [(sealed.first_log_offset, sealed.last_log_offset) for _, sealed in self._sealed]
        if self._active is not None and len(self._active):
            files.append((self._active.first_log_offset, self._active.last_log_offset))
        begins = [log_start, *(max(last, log_start) for _, last in files)]
        return [(begin, first) for begin, (first, _) in zip(begins, files, strict=False) if begin < first]

    def is_last_of_a_file(self, log_offset: int) -> bool:
        """Whether the last record of a file is at ``log_offset``."""
        return any(sealed.last_log_offset == log_offset for _, sealed in self._sealed)

    def rebuild(self, reason: object) -> None:
        """Remove all index files because of ``reason``. The caller indexes the log again."""
        _LOG.warning("%s; rebuilding the key index from the log", reason)
        self._sealed = []
        self._active = None
        for path in list(self._directory.iterdir()):
            self._disk.unlink(path)

    def holds(self, path: str) -> bool:
        """Whether ``path`` is a file of this index."""
        return Path(path).parent == self._directory

    def add(self, columns: RecordColumns, base: int, now_ms: int) -> None:
        """Index the keys and ids of records whose buffer begins at log offset ``base``.

        Records that are already indexed, for example by an ``add`` that failed, are ignored.
        """
        hashes, owners = hash_message_keys(columns)
        offsets = (columns.starts + base)[owners]
        times = columns.header["store_timestamp"].astype(np.int64)[owners]
        at = int(np.searchsorted(offsets, self.resume_at))
        while at < hashes.size:
            active = self._index_with_space(now_ms)
            until = at + min(active.free_entries, hashes.size - at)
            active.add(hashes[at:until], offsets[at:until], times[at:until])
            at = until

    def _index_with_space(self, now_ms: int) -> ActiveKeyIndex:
        if self._active is not None and self._active.free_entries == 0:
            path = self._active.path
            self._sealed.append((path, self._active.seal()))
            self._active = None
        if self._active is None:
            # Names rise even if the clock goes back.
            latest = max((int(path.name) for path, _ in self._sealed), default=0)
            path = self._directory / f"{max(now_ms, latest + 1):020d}"
            self._active = ActiveKeyIndex(self._disk, path, slots=self._slots, capacity=self._capacity)
        return self._active

    def find(self, key_hash: int) -> list[int]:
        """Return the log offsets of records with ``key_hash``, the latest first, each once.

        Raise ``CorruptStoreError`` if a file is damaged.
        """
        found = self._active.find(key_hash) if self._active is not None else []
        for _, sealed in reversed(self._sealed):
            found += sealed.find(key_hash)
        return list(dict.fromkeys(found))

    def lacks(self, columns: RecordColumns, base: int) -> bool:
        """Whether a key or id of the records, whose buffer begins at ``base``, is not indexed."""
        hashes, owners = hash_message_keys(columns)
        offsets = (columns.starts + base)[owners]
        return any(offset not in self.find(key) for key, offset in zip(hashes.tolist(), offsets.tolist(), strict=True))

    def drop_before(self, log_start: int) -> None:
        """Remove the index files whose entries are all before ``log_start``."""
        gone = [path for path, sealed in self._sealed if sealed.last_log_offset < log_start]
        self._sealed = [(path, sealed) for path, sealed in self._sealed if path not in gone]
        for path in gone:
            self._disk.unlink(path)
            self._disk.unlink(crc_path(path))
