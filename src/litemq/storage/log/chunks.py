"""Chunks of the log: a master reads them, and its followers check them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from litemq.errors import RecordFormatError
from litemq.format.batches.check import explain, find_faults
from litemq.format.batches.scan import ScanStop, scan
from litemq.format.columns.record_columns import RecordColumns
from litemq.format.limits import STORED_LIMITS
from litemq.storage.log.commitlog import CommitLog
from litemq.storage.log.epochs import Epoch
from litemq.storage.log.records import corrupt_at

__all__ = ["Chunk", "check_chunk", "check_records", "read_chunk"]


class Chunk(NamedTuple):
    """Whole records of one epoch and one segment. The first is at log offset ``begin``."""

    begin: int
    data: bytes


def check_records(data: bytes, begin: int) -> RecordColumns:
    """Return the columns of ``data``: whole, intact records of the log from ``begin`` on.

    Raises:
        RecordFormatError: The record at its ``position`` is damaged or incomplete, or belongs to
            another log offset. All records before it are intact.
    """
    found = scan(data, limits=STORED_LIMITS)
    columns = RecordColumns(data, found.starts)
    faults = find_faults(columns, limits=STORED_LIMITS)
    misplaced = np.flatnonzero(columns.header["commitlog_offset"] - found.starts != begin)
    if faults.size and (misplaced.size == 0 or faults[0] <= misplaced[0]):
        raise explain(data, int(found.starts[faults[0]]), limits=STORED_LIMITS)
    if misplaced.size:
        raise RecordFormatError("the record belongs elsewhere", int(found.starts[misplaced[0]]))
    if found.stop is not ScanStop.END or found.starts.size == 0:
        raise RecordFormatError("not a whole number of records", found.end, found.stop.name.lower())
    return columns


def check_chunk(begin: int, data: bytes) -> RecordColumns:
    """Return the records of a chunk that begins at log offset ``begin``.

    Raises:
        RecordFormatError: A record is damaged or belongs elsewhere, or not all have one epoch.
    """
    columns = check_records(data, begin)
    epochs = columns.header["epoch"]
    if (epochs != epochs[0]).any():
        raise RecordFormatError("records of several epochs", 0)
    return columns


def read_chunk(log: CommitLog, epochs: Iterable[Epoch], offset: int, max_bytes: int) -> Chunk:
    """Read the next chunk from ``offset`` on: empty at the log's end.

    It has at least one record, even if that is longer than ``max_bytes``. If the rest of a segment
    is blank, the chunk begins with the next segment. It ends before a damaged record. It may wait
    for the disk.

    Raises:
        CorruptStoreError: The first record is damaged.
        OffsetOutOfRangeError: Retention has dropped the segment.
    """
    end = log.end
    if offset < end and log.is_blank_at(offset):
        offset = log.segment_of(offset).end
    if offset >= end:
        return Chunk(offset, b"")
    later = [epoch.start_offset for epoch in epochs if epoch.start_offset > offset]
    until = min([end, log.segment_of(offset).end, *later])
    size = scan(log.read(offset, min(until, offset + max_bytes)), limits=STORED_LIMITS).end
    if not size:  # the record is longer, or damaged
        size = min(int.from_bytes(log.read(offset, offset + 4), "big"), STORED_LIMITS.max_record_bytes)
    data = bytes(log.read(offset, min(until, offset + size)))
    try:
        check_records(data, offset)
    except RecordFormatError as error:
        if error.position == 0:
            raise corrupt_at(log, offset, error.problem) from error
        data = data[: error.position]
    return Chunk(offset, data)
