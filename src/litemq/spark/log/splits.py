"""A log in parts that tasks read side by side: byte ranges that begin and end with whole records."""

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
    """From the first byte of a record to the end of another."""

    begin: int
    end: int


def part_bytes(total: int, max_bytes: int, min_parts: int) -> int:
    """How large parts of about the same size are, none larger than ``max_bytes``, so that there are at least ``min_parts`` of them."""
    parts = max(min_parts, -(-total // max_bytes), 1)
    return max(1, -(-total // parts))


def split_log(whole: ByteRange, size: int, record_boundary: Callable[[int, int], int | None]) -> list[ByteRange]:
    """Cut a log about every ``size`` bytes. ``record_boundary`` returns where a record begins between two offsets, or ``None``: then there is no cut."""
    cuts = [whole.begin]
    at = whole.begin + size
    while at < whole.end:
        # A cut that would come too late is as good as the next one.
        found = record_boundary(at, min(at + size // 2, whole.end))
        if found is not None and found > cuts[-1]:
            cuts.append(found)
        at += size
    cuts.append(whole.end)
    return [ByteRange(begin, end) for begin, end in itertools.pairwise(cuts) if begin < end]


def within_times(
    starts: Sequence[int], end: int, first_stored: Callable[[int], int | None], after_ms: int | None, before_ms: int | None
) -> ByteRange:
    """The segments, of those that begin at ``starts``, that may hold what was stored in a span of time.

    ``first_stored`` gives the time of a segment's first record, where it is known. Times never fall in a log.
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

    It has nothing beside it that says where records begin, so they are counted off from the front, a few million a second. From a place on
    that is no record the file is one part, whose reader says what is wrong there.
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
