"""Bucket files: entries of timers by due day, and from the evening before by due minute.

::

    DIR/timers/manifest          the buckets, their numbers of entries, and the log offset applied
    DIR/timers/day-19675.3       entries of a future day: its number since 1970, the file's number
    DIR/timers/minute-28332000.7 entries of a minute

The manifest (big-endian)::

    at  bytes  field
     0      4  magic 0x4C4D5154: "LMQT"
     4      4  crc32c over bytes 8 …
     8      8  applied: the buckets have the entries of all records below this log offset
    16      8  the first day that is not split into minutes yet
    24      8  the next file's number
    32         for each bucket: first minute (8), minutes (4), file number (8), entries (8)

Files are append-only. A file is removed only after a manifest without it is synced. So the manifest
is valid after any crash: on opening, everything that it does not name is cut off, and the store
replays it from the log.
"""

from __future__ import annotations

import contextlib
import logging
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from litemq.errors import CorruptStoreError, DiskFullError
from litemq.format.crc import crc32c
from litemq.storage.files.disk import Disk
from litemq.storage.timers.entries import DAY_MINUTES, ENTRY, MINUTE_MS, Entries, are_intact

__all__ = ["BucketFiles"]

Longs = npt.NDArray[np.int64]
BucketPosition = tuple[int, int]  # a due time and a log offset

_MAGIC: Final = 0x4C4D5154
_HEAD: Final = struct.Struct(">IIqqq")
_ROW: Final = struct.Struct(">qIqq")
_BUCKETS_FROM: Final = 16  # the bytes after the applied offset describe the buckets
_CHUNK: Final = 1 << 20  # entries read at a time
_NO_ENTRIES: Final = np.empty(0, ENTRY)
_LOG = logging.getLogger(__name__)


class _Bucket(NamedTuple):
    """A file and its number of valid entries."""

    minute: int
    minutes: int
    number: int
    entries: int

    @property
    def name(self) -> str:
        if self.minutes == DAY_MINUTES:
            return f"day-{self.minute // DAY_MINUTES}.{self.number}"
        return f"minute-{self.minute}.{self.number}"


