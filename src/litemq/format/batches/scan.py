"""Where the records of a buffer begin.

A record's size is its first field, so each start gives the next. A scan believes nothing else: it stops at the first bytes that
cannot be a record, and every start that it returns has its whole record, header included, inside the buffer.
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
_WINDOW: Final = 1 << 20  # bytes that are looked at together
_WORTH_IT: Final = 16  # so few records of a window found together: then go on one by one for a while
_ONE_BY_ONE: Final = 256


class ScanStop(Enum):
    """Why a scan ended where it did."""

    END = "the buffer ends with a whole record"
    ZERO = "a zero size: the end of the log"
    BLANK = "a blank record that reaches the end of what was read: the rest of the segment is unused"
    INCOMPLETE = "the buffer ends inside a record"
    BROKEN = "these bytes are not a record"


class Scan(NamedTuple):
    """The starts of all records that stand whole in the buffer, where the scan ended, and why."""

    starts: npt.NDArray[np.int64]
    end: int
    stop: ScanStop


class _Shape(NamedTuple):
    magic: int
    least: int
    prefix: int  # bytes that the size field does not count
    alignment_mask: int


_SHAPES: Final[dict[Version, _Shape]] = {2: _Shape(MAGIC, FIXED_BYTES, 0, 7), 1: _Shape(MAGIC_V1, MIN_BYTES_V1, 4, 0)}


def scan(buffer: Buffer, begin: int = 0, end: int | None = None, *, version: Version = 2, limits: RecordLimits = DEFAULT_LIMITS) -> Scan:
    """Find the records of ``buffer[begin:end]`` one after another."""
    if version not in _SHAPES:
        raise InvalidArgumentError(f"version={version!r}: records have version 1 or 2")
    check_buffer(buffer)
    magic_wanted, least, prefix, mask = _SHAPES[version]
    most = limits.max_record_bytes
    end = len(buffer) if end is None else end
    if not 0 <= begin <= end <= len(buffer):
        raise InvalidArgumentError(f"bytes {begin} … {end} of a buffer of {len(buffer)}")
    unpack = _SIZE_AND_MAGIC.unpack_from
    pieces: list[npt.NDArray[np.int64]] = []
    starts: list[int] = []
    at = begin
    if version == 2 and native.enabled:
        found, at = native.loops.scan(buffer, begin, end, most)
        return Scan(np.frombuffer(found, np.int64), at, _why_at(buffer, at, end, most))
    if version == 2 and end - at >= FIXED_BYTES:
        alike = _records_of_one_size(buffer, at, end, most)
        if alike is not None:
            return Scan(alike, end, ScanStop.END)
    one_by_one = 0 if version == 2 else -1  # only version 2 keeps its records on multiples of eight
    while end - at >= 8:
        if one_by_one == 0:
            together, at = _chain_of_magics(buffer, at, end, most)
            if together.size:
                if starts:
                    pieces.append(np.array(starts, np.int64))
                    starts = []
                pieces.append(together)
            one_by_one = _ONE_BY_ONE if together.size < _WORTH_IT else 0
            continue
        one_by_one -= 1
        size, magic = unpack(buffer, at)
        size += prefix
        if magic != magic_wanted or size < least or size & mask or size > most:
            return Scan(_joined(pieces, starts), at, _stop_at(buffer, at, end, size - prefix, magic))
        following = at + size
        if following > end:
            return Scan(_joined(pieces, starts), at, ScanStop.INCOMPLETE)
        starts.append(at)
        at = following
    return Scan(_joined(pieces, starts), at, ScanStop.END if at == end else ScanStop.INCOMPLETE)


def _why_at(buffer: Buffer, at: int, end: int, most: int) -> ScanStop:
    """Why a chain of records of version 2 ends where it does."""
    if end - at < 8:
        return ScanStop.END if at == end else ScanStop.INCOMPLETE
    size, magic = _SIZE_AND_MAGIC.unpack_from(buffer, at)
    if magic != MAGIC or size < FIXED_BYTES or size & 7 or size > most:
        return _stop_at(buffer, at, end, size, magic)
    return ScanStop.INCOMPLETE


def _records_of_one_size(buffer: Buffer, at: int, end: int, most: int) -> npt.NDArray[np.int64] | None:
    """The starts where records of one size, like those of one producer often are, fill the range exactly; else ``None``."""
    size, magic = _SIZE_AND_MAGIC.unpack_from(buffer, at)
    if magic != MAGIC or size < FIXED_BYTES or size > most or size & 7 or (end - at) % size:
        return None
    heads = np.ndarray(((end - at) // size,), ">u8", buffer, at, (size,))
    return np.arange(at, end, size) if (heads == (size << 32 | magic)).all() else None


def _chain_of_magics(buffer: Buffer, at: int, end: int, most: int) -> tuple[npt.NDArray[np.int64], int]:
    """The records from ``at`` on that are found by their magic, as far as each begins where the one before it ends.

    Every eighth byte of a window is looked at. A body may hold a magic, too: then the chain breaks off there, and goes on one by one.
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
    chained = (sizes >= FIXED_BYTES) & (sizes <= most) & (ends <= end) & (sizes & 7 == 0)
    chained[0] &= positions[0] == at
    chained[1:] &= positions[1:] == ends[:-1]
    if not chained.all():
        positions = positions[: int(chained.argmin())]
    return positions, int(ends[positions.size - 1]) if positions.size else at


