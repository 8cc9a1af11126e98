"""The bucket files: entries of timers, by the day on which they are due, and from the evening before on by the minute.

::

    DIR/timers/manifest          which buckets there are, how many entries of each count, and up to where the log is in them
    DIR/timers/day-19675.3       entries of a day that is still far: its number since 1970, and the number of the file
    DIR/timers/minute-28332000.7 entries of a minute

The manifest (big-endian)::

    at  bytes  field
     0      4  magic 0x4C4D5154: "LMQT"
     4      4  crc32c over bytes 8 …
     8      8  applied: the buckets hold all that records below this log offset said
    16      8  the first day whose timers are not by the minute yet
    24      8  the next file's number
    32         for each bucket: its first minute (8), its number of minutes (4), its file's number (8), how many entries it has (8)

Entries are only ever appended, and a file that is no longer needed goes when a manifest without it is safe: so whatever a crash leaves behind,
the manifest that is there tells what counts. Everything else is cut off when the buckets are opened, and comes again from the log.
"""

from __future__ import annotations

import logging
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from litemq.errors import CorruptStoreError
from litemq.format.crc import crc32c
from litemq.storage.files.disk import Disk
from litemq.storage.timers.entries import DAY_MINUTES, ENTRY, MINUTE_MS, Entries, are_whole

__all__ = ["BucketFiles"]

Longs = npt.NDArray[np.int64]
Place = tuple[int, int]  # among timers: a due time and a log offset

_MAGIC: Final = 0x4C4D5154
_HEAD: Final = struct.Struct(">IIqqq")
_ROW: Final = struct.Struct(">qIqq")
_SAME_FROM: Final = 16  # what stands behind the offset tells the buckets
_SPLIT_AT_ONCE: Final = 1 << 20  # entries
_NO_ENTRIES: Final = np.empty(0, ENTRY)
_LOG = logging.getLogger(__name__)


