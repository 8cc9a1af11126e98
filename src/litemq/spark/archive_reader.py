"""A topic's archive, read back without Spark: rows of a table as the stored records that they were made of, bit for bit.

The table's log says which files may hold an offset, the keys in such a file which offset ranges of a queue it has. An offset is in one file only;
files that were compacted while somebody reads are found in the table's log again.
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

from litemq.client.consuming.archive_reading import ArchivedRecords, Wanted
from litemq.client.engine.selection import Selection
from litemq.errors import ArchiveUnreadableError, MissingExtraError
from litemq.filters.filter import Filter, parse_filter
from litemq.format.arrow.encode import encode_stored
from litemq.format.record_view import views
from litemq.spark.schema import BROKER, MESSAGE_SCHEMA
from litemq.spark.tables.layout import TableFile
from litemq.spark.tables.opening import open_table
from litemq.spark.tables.reading import queue_row_groups
from litemq.spark.tables.table import Table

__all__ = ["OffsetRange", "TableArchive"]

_MAX_KNOWN_FILES: Final = 4096  # whose offset ranges are cached
_ROWS: Final = 4096  # decoded at once, or fewer where they are large
_ROW_BYTES: Final = 4 << 20
_MIN_ROWS: Final = 16
_BUFFER_BYTES: Final = 256 << 10  # of each column: a row group is not in memory as a whole
_TRIES: Final = 3  # a file may be compacted and deleted between the look into the table's log and the reading
_KEYS: Final = (BROKER, "queue_id", "queue_offset", "topic_id")
_TAG_HASH: Final = np.dtype([("tag_hash", np.uint32)])

Longs = npt.NDArray[np.int64]


class OffsetRange(NamedTuple):
    """Offsets of a queue that a file holds without a gap: ``begin … end - 1``."""

    begin: int
    end: int


class _Candidates:
    """The files that may hold something of what is wanted, by their first offset. Asked for offsets that never fall."""

    def __init__(self, files: list[TableFile], wanted: Wanted) -> None:
        found = [file for file in files if file.may_hold(wanted.broker, wanted.queue_id, wanted.begin, wanted.end)]
        self._later = sorted(found, key=_first_offset, reverse=True)
        self._begun: list[TableFile] = []

    def around(self, offset: int) -> Iterator[TableFile]:
        """First those that may hold an offset, then those that begin behind it, in their order."""
        while self._later and _first_offset(self._later[-1]) <= offset:
            self._begun.append(self._later.pop())
        self._begun = [file for file in self._begun if offset <= file.most.get("queue_offset", offset)]
        yield from self._begun
        yield from reversed(self._later)


def _first_offset(file: TableFile) -> int:
    return int(file.least.get("queue_offset", 0))


class TableArchive:
    """What an archive's table has of one topic."""

    def __init__(self, location: str, topic: str) -> None:
        self._location = location
        self._topic = topic
        self._lock = threading.Lock()
        self._table: Table | None = None
        self._files: list[TableFile] = []
        self._known_ranges: OrderedDict[tuple[str, str, int, int], list[OffsetRange]] = OrderedDict()

    def read(self, wanted: Wanted) -> Iterator[ArchivedRecords]:
        """Portions in the order of their offsets. What is missing between them the table does not have."""
        at, tries = wanted.begin, 0
        try:
            candidates = _Candidates(self._list(refresh=False), wanted)
            is_new = False  # the list, since something was last found
            while at < wanted.end:
                try:
                    found = self._find(candidates, wanted, at)
                    if found is not None and (found[1].begin <= at or is_new):
                        for portion in self._read_file(found[0], wanted, max(at, found[1].begin), min(found[1].end, wanted.end)):
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
                candidates, is_new = _Candidates(self._list(refresh=True), wanted), True
        except (ArchiveUnreadableError, MissingExtraError):
            raise
        except Exception as error:  # a table's libraries raise errors of many kinds
            raise self._unreadable(error) from error

    def _unreadable(self, error: Exception) -> ArchiveUnreadableError:
        return ArchiveUnreadableError(
            f"the archive of {self._topic!r} in {self._location} cannot be read: {type(error).__name__}: {error}. Reading begins there again "
            "when it can; where the table was moved, `litemq topic archive TOPIC --moved-to LOCATION` says so"
        )

    # Where an offset is -------------------------------------------------------------------------------------------------------

    def _list(self, *, refresh: bool) -> list[TableFile]:
        with self._lock:
            if self._table is None:
                self._table, refresh = open_table(self._location), True
            elif refresh:
                self._table.refresh()
            if refresh:
                self._files = self._table.files({"topic": self._topic})
            return self._files

    def _find(self, candidates: _Candidates, wanted: Wanted, at: int) -> tuple[TableFile, OffsetRange] | None:
        """Find the file that holds offset ``at``, or else the next higher offset, with the range that it is in."""
        nearest: tuple[TableFile, OffsetRange] | None = None
        for file in candidates.around(at):
            if nearest is not None and nearest[1].begin <= _first_offset(file):
                break  # this one and those behind it begin later
            for offset_range in self._offset_ranges(file, wanted):
                if offset_range.begin <= at < offset_range.end:
                    return file, offset_range
                if at < offset_range.begin < wanted.end and (nearest is None or offset_range.begin < nearest[1].begin):
                    nearest = file, offset_range
        return nearest

    def _offset_ranges(self, file: TableFile, wanted: Wanted) -> list[OffsetRange]:
        key = (file.path, wanted.broker, wanted.queue_id, wanted.topic_id)
        with self._lock:
            known = self._known_ranges.get(key)
        if known is None:
            known = self._read_offset_ranges(file, wanted)
            with self._lock:
                self._known_ranges[key] = known
                if len(self._known_ranges) > _MAX_KNOWN_FILES:
                    self._known_ranges.popitem(last=False)
        return known

    def _read_offset_ranges(self, file: TableFile, wanted: Wanted) -> list[OffsetRange]:
        with self._folder.open_input(file.path) as source, pq.ParquetFile(source, buffer_size=_BUFFER_BYTES) as parquet:
            groups = queue_row_groups(parquet, wanted.broker, wanted.queue_id, 0, 1 << 62)
            offsets = [
                batch["queue_offset"].to_numpy()[_queue_rows(batch, wanted)]
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
            raise AssertionError("nothing is read before the table is open")
        return self._table.folder

    # Its records --------------------------------------------------------------------------------------------------------------

    def _read_file(self, file: TableFile, wanted: Wanted, begin: int, end: int) -> Iterator[ArchivedRecords]:
        """Read the rows ``begin … end - 1`` of a queue, all of which are in ``file``."""
        columns = [name for name in MESSAGE_SCHEMA.names if name != "topic"]
        position = begin
        with self._folder.open_input(file.path) as source, pq.ParquetFile(source, buffer_size=_BUFFER_BYTES) as parquet:
            groups = queue_row_groups(parquet, wanted.broker, wanted.queue_id, begin, end)
            for batch in parquet.iter_batches(_rows_at_once(parquet, groups), row_groups=groups, columns=columns, use_threads=False):
                offsets = batch["queue_offset"].to_numpy()
                numbers = np.flatnonzero(_queue_rows(batch, wanted) & (offsets >= begin) & (offsets < end))
                if not numbers.size:
                    continue
                if int(offsets[numbers[0]]) != position or (np.diff(offsets[numbers]) != 1).any():
                    raise ArchiveUnreadableError(
                        f"{file.path} in {self._location} is not sorted by queue and offset, as archives are: compact it"
                    )
                rows = (
                    batch.take(pa.array(numbers))
                    if numbers[-1] - numbers[0] >= numbers.size
                    else batch.slice(int(numbers[0]), numbers.size)
                )
                for portion in _portions(rows, wanted.max_bytes):
                    taken = _records(portion, file.partition["topic"], wanted)
                    yield taken
                    position = taken.next
        if position < end:
            raise FileNotFoundError(f"{file.path} ends at offset {position}, and had {end - 1}")


def _rows_at_once(parquet: pq.ParquetFile, groups: list[int]) -> int:
    """How many rows of some row groups are some MiB together, as they are on the average."""
    row_groups = [parquet.metadata.row_group(number) for number in groups]
    size, rows = sum(group.total_byte_size for group in row_groups), sum(group.num_rows for group in row_groups)
    return max(_MIN_ROWS, min(_ROWS, int(_ROW_BYTES * rows // max(1, size))))


def _queue_rows(batch: pa.RecordBatch, wanted: Wanted) -> npt.NDArray[np.bool_]:
    marks: npt.NDArray[np.bool_] = batch["queue_id"].to_numpy() == wanted.queue_id
    marks &= batch["topic_id"].to_numpy() == wanted.topic_id
    marks &= pc.equal(batch[BROKER], wanted.broker).to_numpy(zero_copy_only=False)
    return marks


def _portions(rows: pa.RecordBatch, max_bytes: int) -> Iterator[pa.RecordBatch]:
    """Rows whose records are not much larger than a bound together: at least one at a time."""
    ends = np.cumsum(rows["size"].to_numpy().astype(np.int64))
    begin = 0
    while begin < rows.num_rows:
        before = int(ends[begin - 1]) if begin else 0
        end = max(begin + 1, int(np.searchsorted(ends, before + max_bytes, side="right")))
        yield rows.slice(begin, end - begin)
        begin = end


def _records(rows: pa.RecordBatch, topic: str, wanted: Wanted) -> ArchivedRecords:
    """Encode the rows that pass ``wanted`` as the records they were made of."""
    offsets = rows["queue_offset"].to_numpy()
    begin, next_offset = int(offsets[0]), int(offsets[-1]) + 1
    kept = ~_expired(rows, wanted)
    expired = rows.num_rows - int(kept.sum())
    chosen = _parse_selection(wanted.selection)
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
        records = b"".join(view.raw for view in views(records) if chosen.accepts(view))
    return ArchivedRecords(begin, next_offset, records, expired)


def _expired(rows: pa.RecordBatch, wanted: Wanted) -> npt.NDArray[np.bool_]:
    """By the rule by which brokers judge."""
    none = np.zeros(rows.num_rows, np.bool_)
    if not wanted.alive_at or (not wanted.ttl_ms and rows["expire_at"].null_count == rows.num_rows):
        return none
    expire_at, stored = (_milliseconds(rows[name]) for name in ("expire_at", "store_timestamp"))
    if wanted.ttl_ms:
        expire_at = np.where(expire_at == 0, stored + wanted.ttl_ms, expire_at)
    expired: npt.NDArray[np.bool_] = (expire_at != 0) & (expire_at <= wanted.alive_at)
    return expired


def _milliseconds(column: pa.Array) -> Longs:
    numbers: Longs = column.cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False)
    return numbers // 1000


def _parse_selection(selection: Selection) -> Filter | None:
    return parse_filter(selection.text, is_sql=selection.is_sql)