def _joined(pieces: list[npt.NDArray[np.int64]], starts: list[int]) -> npt.NDArray[np.int64]:
    if starts or not pieces:
        pieces.append(np.array(starts, np.int64))
    return pieces[0] if len(pieces) == 1 else np.concatenate(pieces)


def _stop_at(buffer: Buffer, at: int, end: int, size_field: int, magic: int) -> ScanStop:
    """An end of the log and a blank record are zeros where a damaged record is not: neither is one flipped bit away from a record."""
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
    """Find the records from a sparse index, all lanes at once: ``lanes`` are known starts, rising, say of every 64th record.

    The answer is that of ``scan`` from the first lane. Where the lanes do not meet each other exactly, ``scan`` gives it.
    """
    end = len(buffer) if end is None else end
    if end > len(buffer) or not np.issubdtype(np.asarray(lanes).dtype, np.integer):
        raise InvalidArgumentError(f"lanes are numbers of bytes, rising, in a buffer of {len(buffer)}")
    lanes = np.asarray(lanes, np.int64)
    if lanes.size == 0 or int(lanes[0]) < 0 or int(lanes[-1]) > end - 8 or np.any(lanes[1:] <= lanes[:-1]):
        first = int(lanes[0]) if lanes.size and int(lanes[0]) >= 0 else 0
        return scan(buffer, first, end, version=version, limits=limits)
    magic_wanted, least, prefix, mask = _SHAPES[version]
    heads = np.ndarray((len(buffer) - 7,), ">u8", buffer, 0, (1,))
    bounds = np.append(lanes[1:], end)
    at = lanes
    rounds: list[npt.NDArray[np.int64]] = []
    while at.size:
        if int(at.max()) > end - 8:
            return scan(buffer, int(lanes[0]), end, version=version, limits=limits)
        head = heads[at].astype(np.int64)
        size = (head >> 32) + prefix
        following = at + size
        sound = (head & 0xFFFFFFFF) == magic_wanted
        sound &= (size >= least) & (size <= limits.max_record_bytes) & (size & mask == 0) & (following <= bounds)
        if not sound.all():
            return scan(buffer, int(lanes[0]), end, version=version, limits=limits)
        rounds.append(at)
        going = following < bounds
        at = following[going]
        bounds = bounds[going]
    return Scan(np.sort(np.concatenate(rounds)), end, ScanStop.END)
