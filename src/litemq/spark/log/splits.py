"""Splitting of a log into byte ranges that begin and end at record boundaries."""

from __future__ import annotations

import itertools
import mmap
import struct
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from litemq.format.limits import STORED_LIMITS
from litemq.format.v1.record import MAGIC_V1, MIN_BYTES_V1

__all__ = ["ByteRange", "part_bytes", "split_file_v1", "split_log", "within_times"]

_SIZE_AND_MAGIC: Final = struct.Struct(">II")


class ByteRange(NamedTuple):
    """A byte range that begins and ends at record boundaries."""

    begin: int
    end: int


def part_bytes(total: int, max_bytes: int, min_parts: int) -> int:
    """Return the size of at least ``min_parts`` equal parts of at most ``max_bytes``."""
    parts = max(min_parts, -(-total // max_bytes), 1)
    return max(1, -(-total // parts))


def split_log(whole: ByteRange, size: int, record_boundary: Callable[[int, int], int | None]) -> list[ByteRange]:
    """Cut a log about every ``size`` bytes.

    ``record_boundary`` returns the start of a record between two offsets, or ``None`` for no cut
    there.
    """
    cuts = [whole.begin]
    at = whole.begin + size
    while at < whole.end:
        # A later boundary would be close to the next cut.
        found = record_boundary(at, min(at + size // 2, whole.end))
        if found is not None and found > cuts[-1]:
            cuts.append(found)
        at += size
    cuts.append(whole.end)
    return [ByteRange(begin, end) for begin, end in itertools.pairwise(cuts) if begin < end]


def within_times(
    starts: Sequence[int],
    end: int,
    first_stored: Callable[[int], int | None],
    after_ms: int | None,
    before_ms: int | None,
) -> ByteRange:
    """Return the range of segments that may hold records stored between two times.

    ``starts`` are the segments' offsets; ``first_stored`` returns the time of a segment's first
    record, if known. Times never decrease in a log.
    """
    if not starts:
        return ByteRange(end, end)
    begin, end_offset = starts[0], end
    for start in starts:
        stored = first_stored(start)
        if stored is None:
            continue
        if before_ms is not None and stored >= before_ms:
            end_offset = start
            break
        if after_ms is not None and stored < after_ms:
            begin = start
    return ByteRange(begin, max(begin, end_offset))


def split_file_v1(path: Path, size: int) -> list[ByteRange]:
    """Cut a file of version 1 about every ``size`` bytes.

    Such a file has no index, so the records are scanned from the start, a few million per second.
    The rest of the file after invalid bytes is one part, whose reader reports the damage.
    """
    total = path.stat().st_size
    cuts = [0]
    if total > size:
        with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            unpack, max_bytes = _SIZE_AND_MAGIC.unpack_from, STORED_LIMITS.max_record_bytes
            at, due = 0, size
            while at + 8 <= total:
                length, magic = unpack(data, at)
                if magic != MAGIC_V1 or not MIN_BYTES_V1 <= length + 4 <= max_bytes:
                    break
                if at >= due:
                    cuts.append(at)
                    due = at + size
                at += length + 4
    return [ByteRange(begin, end) for begin, end in zip(cuts, [*cuts[1:], total], strict=True) if begin < end]
