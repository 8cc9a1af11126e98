"""Scan: find the records of a buffer by their sizes.

A record's size is its first field, so each start gives the next. A scan checks size and magic only,
and stops at the first bytes that cannot be a record. Every record that it returns is completely
inside the buffer.
"""

from __future__ import annotations

import struct
from enum import Enum
from typing import Final, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from litemq.errors import InvalidArgumentError
from litemq.format import native
from litemq.format.limits import DEFAULT_LIMITS, RecordLimits
from litemq.format.record import BLANK_MAGIC, FIXED_BYTES, MAGIC, Buffer, check_buffer
from litemq.format.v1.record import MAGIC_V1, MIN_BYTES_V1

__all__ = ["Scan", "ScanStop", "Version", "scan", "scan_lanes"]

Version = Literal[1, 2]

_SIZE_AND_MAGIC: Final = struct.Struct(">II")
_MAGIC_SWAPPED: Final = int.from_bytes(MAGIC.to_bytes(4, "big"), "little")
_WINDOW: Final = 1 << 20  # bytes searched for magics at once
_MIN_FOUND: Final = 16  # records per window; below that, continue one by one for a while
_ONE_BY_ONE: Final = 256


class ScanStop(Enum):
    """The reason why a scan ended."""

    END = "the buffer ends with a whole record"
    ZERO = "a zero size: the end of the log"
    BLANK = "a blank record up to the end: the rest of the segment is unused"
    INCOMPLETE = "the buffer ends inside a record"
    BROKEN = "these bytes are not a record"


class Scan(NamedTuple):
    """The starts of all complete records, and the position and reason of the scan's end."""

    starts: npt.NDArray[np.int64]
    end: int
    stop: ScanStop


class _Shape(NamedTuple):
    magic: int
    min_bytes: int
    prefix: int  # bytes that the size field does not count
    alignment_mask: int


_SHAPES: Final[dict[Version, _Shape]] = {2: _Shape(MAGIC, FIXED_BYTES, 0, 7), 1: _Shape(MAGIC_V1, MIN_BYTES_V1, 4, 0)}


def scan(
    buffer: Buffer,
    begin: int = 0,
    end: int | None = None,
    *,
    version: Version = 2,
    limits: RecordLimits = DEFAULT_LIMITS,
) -> Scan:
    """Find the consecutive records of ``buffer[begin:end]``."""
    if version not in _SHAPES:
        raise InvalidArgumentError(f"version={version!r}: choose 1 or 2")
    check_buffer(buffer)
    expected_magic, min_bytes, prefix, mask = _SHAPES[version]
    max_bytes = limits.max_record_bytes
    end = len(buffer) if end is None else end
    if not 0 <= begin <= end <= len(buffer):
        raise InvalidArgumentError(f"bytes {begin} … {end} are outside of the buffer of {len(buffer)} bytes")
    unpack = _SIZE_AND_MAGIC.unpack_from
    pieces: list[npt.NDArray[np.int64]] = []
    starts: list[int] = []
    at = begin
    if version == 2 and native.enabled:
        found, at = native.loops.scan(buffer, begin, end, max_bytes)
        return Scan(np.frombuffer(found, np.int64), at, _stop_reason(buffer, at, end, max_bytes))
    if version == 2 and end - at >= FIXED_BYTES:
        uniform = _records_of_one_size(buffer, at, end, max_bytes)
        if uniform is not None:
            return Scan(uniform, end, ScanStop.END)
    one_by_one = 0 if version == 2 else -1  # only version 2 aligns records to eight bytes
    while end - at >= 8:
        if one_by_one == 0:
            together, at = _chain_of_magics(buffer, at, end, max_bytes)
            if together.size:
                if starts:
                    pieces.append(np.array(starts, np.int64))
                    starts = []
                pieces.append(together)
            one_by_one = _ONE_BY_ONE if together.size < _MIN_FOUND else 0
            continue
        one_by_one -= 1
        size, magic = unpack(buffer, at)
        size += prefix
        if magic != expected_magic or size < min_bytes or size & mask or size > max_bytes:
            return Scan(_join(pieces, starts), at, _no_record_reason(buffer, at, end, size - prefix, magic))
        record_end = at + size
        if record_end > end:
            return Scan(_join(pieces, starts), at, ScanStop.INCOMPLETE)
        starts.append(at)
        at = record_end
    return Scan(_join(pieces, starts), at, ScanStop.END if at == end else ScanStop.INCOMPLETE)


def _stop_reason(buffer: Buffer, at: int, end: int, max_bytes: int) -> ScanStop:
    """Return why a scan of version 2 stopped at ``at``."""
    if end - at < 8:
        return ScanStop.END if at == end else ScanStop.INCOMPLETE
    size, magic = _SIZE_AND_MAGIC.unpack_from(buffer, at)
    if magic != MAGIC or size < FIXED_BYTES or size & 7 or size > max_bytes:
        return _no_record_reason(buffer, at, end, size, magic)
    return ScanStop.INCOMPLETE


