"""Archive reader: re-encodes the rows of a topic's archive as the original records, without Spark.

The table's log tells which files may hold an offset; the keys in a file tell which offset ranges of
a queue it holds. An offset is in exactly one file. If a file is compacted during a read, the reader
looks its replacement up in the table's log.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterator
from itertools import pairwise
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from litemq.client.consuming.archive_reading import ArchivedRecords, ArchiveRequest
from litemq.client.engine.selection import Selection
from litemq.errors import ArchiveUnreadableError, MissingExtraError
from litemq.filters.filter import Filter, parse_filter
from litemq.format.arrow.encode import encode_stored
from litemq.format.record_view import record_views
from litemq.spark.schema import BROKER, MESSAGE_SCHEMA
from litemq.spark.tables.layout import TableFile
from litemq.spark.tables.opening import open_table
from litemq.spark.tables.reading import queue_row_groups
from litemq.spark.tables.table import Table

__all__ = ["OffsetRange", "TableArchive"]

_MAX_KNOWN_FILES: Final = 4096  # with cached offset ranges
_ROWS: Final = 4096  # decoded at once; fewer if they are large
_ROW_BYTES: Final = 4 << 20
_MIN_ROWS: Final = 16
_BUFFER_BYTES: Final = 256 << 10  # per column, so that a row group is never in memory as a whole
_TRIES: Final = 3  # a file may be compacted and deleted after the table's log was read
_KEYS: Final = (BROKER, "queue_id", "queue_offset", "topic_id")
_TAG_HASH: Final = np.dtype([("tag_hash", np.uint32)])

Longs = npt.NDArray[np.int64]


class OffsetRange(NamedTuple):
    """Consecutive offsets ``begin … end - 1`` of a queue in a file."""

    begin: int
    end: int


class _Candidates:
    """The files that may hold requested rows, by first offset.

    Callers query non-decreasing offsets.
    """

    def __init__(self, files: list[TableFile], request: ArchiveRequest) -> None:
        found = [file for file in files if file.may_hold(request.broker, request.queue_id, request.begin, request.end)]
        self._later = sorted(found, key=_first_offset, reverse=True)
        self._begun: list[TableFile] = []

    def around(self, offset: int) -> Iterator[TableFile]:
        """Yield the files that may hold ``offset``, then the files above it, in order."""
        while self._later and _first_offset(self._later[-1]) <= offset:
            self._begun.append(self._later.pop())
        self._begun = [file for file in self._begun if offset <= file.most.get("queue_offset", offset)]
        yield from self._begun
        yield from reversed(self._later)


def _first_offset(file: TableFile) -> int:
    return int(file.least.get("queue_offset", 0))


class TableArchive:
    """The archive of one topic in a table. Thread-safe."""

    def __init__(self, location: str, topic: str) -> None:
        self._location = location
        self._topic = topic
        self._lock = threading.Lock()
        self._table: Table | None = None
        self._files: list[TableFile] = []
        self._known_ranges: OrderedDict[tuple[str, str, int, int], list[OffsetRange]] = OrderedDict()

    def read(self, request: ArchiveRequest) -> Iterator[ArchivedRecords]:
        """Yield the requested records in the order of their offsets.

        Offsets that the table lacks are skipped.
        """
        at, tries = request.begin, 0
        try:
            candidates = _Candidates(self._list(refresh=False), request)
            is_new = False  # whether the list was refreshed since rows were last found
            while at < request.end:
                try:
                    found = self._find(candidates, request, at)
                    if found is not None and (found[1].begin <= at or is_new):
                        for portion in self._read_file(
                            found[0], request, max(at, found[1].begin), min(found[1].end, request.end)
                        ):
                            yield portion
                            at, tries, is_new = portion.next, 0, False
                        continue
                except FileNotFoundError:
                    tries += 1
                    if tries == _TRIES:
                        raise
                    is_new = False
                if is_new:
                    return
                candidates, is_new = _Candidates(self._list(refresh=True), request), True
        except (ArchiveUnreadableError, MissingExtraError):
            raise
        except Exception as error:  # a table's libraries raise errors of many kinds
            raise self._unreadable(error) from error

    def _unreadable(self, error: Exception) -> ArchiveUnreadableError:
        return ArchiveUnreadableError(
            f"cannot read the archive of {self._topic!r} in {self._location}: {type(error).__name__}: {error}. "
            "Reads resume when it is readable again; if the table has moved, run "
            "`litemq topic archive TOPIC --moved-to LOCATION`"
        )

    # Offsets --------------------------------------------------------------------------------------

    def _list(self, *, refresh: bool) -> list[TableFile]:
        with self._lock:
            if self._table is None:
                self._table, refresh = open_table(self._location), True
            elif refresh:
                self._table.refresh()
            if refresh:
                self._files = self._table.files({"topic": self._topic})
            return self._files

    def _find(self, candidates: _Candidates, request: ArchiveRequest, at: int) -> tuple[TableFile, OffsetRange] | None:
        """Find the file and range that hold ``at``, or else the next higher offset."""
        nearest: tuple[TableFile, OffsetRange] | None = None
        for file in candidates.around(at):
            if nearest is not None and nearest[1].begin <= _first_offset(file):
                break  # this file and all later ones start above it
            for offset_range in self._offset_ranges(file, request):
                if offset_range.begin <= at < offset_range.end:
                    return file, offset_range
                if at < offset_range.begin < request.end and (nearest is None or offset_range.begin < nearest[1].begin):
                    nearest = file, offset_range
        return nearest

    def _offset_ranges(self, file: TableFile, request: ArchiveRequest) -> list[OffsetRange]:
        key = (file.path, request.broker, request.queue_id, request.topic_id)
        with self._lock:
            known = self._known_ranges.get(key)
        if known is None:
            known = self._read_offset_ranges(file, request)
            with self._lock:
                self._known_ranges[key] = known
                if len(self._known_ranges) > _MAX_KNOWN_FILES:
                    self._known_ranges.popitem(last=False)
        return known

    def _read_offset_ranges(self, file: TableFile, request: ArchiveRequest) -> list[OffsetRange]:
        with self._folder.open_input(file.path) as source, pq.ParquetFile(source, buffer_size=_BUFFER_BYTES) as parquet:
            groups = queue_row_groups(parquet, request.broker, request.queue_id, 0, 1 << 62)
            offsets = [
                batch["queue_offset"].to_numpy()[_queue_rows(batch, request)]
                for batch in parquet.iter_batches(_ROWS * 16, row_groups=groups, columns=list(_KEYS), use_threads=False)
            ]
        found: Longs = np.sort(np.concatenate(offsets)) if offsets else np.empty(0, np.int64)
        if not found.size:
            return []
        edges = [0, *(np.flatnonzero(np.diff(found) != 1) + 1).tolist(), found.size]
        return [OffsetRange(int(found[begin]), int(found[end - 1]) + 1) for begin, end in pairwise(edges)]

    @property
    def _folder(self) -> Any:
        if self._table is None:
            raise AssertionError("the table is not open")
        return self._table.folder

    # Records --------------------------------------------------------------------------------------

    def _read_file(self, file: TableFile, request: ArchiveRequest, begin: int, end: int) -> Iterator[ArchivedRecords]:
        """Read the rows ``begin … end - 1`` of a queue, all of which are in ``file``."""
        columns = [name for name in MESSAGE_SCHEMA.names if name != "topic"]
        position = begin
        with self._folder.open_input(file.path) as source, pq.ParquetFile(source, buffer_size=_BUFFER_BYTES) as parquet:
            groups = queue_row_groups(parquet, request.broker, request.queue_id, begin, end)
            for batch in parquet.iter_batches(
                _rows_at_once(parquet, groups), row_groups=groups, columns=columns, use_threads=False
            ):
                offsets = batch["queue_offset"].to_numpy()
                numbers = np.flatnonzero(_queue_rows(batch, request) & (offsets >= begin) & (offsets < end))
                if not numbers.size:
                    continue
                if int(offsets[numbers[0]]) != position or (np.diff(offsets[numbers]) != 1).any():
                    raise ArchiveUnreadableError(
                        f"{file.path} in {self._location} is not sorted by queue and offset: "
                        "run `litemq pipeline run compact`"
                    )
                rows = (
                    batch.take(pa.array(numbers))
                    if numbers[-1] - numbers[0] >= numbers.size
                    else batch.slice(int(numbers[0]), numbers.size)
                )
                for portion in _portions(rows, request.max_bytes):
                    taken = _records(portion, file.partition["topic"], request)
                    yield taken
                    position = taken.next
        if position < end:
            raise FileNotFoundError(f"{file.path} ends at offset {position}, expected {end - 1}")


def _rows_at_once(parquet: pq.ParquetFile, groups: list[int]) -> int:
    """Return the number of rows in about ``_ROW_BYTES``, by the mean row size of ``groups``."""
    row_groups = [parquet.metadata.row_group(number) for number in groups]
    size, rows = sum(group.total_byte_size for group in row_groups), sum(group.num_rows for group in row_groups)
    return max(_MIN_ROWS, min(_ROWS, int(_ROW_BYTES * rows // max(1, size))))


def _queue_rows(batch: pa.RecordBatch, request: ArchiveRequest) -> npt.NDArray[np.bool_]:
    marks: npt.NDArray[np.bool_] = batch["queue_id"].to_numpy() == request.queue_id
    marks &= batch["topic_id"].to_numpy() == request.topic_id
    marks &= pc.equal(batch[BROKER], request.broker).to_numpy(zero_copy_only=False)
    return marks


def _portions(rows: pa.RecordBatch, max_bytes: int) -> Iterator[pa.RecordBatch]:
    """Split ``rows`` into portions of about ``max_bytes``, with at least one row each."""
    ends = np.cumsum(rows["size"].to_numpy().astype(np.int64))
    begin = 0
    while begin < rows.num_rows:
        before = int(ends[begin - 1]) if begin else 0
        end = max(begin + 1, int(np.searchsorted(ends, before + max_bytes, side="right")))
        yield rows.slice(begin, end - begin)
        begin = end


def _records(rows: pa.RecordBatch, topic: str, request: ArchiveRequest) -> ArchivedRecords:
    """Encode the rows that pass ``request`` as the records they were made of."""
    offsets = rows["queue_offset"].to_numpy()
    begin, next_offset = int(offsets[0]), int(offsets[-1]) + 1
    kept = ~_expired(rows, request)
    expired = rows.num_rows - int(kept.sum())
    chosen = _parse_selection(request.selection)
    if chosen is not None:
        entries = np.zeros(rows.num_rows, _TAG_HASH)
        entries["tag_hash"] = rows["tag_hash"].to_numpy()
        kept &= chosen.candidates(entries)
    if not kept.all():
        rows = rows.filter(pa.array(kept))
    if not rows.num_rows:
        return ArchivedRecords(begin, next_offset, b"", expired)
    topics = pa.array(np.full(rows.num_rows, topic, object), pa.string())
    whole = pa.RecordBatch.from_arrays(
        [topics if name == "topic" else rows[name] for name in MESSAGE_SCHEMA.names],
        names=MESSAGE_SCHEMA.names,
    )
    records = bytes(encode_stored(whole).data)
    if chosen is not None:
        records = b"".join(view.raw for view in record_views(records) if chosen.accepts(view))
    return ArchivedRecords(begin, next_offset, records, expired)


def _expired(rows: pa.RecordBatch, request: ArchiveRequest) -> npt.NDArray[np.bool_]:
    """Mark the rows that have expired, by the rule of the brokers."""
    none = np.zeros(rows.num_rows, np.bool_)
    if not request.alive_at or (not request.ttl_ms and rows["expire_at"].null_count == rows.num_rows):
        return none
    expire_at, stored = (_milliseconds(rows[name]) for name in ("expire_at", "store_timestamp"))
    if request.ttl_ms:
        expire_at = np.where(expire_at == 0, stored + request.ttl_ms, expire_at)
    expired: npt.NDArray[np.bool_] = (expire_at != 0) & (expire_at <= request.alive_at)
    return expired


def _milliseconds(column: pa.Array) -> Longs:
    numbers: Longs = column.cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False)
    return numbers // 1000


def _parse_selection(selection: Selection) -> Filter | None:
    return parse_filter(selection.text, is_sql=selection.is_sql)
