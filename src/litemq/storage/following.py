"""The write path of a follower: its master's records, byte for byte."""

from __future__ import annotations

import numpy as np

from litemq.errors import OffsetOutOfRangeError, RecordFormatError
from litemq.format.batches.check import find_faults
from litemq.format.batches.scan import ScanStop, scan
from litemq.format.columns.record_columns import RecordColumns
from litemq.format.limits import STORED_LIMITS
from litemq.format.record_decode import decode_record
from litemq.storage.log.reader import Window
from litemq.storage.projections.replay import replay_into_queues, replay_into_state
from litemq.storage.store_parts import StoreParts

__all__ = ["LogFollower"]


class LogFollower:
    """Appends the records of a master's log, and applies them to the projections."""

    def __init__(self, parts: StoreParts) -> None:
        self._parts = parts

    def append(self, begin: int, data: bytes) -> int:
        """Append ``data``, whole records of one epoch and one segment; return the log's end.

        They begin at log offset ``begin``, which is the log's end or the start of the next segment.
        Nothing is written unless every record is intact, belongs to its offset, and has an epoch
        that is not older than the last one.

        Raises:
            RecordFormatError: A record is damaged, or is not the next one.
            OffsetOutOfRangeError: The log does not continue at ``begin``.
        """
        parts = self._parts
        log, files = parts.log, parts.files
        columns = _check(data, begin)
        with parts.writing:
            if begin != log.next_start(begin):
                raise OffsetOutOfRangeError(f"the log ends at {log.end}: records at {begin} do not follow")
            epoch = int(columns.header["epoch"][0])
            if epoch < files.epoch.number:
                raise RecordFormatError("stale epoch", 0, f"{epoch} after {files.epoch.number}")
            if epoch > files.epoch.number:
                files.begin_epoch(epoch, begin)
            before = log.end
            try:
                offsets = columns.starts + begin
                dirty = log.write(data, columns.starts, columns.sizes, offsets, from_reserve=True)
                files.store_timestamp = max(files.store_timestamp, int(columns.header["store_timestamp"][-1]))
                window = Window(begin, columns)
                replay_into_queues(window, begin, parts.queues)
                replay_into_state(window, parts.state, parts.changes, parts.timers, on_control=parts.marks.note)
                parts.on_written(dirty, is_wanted=True)
            except BaseException:
                if log.end != before:
                    log.fail("a write was interrupted")
                raise
            return log.end


def _check(data: bytes, begin: int) -> RecordColumns:
    found = scan(data, limits=STORED_LIMITS)
    if found.stop is not ScanStop.END or found.starts.size == 0:
        raise RecordFormatError("not a whole number of records", found.end, found.stop.name.lower())
    columns = RecordColumns(data, found.starts)
    faults = find_faults(columns, limits=STORED_LIMITS)
    if faults.size:
        decode_record(data, int(found.starts[faults[0]]), limits=STORED_LIMITS)  # it says what is wrong
        raise RecordFormatError("invalid record", int(found.starts[faults[0]]))
    header = columns.header
    misplaced = np.flatnonzero(header["commitlog_offset"] != found.starts + begin)
    if misplaced.size:
        raise RecordFormatError("the record belongs elsewhere", int(found.starts[misplaced[0]]))
    if (header["epoch"] != header["epoch"][0]).any():
        raise RecordFormatError("records of several epochs", 0)
    return columns