def _records_of_one_size(buffer: Buffer, at: int, end: int, max_bytes: int) -> npt.NDArray[np.int64] | None:
    """Return the starts if records of one size fill the range, as one producer's often do."""
    size, magic = _SIZE_AND_MAGIC.unpack_from(buffer, at)
    if magic != MAGIC or size < FIXED_BYTES or size > max_bytes or size & 7 or (end - at) % size:
        return None
    heads = np.ndarray(((end - at) // size,), ">u8", buffer, at, (size,))
    return np.arange(at, end, size) if (heads == (size << 32 | magic)).all() else None


def _chain_of_magics(buffer: Buffer, at: int, end: int, max_bytes: int) -> tuple[npt.NDArray[np.int64], int]:
    """Find the records from ``at`` on by their magics, as long as they are consecutive.

    Searches every eighth byte of a window. A magic inside a body ends the chain; the scan continues
    one by one from there.
    """
    count = min(end - at, _WINDOW) >> 3
    magics = np.ndarray((count,), "<u4", buffer, at + 4, (8,))
    positions = np.flatnonzero(magics == _MAGIC_SWAPPED)
    positions <<= 3
    positions += at
    if positions.size == 0:
        return positions, at
    sizes = np.ndarray((end - at - 3,), ">u4", buffer, at, (1,))[positions - at].astype(np.int64)
    ends = positions + sizes
    chained = (sizes >= FIXED_BYTES) & (sizes <= max_bytes) & (ends <= end) & (sizes & 7 == 0)
    chained[0] &= positions[0] == at
    chained[1:] &= positions[1:] == ends[:-1]
    if not chained.all():
        positions = positions[: int(chained.argmin())]
    return positions, int(ends[positions.size - 1]) if positions.size else at


def _join(pieces: list[npt.NDArray[np.int64]], starts: list[int]) -> npt.NDArray[np.int64]:
    if starts or not pieces:
        pieces.append(np.array(starts, np.int64))
    return pieces[0] if len(pieces) == 1 else np.concatenate(pieces)


def _no_record_reason(buffer: Buffer, at: int, end: int, size_field: int, magic: int) -> ScanStop:
    """Return what the bytes at ``at`` are instead of a record.

    The end of the log and a blank record contain zeros only, so a damaged record is not mistaken
    for one because of a flipped bit.
    """
    if size_field == 0 and magic == 0:
        return ScanStop.ZERO
    rest = np.frombuffer(buffer, np.uint8)[at + 8 : min(end, at + size_field)]
    if magic == BLANK_MAGIC and size_field >= 8 and at + size_field >= end and not rest.any():
        return ScanStop.BLANK
    return ScanStop.BROKEN


def scan_lanes(
    buffer: Buffer,
    lanes: npt.NDArray[np.int64],
    end: int | None = None,
    *,
    version: Version = 2,
    limits: RecordLimits = DEFAULT_LIMITS,
) -> Scan:
    """Find the records from ascending known starts in ``lanes``, say of every 64th record.

    Scans all lanes at once. The result equals that of ``scan`` from the first lane; if the lanes do
    not meet exactly, it falls back to ``scan``.
    """
    end = len(buffer) if end is None else end
    if end > len(buffer) or not np.issubdtype(np.asarray(lanes).dtype, np.integer):
        raise InvalidArgumentError(f"lanes must be ascending positions in the buffer of {len(buffer)} bytes")
    lanes = np.asarray(lanes, np.int64)
    if lanes.size == 0 or int(lanes[0]) < 0 or int(lanes[-1]) > end - 8 or np.any(lanes[1:] <= lanes[:-1]):
        first = int(lanes[0]) if lanes.size and int(lanes[0]) >= 0 else 0
        return scan(buffer, first, end, version=version, limits=limits)
    expected_magic, min_bytes, prefix, mask = _SHAPES[version]
    heads = np.ndarray((len(buffer) - 7,), ">u8", buffer, 0, (1,))
    bounds = np.append(lanes[1:], end)
    at = lanes
    rounds: list[npt.NDArray[np.int64]] = []
    while at.size:
        if int(at.max()) > end - 8:
            return scan(buffer, int(lanes[0]), end, version=version, limits=limits)
        head = heads[at].astype(np.int64)
        size = (head >> 32) + prefix
        ends = at + size
        valid = (head & 0xFFFFFFFF) == expected_magic
        valid &= (size >= min_bytes) & (size <= limits.max_record_bytes) & (size & mask == 0) & (ends <= bounds)
        if not valid.all():
            return scan(buffer, int(lanes[0]), end, version=version, limits=limits)
        rounds.append(at)
        unfinished = ends < bounds
        at = ends[unfinished]
        bounds = bounds[unfinished]
    return Scan(np.sort(np.concatenate(rounds)), end, ScanStop.END)
