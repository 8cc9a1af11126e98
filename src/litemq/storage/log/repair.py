"""Repair of damaged bytes of the log with those of another replica.

All replicas of a group have the same bytes at the same log offsets: the same records, and the same
blank record at the end of a segment. So a damaged stretch is overwritten as it is, in its file.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from litemq.errors import CorruptStoreError, OffsetOutOfRangeError, RecordFormatError
from litemq.format.batches.scan import scan
from litemq.format.columns.record_columns import RecordColumns
from litemq.format.limits import STORED_LIMITS
from litemq.storage.files.disk import Disk
from litemq.storage.log.chunks import check_records
from litemq.storage.log.commitlog import CommitLog
from litemq.storage.log.damage import log_offset_of
from litemq.storage.log.epochs import Epoch
from litemq.storage.log.reader import SegmentedLog, is_record_at, next_record, read_log
from litemq.storage.log.records import corrupt_at
from litemq.storage.log.segment import Segment, blank_record

__all__ = ["Stretch", "check_repair", "find_stretches", "read_stretch", "stretch_at", "write_repair"]


class Stretch(NamedTuple):
    """A damaged part of one segment: from the end of an intact record to the start of the next.

    If no intact record follows, it ends with its segment or with the log.
    """

    begin: int
    end: int


def find_stretches(log: SegmentedLog, begin: int, end: int) -> list[Stretch]:
    """Read the log from ``begin`` to ``end``, and return its damaged stretches in order."""
    damaged: list[int] = []
    for _ in read_log(log, begin, end, on_damage=lambda error: damaged.append(log_offset_of(error))):
        pass
    return [stretch for stretch in (stretch_at(log, offset, end) for offset in damaged) if stretch is not None]


def stretch_at(log: SegmentedLog, begin: int, end: int) -> Stretch | None:
    """Return the damaged stretch at ``begin`` of a log that ends at ``end``.

    Return ``None`` if an intact record begins there.
    """
    segment = log.segment_of(begin)
    until = min(end, segment.end)
    size = min(int.from_bytes(segment.read(begin, begin + 4), "big"), STORED_LIMITS.max_record_bytes)
    if is_record_at(segment.read(begin, min(begin + size, until)), 0, begin) or segment.is_blank_from(begin):
        return None
    return Stretch(begin, next_record(segment, begin + 8, until))


def read_stretch(log: CommitLog, stretch: Stretch) -> bytes:
    """Read a stretch that is damaged in another replica. It may wait for the disk.

    Raises:
        OffsetOutOfRangeError: The log does not have it, or not in one segment.
        CorruptStoreError: It is damaged here, too, or begins or ends inside a record.
    """
    begin, end = stretch
    segment = log.segment_of(begin)
    if not begin < end <= min(log.end, segment.end):
        raise OffsetOutOfRangeError(f"{begin} … {end} is not in one segment of the log, which ends at {log.end}")
    data = segment.read(begin, end)
    try:
        _check_filled(stretch, data, segment.end)
    except RecordFormatError as error:
        raise corrupt_at(log, begin + error.position, error.problem) from error
    return data


def _check_filled(stretch: Stretch, data: bytes, segment_end: int) -> RecordColumns | None:
    """Return the intact records of ``data``; ``None`` if it is only a blank record."""
    blank_at = scan(data, limits=STORED_LIMITS).end
    if stretch.end == segment_end and data[blank_at:] == blank_record(len(data) - blank_at):
        data = data[:blank_at]
    return check_records(data, stretch.begin) if data else None


def check_repair(stretch: Stretch, data: bytes, segment_end: int, epochs: Sequence[Epoch]) -> RecordColumns | None:
    """Return the records of ``data``, which fill ``stretch``; ``None`` if it is a blank record.

    ``epochs`` are those of the damaged log: in each, one master wrote all records. So a record of
    the right epoch at its offset is the record that was there.

    Raises:
        RecordFormatError: The bytes do not fill the stretch with intact records of its epochs.
    """
    if len(data) != stretch.end - stretch.begin:
        raise RecordFormatError("the stretch is not filled", 0, f"{len(data)} of {stretch.end - stretch.begin} bytes")
    columns = _check_filled(stretch, data, segment_end)
    if columns is None:
        return None
    found = columns.header["epoch"].astype(np.int64)
    begins, numbers = [epoch.start_offset for epoch in epochs], [0, *(epoch.number for epoch in epochs)]
    lowest = np.array(numbers)[np.searchsorted(begins, columns.starts + stretch.begin, side="right")]
    wrong = (found < lowest) | (found > numbers[bisect_right(begins, stretch.end)])
    wrong[1:] |= found[1:] < found[:-1]
    if wrong.any():
        number = int(wrong.argmax())
        detail = f"{found[number]}, where the log has {lowest[number]}"
        raise RecordFormatError("another epoch", int(columns.starts[number]), detail)
    return columns


def write_repair(disk: Disk, segment: Segment, stretch: Stretch, data: bytes) -> None:
    """Overwrite ``stretch`` with ``data``, durably. The caller has checked it.

    A power cut leaves each sector old or new: then the stretch is damaged still, or repaired.

    Raises:
        CorruptStoreError: The file does not have the new bytes.
    """
    # A sync reports an error once per descriptor, and the flusher must not miss it.
    file = disk.open(segment.file.path)
    file.write(data, stretch.begin - segment.start)
    file.sync()
    if segment.read(stretch.begin, stretch.end) != data:
        raise CorruptStoreError(str(file.path), stretch.begin - segment.start, "the file does not keep a repair")