class _Bucket(NamedTuple):
    """A file, and how many of its entries count."""

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
    """Used by one thread at a time."""

    def __init__(self, disk: Disk, directory: Path) -> None:
        self._disk = disk
        self._directory = directory
        self._manifest = directory / "manifest"
        self._buckets: dict[int, _Bucket] = {}  # by first minute
        self._dropped: list[_Bucket] = []
        self._split_before = 0  # the first day whose timers are not by the minute yet
        self._next_number = 1
        self._sealed_as = b""
        self.applied: int | None = None  # as the manifest says; None: there was none, or it was wrong
        disk.make_directory(directory)
        try:
            self._open()
        except CorruptStoreError as error:
            _LOG.warning("%s; the timers are found anew in the log", error)
            self.clear()

    def _open(self) -> None:
        if not self._manifest.exists():
            self._remove_others()
            return
        raw = self._manifest.read_bytes()
        rows, rest = divmod(len(raw) - _HEAD.size, _ROW.size)
        if rows < 0 or rest or raw[:8] != struct.pack(">II", _MAGIC, crc32c(raw[8:])):
            raise CorruptStoreError(str(self._manifest), 0, "the checksum does not fit")
        _, _, applied, self._split_before, self._next_number = _HEAD.unpack_from(raw)
        for number in range(rows):
            bucket = _Bucket(*_ROW.unpack_from(raw, _HEAD.size + number * _ROW.size))
            self._buckets[bucket.minute] = bucket
        self._remove_others()
        for bucket in self._buckets.values():
            path = self._directory / bucket.name
            size = path.stat().st_size if path.exists() else 0
            if size < bucket.entries * ENTRY.itemsize:
                raise CorruptStoreError(str(path), size, f"{bucket.entries} entries of timers should be there")
            if size > bucket.entries * ENTRY.itemsize:
                self._disk.open(path).truncate(bucket.entries * ENTRY.itemsize)
        self.applied = applied
        self._sealed_as = raw

    def _remove_others(self) -> None:
        """What the manifest does not tell of was begun, or not removed yet, when a crash came."""
        known = {bucket.name for bucket in self._buckets.values()} | {self._manifest.name}
        for path in sorted(self._directory.iterdir()):
            if path.name not in known:
                self._disk.unlink(path)

    def clear(self) -> None:
        """Begin anew, without any bucket."""
        self._buckets.clear()
        self._dropped.clear()
        self._split_before = 0
        self._sealed_as = b""
        self.applied = None
        if self._manifest.exists():
            self._disk.unlink(self._manifest)
        self._remove_others()
        self._disk.sync_directory(self._directory)

    # Buckets ------------------------------------------------------------------------------------------------------------------

    def first_from(self, minute: int) -> int | None:
        """The first minute from this one on, that may have timers."""
        minutes = [max(minute, bucket.minute) for bucket in self._buckets.values() if bucket.minute + bucket.minutes > minute]
        return min(minutes, default=None)

    def write(self, entries: Entries) -> None:
        """Put entries, in the order of the log, into their buckets."""
        minutes = entries["due"].astype(np.int64) // MINUTE_MS
        firsts = np.where(minutes < self._split_before * DAY_MINUTES, minutes, minutes // DAY_MINUTES * DAY_MINUTES)
        order = np.argsort(firsts, kind="stable")
        bounds = np.flatnonzero(np.diff(firsts[order])) + 1
        for some in np.split(order, bounds):
            if some.size:
                self._append(int(firsts[some[0]]), entries[some])

    def _append(self, minute: int, entries: Entries) -> None:
        bucket = self._buckets.get(minute)
        if bucket is None:
            bucket = _Bucket(minute, 1 if minute < self._split_before * DAY_MINUTES else DAY_MINUTES, self._next_number, 0)
            self._next_number += 1
        file = self._disk.open(self._directory / bucket.name, create=True)
        file.write(entries.tobytes(), bucket.entries * ENTRY.itemsize)
        self._buckets[minute] = bucket._replace(entries=bucket.entries + entries.size)

    def take_apart(self, minute: int) -> None:
        """From now on, timers up to the day of a minute are by the minute."""
        day = minute // DAY_MINUTES
        for first in sorted(first for first, bucket in self._buckets.items() if bucket.minutes == DAY_MINUTES):
            if first // DAY_MINUTES <= day:
                self._split_before = first // DAY_MINUTES + 1
                self._split(self._buckets[first])
        self._split_before = max(self._split_before, day + 1)

    def _split(self, bucket: _Bucket) -> None:
        del self._buckets[bucket.minute]
        self._dropped.append(bucket)
        for first in range(0, bucket.entries, _SPLIT_AT_ONCE):
            self.write(self._read(bucket, first, min(_SPLIT_AT_ONCE, bucket.entries - first)))

    def read(self, minute: int) -> Entries:
        """The entries of one minute. A day that was far until now is taken apart first."""
        self.take_apart(minute)
        bucket = self._buckets.get(minute)
        return _NO_ENTRIES if bucket is None else self._read(bucket, 0, bucket.entries)

    def behind(self, minute: int) -> int:
        """The minute behind those that are in one file with a minute."""
        bucket = self._with(minute)
        return minute + 1 if bucket is None else bucket.minute + bucket.minutes

    def read_of(self, minute: int, pendings: Longs) -> Entries:
        """What the file of a minute says of some timers, in order of their places. All of it is read and verified, but never held at once."""
        found = [_NO_ENTRIES]
        for some in self._in_parts(minute):
            there = some["pending"].astype(np.int64)
            places = np.minimum(np.searchsorted(pendings, there), pendings.size - 1)
            found.append(some[pendings[places] == there])
        return np.concatenate(found)

    def first_of(self, minute: int, after: Place, until: int, most: int) -> tuple[Entries, bool]:
        """Of the timers that began to wait in the file of a minute, those with the least due times behind a place and before ``until``; and whether
        there are more."""
        found, last = _NO_ENTRIES, until - 1  # nothing that is due later is among the first
        are_more = False
        for some in self._in_parts(minute):
            dues = some["due"].astype(np.int64)
            chosen = (dues >= after[0]) & (dues <= last) & (some["size"] > 0)
            chosen[chosen] = (dues[chosen] > after[0]) | (some["pending"][chosen] > after[1])
            found = np.concatenate((found, some[chosen]))
            if found.size > most:
                dues = found["due"].astype(np.int64)
                last, are_more = int(np.partition(dues, most - 1)[most - 1]), True
                found = found[dues <= last]
                found = found[np.lexsort((found["pending"], found["due"]))[:most]]
        return found, are_more

    def _in_parts(self, minute: int) -> Iterator[Entries]:
        bucket = self._with(minute)
        if bucket is not None:
            for first in range(0, bucket.entries, _SPLIT_AT_ONCE):
                yield self._read(bucket, first, min(_SPLIT_AT_ONCE, bucket.entries - first))

    def _with(self, minute: int) -> _Bucket | None:
        day = minute // DAY_MINUTES
        return self._buckets.get(minute if day < self._split_before else day * DAY_MINUTES)

    def _read(self, bucket: _Bucket, first: int, count: int) -> Entries:
        path = self._directory / bucket.name
        raw = self._disk.open(path).read(count * ENTRY.itemsize, first * ENTRY.itemsize)
        entries = np.frombuffer(raw[: len(raw) // ENTRY.itemsize * ENTRY.itemsize], ENTRY)
        if entries.size < count or not are_whole(entries):
            raise CorruptStoreError(str(path), first * ENTRY.itemsize, "an entry of a timer is not as it was written")
        return entries

    def drop(self, minute: int) -> None:
        """Nothing of a minute waits any more."""
        bucket = self._buckets.get(minute)
        if bucket is not None and bucket.minutes == 1:
            self._dropped.append(self._buckets.pop(minute))

    def seal(self, applied: int) -> None:
        """Everything that was written is safe: from now on it counts, as what the log says below ``applied``."""
        rows = b"".join(_ROW.pack(*self._buckets[minute]) for minute in sorted(self._buckets))
        tail = _HEAD.pack(0, 0, applied, self._split_before, self._next_number)[8:] + rows
        raw = struct.pack(">II", _MAGIC, crc32c(tail)) + tail
        if raw[_SAME_FROM:] == self._sealed_as[_SAME_FROM:]:
            return  # nothing was said of timers since: the checkpoint tells how far the log was read
        path = self._manifest.with_suffix(".new")
        file = self._disk.open(path, create=True)
        file.truncate(0)
        file.write(raw, 0)
        file.sync()
        self._disk.rename(path, self._manifest)
        self._disk.sync_directory(self._directory)
        self._sealed_as = raw
        for bucket in self._dropped:
            path = self._directory / bucket.name
            if path.exists():
                self._disk.unlink(path)
        self._dropped.clear()