class BucketFiles:
    """The bucket files of a directory. Used by one thread at a time."""

    def __init__(self, disk: Disk, directory: Path) -> None:
        self._disk = disk
        self._directory = directory
        self._manifest = directory / "manifest"
        self._buckets: dict[int, _Bucket] = {}  # by first minute
        self._dropped: list[_Bucket] = []
        self._split_before = 0  # the first day that is not split into minutes yet
        self._next_number = 1
        self._written_manifest = b""
        self.applied: int | None = None  # of the manifest; None: it was missing or damaged
        disk.make_directory(directory)
        try:
            self._open()
        except CorruptStoreError as error:
            _LOG.warning("%s; rebuilding the timers from the log", error)
            self.clear()

    def _open(self) -> None:
        if not self._manifest.exists():
            self._remove_others()
            return
        raw = self._manifest.read_bytes()
        rows, rest = divmod(len(raw) - _HEAD.size, _ROW.size)
        if rows < 0 or rest or raw[:8] != struct.pack(">II", _MAGIC, crc32c(raw[8:])):
            raise CorruptStoreError(str(self._manifest), 0, "the checksum does not match")
        _, _, applied, self._split_before, self._next_number = _HEAD.unpack_from(raw)
        for number in range(rows):
            bucket = _Bucket(*_ROW.unpack_from(raw, _HEAD.size + number * _ROW.size))
            self._buckets[bucket.minute] = bucket
        self._remove_others()
        for bucket in self._buckets.values():
            path = self._directory / bucket.name
            size = path.stat().st_size if path.exists() else 0
            if size < bucket.entries * ENTRY.itemsize:
                raise CorruptStoreError(str(path), size, f"the file is too short for its {bucket.entries} entries")
            if size > bucket.entries * ENTRY.itemsize:
                self._disk.open(path).truncate(bucket.entries * ENTRY.itemsize)
        self.applied = applied
        self._written_manifest = raw

    def _remove_others(self) -> None:
        """Remove the files that the manifest does not name: leftovers of a crash."""
        known = {bucket.name for bucket in self._buckets.values()} | {self._manifest.name}
        for path in sorted(self._directory.iterdir()):
            if path.name not in known:
                self._disk.unlink(path)

    def clear(self) -> None:
        """Remove all buckets and the manifest."""
        self._buckets.clear()
        self._dropped.clear()
        self._split_before = 0
        self._written_manifest = b""
        self.applied = None
        if self._manifest.exists():
            self._disk.unlink(self._manifest)
        self._remove_others()
        self._disk.sync_directory(self._directory)

    # Buckets --------------------------------------------------------------------------------------

    def first_minute(self, minute: int) -> int | None:
        """Return the first minute at or after ``minute`` that may have timers, or ``None``."""
        buckets = [bucket for bucket in self._buckets.values() if bucket.minute + bucket.minutes > minute]
        return min((max(minute, bucket.minute) for bucket in buckets), default=None)

    def write(self, entries: Entries) -> None:
        """Append ``entries``, in the order of the log, to their buckets; none if a write fails."""
        minutes = entries["due"].astype(np.int64) // MINUTE_MS
        firsts = np.where(minutes < self._split_before * DAY_MINUTES, minutes, minutes // DAY_MINUTES * DAY_MINUTES)
        order = np.argsort(firsts, kind="stable")
        bounds = np.flatnonzero(np.diff(firsts[order])) + 1
        with self._undone_on_error():
            for some in np.split(order, bounds):
                if some.size:
                    self._append(int(firsts[some[0]]), entries[some])

    @contextlib.contextmanager
    def _undone_on_error(self) -> Iterator[None]:
        """If the block fails, forget what it changed. The next write overwrites what it wrote."""
        before = self._buckets.copy(), self._next_number, self._split_before
        try:
            yield
        except BaseException:
            self._buckets, self._next_number, self._split_before = before
            raise

    def _append(self, minute: int, entries: Entries) -> None:
        bucket = self._buckets.get(minute)
        if bucket is None:
            minutes = 1 if minute < self._split_before * DAY_MINUTES else DAY_MINUTES
            bucket = _Bucket(minute, minutes, self._next_number, 0)
            self._next_number += 1
        file = self._disk.open(self._directory / bucket.name, create=True)
        file.write(entries.tobytes(), bucket.entries * ENTRY.itemsize)
        self._buckets[minute] = bucket._replace(entries=bucket.entries + entries.size)

    def split_days(self, minute: int) -> None:
        """Split all days up to the day of ``minute`` into minutes."""
        day = minute // DAY_MINUTES
        for first in sorted(first for first, bucket in self._buckets.items() if bucket.minutes == DAY_MINUTES):
            if first // DAY_MINUTES <= day:
                self._split(self._buckets[first])
        self._split_before = max(self._split_before, day + 1)

    def _split(self, bucket: _Bucket) -> None:
        """Split a day. If the disk has no space for its minutes, it stays as it is."""
        with self._undone_on_error():
            del self._buckets[bucket.minute]
            self._split_before = bucket.minute // DAY_MINUTES + 1
            for first in range(0, bucket.entries, _CHUNK):
                self.write(self._read(bucket, first, min(_CHUNK, bucket.entries - first)))
        self._dropped.append(bucket)

    def read(self, minute: int) -> Entries:
        """Read the entries of ``minute``, after splitting its day if necessary and possible."""
        with contextlib.suppress(DiskFullError):
            self.split_days(minute)
        of_minute = (some[some["due"].astype(np.int64) // MINUTE_MS == minute] for some in self._chunks(minute))
        return np.concatenate((_NO_ENTRIES, *of_minute))

    def bucket_end(self, minute: int) -> int:
        """Return the minute after the last one of the bucket that contains ``minute``."""
        bucket = self._bucket(minute)
        return minute + 1 if bucket is None else bucket.minute + bucket.minutes

    def read_timers(self, minute: int, log_offsets: Longs) -> Entries:
        """Return the entries of the timers at ``log_offsets`` (ascending) in a minute's bucket.

        The whole file is read and verified, in chunks.
        """
        found = [_NO_ENTRIES]
        for some in self._chunks(minute):
            stored = some["pending"].astype(np.int64)
            nearest = np.minimum(np.searchsorted(log_offsets, stored), log_offsets.size - 1)
            found.append(some[log_offsets[nearest] == stored])
        return np.concatenate(found)

    def first_timers(self, minute: int, after: BucketPosition, until: int, limit: int) -> tuple[Entries, bool]:
        """Return the first ``limit`` timers in the bucket of ``minute``, and whether it has more.

        Only timers after the position ``after`` that are due before ``until`` (ms) count, whether
        they have ended or not.
        """
        found, last = _NO_ENTRIES, until - 1  # timers due later are not among the first
        are_more = False
        for some in self._chunks(minute):
            dues = some["due"].astype(np.int64)
            chosen = (dues >= after[0]) & (dues <= last) & (some["size"] > 0)
            chosen[chosen] = (dues[chosen] > after[0]) | (some["pending"][chosen] > after[1])
            found = np.concatenate((found, some[chosen]))
            if found.size > limit:
                dues = found["due"].astype(np.int64)
                last, are_more = int(np.partition(dues, limit - 1)[limit - 1]), True
                found = found[dues <= last]
                found = found[np.lexsort((found["pending"], found["due"]))[:limit]]
        return found, are_more

    def _chunks(self, minute: int) -> Iterator[Entries]:
        bucket = self._bucket(minute)
        if bucket is not None:
            for first in range(0, bucket.entries, _CHUNK):
                yield self._read(bucket, first, min(_CHUNK, bucket.entries - first))

    def _bucket(self, minute: int) -> _Bucket | None:
        day = minute // DAY_MINUTES
        return self._buckets.get(minute if day < self._split_before else day * DAY_MINUTES)

    def _read(self, bucket: _Bucket, first: int, count: int) -> Entries:
        path = self._directory / bucket.name
        raw = self._disk.open(path).read(count * ENTRY.itemsize, first * ENTRY.itemsize)
        entries = np.frombuffer(raw[: len(raw) // ENTRY.itemsize * ENTRY.itemsize], ENTRY)
        if entries.size < count or not are_intact(entries):
            raise CorruptStoreError(str(path), first * ENTRY.itemsize, "the checksum of a timer entry does not match")
        return entries

    def drop(self, minute: int) -> bool:
        """Drop the bucket of ``minute``; the next ``seal`` removes its file.

        Return whether no bucket has entries of the minute now. A day that is not split keeps them.
        """
        bucket = self._bucket(minute)
        if bucket is not None and bucket.minutes == 1:
            self._dropped.append(self._buckets.pop(minute))
        return bucket is None or bucket.minutes == 1

    def seal(self, applied: int) -> None:
        """Write the manifest; the caller has synced all entries, of records below ``applied``."""
        rows = b"".join(_ROW.pack(*self._buckets[minute]) for minute in sorted(self._buckets))
        tail = _HEAD.pack(0, 0, applied, self._split_before, self._next_number)[8:] + rows
        raw = struct.pack(">II", _MAGIC, crc32c(tail)) + tail
        if raw[_BUCKETS_FROM:] == self._written_manifest[_BUCKETS_FROM:]:
            return  # no timer changed: the checkpoint has the newer log offset
        path = self._manifest.with_suffix(".new")
        file = self._disk.open(path, create=True)
        file.truncate(0)
        file.write(raw, 0)
        file.sync()
        self._disk.rename(path, self._manifest)
        self._disk.sync_directory(self._directory)
        self._written_manifest = raw
        for bucket in self._dropped:
            path = self._directory / bucket.name
            if path.exists():
                self._disk.unlink(path)
        self._dropped.clear()
