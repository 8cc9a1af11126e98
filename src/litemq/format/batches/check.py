"""Validation of batches: every rule of the format, for all records at once.

The rules are those of ``record_decode.decode_record``. Here a rule only accepts or rejects. For the
first invalid record, the scalar codec reports which rule is broken and how. So the fast path pays
for no explanation, and the two codecs cannot report different errors.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from litemq.errors import InvalidArgumentError, RecordFormatError
from litemq.format import native
from litemq.format.batches.header import mark_invalid_headers
from litemq.format.batches.scan import ScanStop, scan
from litemq.format.batches.uniform_check import (
    are_valid_properties,
    encoded_tags_hash,
    is_uniform_and_valid,
    padding_masks,
)
from litemq.format.columns.keys import tag_hashes
from litemq.format.columns.record_columns import BODY_AT, TAGS_AT, HeaderWord, RecordColumns, sizes_between
from litemq.format.columns.string_lists import (
    ListColumn,
    Strings,
    all_equal,
    all_utf8,
    maybe_repeated_names,
    nonascii,
    rows_at,
    spread,
)
from litemq.format.crc import crc32c_of_records, crc32c_of_rows
from litemq.format.limits import (
    DEFAULT_LIMITS,
    MAX_KEY_BYTES,
    MAX_PROPERTIES_BYTES,
    MAX_TAG_BYTES,
    RecordLimits,
)
from litemq.format.record import FIXED_BYTES, MAGIC, PRODUCER_BYTES_AT, STAMPED_BYTES_AT, Buffer, Problem, Stage
from litemq.format.record_decode import decode_record

__all__ = ["are_of_topic", "check_batch", "count_intact", "explain", "find_faults", "tag_hashes"]

Numbers = npt.NDArray[np.int64]
Marks = npt.NDArray[np.bool_]

# ``_are_few_tags_valid`` pays off for large batches with few distinct tags.
_MANY_RECORDS = 1024
_FEW_TAGS = 16


def check_batch(buffer: Buffer, *, stage: Stage = Stage.SENT, limits: RecordLimits = DEFAULT_LIMITS) -> RecordColumns:
    """Return the columns of the records that fill ``buffer``. Raise for the first invalid one."""
    found = scan(buffer, limits=limits)
    columns = RecordColumns(buffer, found.starts)
    faults = find_faults(columns, stage=stage, limits=limits)
    if faults.size:
        raise explain(buffer, int(found.starts[faults[0]]), stage=stage, limits=limits)
    if found.stop is not ScanStop.END:
        raise explain(buffer, found.end, stage=stage, limits=limits)
    columns.sizes = sizes_between(found.starts, found.end)
    return columns


def count_intact(columns: RecordColumns, log_offsets: Numbers, first: int, topic_id: int, queue_id: int) -> int:
    """Return the number of leading records that are intact.

    A record is intact if its size and both checksums are right, and if it was stored at its log
    offset and queue offset (from ``first`` on) of this queue. The other rules were checked before
    the records were stored.
    """
    if native.enabled:
        return native.loops.count_intact(columns.buffer, columns.starts, log_offsets, first, topic_id, queue_id)
    header = columns.header
    wrong = header["size"] != sizes_between(columns.starts, columns.data.size)
    wrong |= (header["magic"] != MAGIC) | (header["size"] < FIXED_BYTES)
    wrong |= header["commitlog_offset"] != log_offsets
    wrong |= header["queue_offset"] != np.arange(first, first + len(columns))
    wrong |= (header["topic_id"] != topic_id) | (header["queue_id"] != queue_id)
    good = int(wrong.argmax()) if wrong.any() else len(columns)
    # The rest of a record may only be read if its size is right.
    bad = np.flatnonzero(_wrong_crcs(columns.subset(np.arange(good)), Stage.STORED)) if good else wrong[:0]
    return int(bad[0]) if bad.size else good


def are_of_topic(columns: RecordColumns, topic: bytes) -> bool:
    """Return whether all records, which must be valid, are of ``topic``."""
    if native.enabled:
        return native.loops.are_of_topic(columns.buffer, columns.starts, topic)
    topics = columns.part("topic")
    if (topics.lengths != len(topic)).any():
        return False
    return rows_at(columns.data, topics.positions, len(topic)).tobytes() == topic * len(columns)


def explain(
    buffer: Buffer,
    position: int,
    *,
    stage: Stage = Stage.STORED,
    verify_crc: bool = True,
    limits: RecordLimits = DEFAULT_LIMITS,
) -> RecordFormatError:
    """Return the error of the invalid record at ``position``."""
    try:
        decode_record(buffer, position, stage=stage, verify_crc=verify_crc, limits=limits)
    except RecordFormatError as error:
        return error
    return RecordFormatError(
        Problem.FIELD.value, position, "rejected in a batch, but accepted alone: please report this record as a bug"
    )


def find_faults(
    columns: RecordColumns,
    *,
    stage: Stage = Stage.STORED,
    verify_crc: bool = True,
    limits: RecordLimits = DEFAULT_LIMITS,
) -> Numbers:
    """Return the indexes of the invalid records, ascending."""
    if not isinstance(stage, Stage):
        raise InvalidArgumentError(f"stage={stage!r}: choose Stage.SENT or Stage.STORED")
    if len(columns) == 0:
        return np.empty(0, np.int64)
    if native.enabled:
        verdict = native.loops.examine(
            columns.buffer, columns.starts, stage is Stage.STORED, limits.max_record_bytes, verify_crc
        )
        if verdict != native.loops.NO_VERDICT:
            columns.is_uniform = verdict == native.loops.ALIKE
            return np.empty(0, np.int64)
    if is_uniform_and_valid(columns, stage, limits):
        return np.flatnonzero(_wrong_crcs(columns, stage)) if verify_crc else np.empty(0, np.int64)
    check = _Check(columns, stage, verify_crc, limits)
    sound = check.lengths_add_up()
    if sound.all():
        return check.faults()
    # If the lengths do not add up, nothing after the header may be read.
    kept = np.flatnonzero(sound)
    rest = find_faults(columns.subset(kept), stage=stage, verify_crc=verify_crc, limits=limits)
    return np.sort(np.concatenate((np.flatnonzero(~sound), kept[rest])))


def _wrong_crcs(columns: RecordColumns, stage: Stage) -> Marks:
    """Mark the records with a wrong checksum. The sizes of all records must be valid."""
    begins = columns.starts + PRODUCER_BYTES_AT
    ends = columns.starts + columns.sizes
    claimed = columns.words[:, HeaderWord.PRODUCER_CRC]
    crcs = crc32c_of_records(memoryview(columns.buffer), begins.tolist(), ends.tolist())
    marks = np.zeros(len(columns), np.bool_)
    if crcs != claimed.tolist():
        marks |= np.array(crcs, np.uint32) != claimed
    if stage is Stage.STORED:
        octets = columns.header.view(np.uint8).reshape(len(columns), FIXED_BYTES)
        marks |= (
            crc32c_of_rows(octets[:, STAMPED_BYTES_AT:PRODUCER_BYTES_AT]) != columns.words[:, HeaderWord.BROKER_CRC]
        )
    return marks


class _Check:
    """The check of one batch, rule by rule."""

    def __init__(self, columns: RecordColumns, stage: Stage, verify_crc: bool, limits: RecordLimits) -> None:
        self.columns = columns
        self.stage = stage
        self.verify_crc = verify_crc
        self.limits = limits
        self.size = columns.sizes
        self.padding = self.size - (columns.bounds[-1] - columns.starts)

    def lengths_add_up(self) -> Marks:
        """Mark the records whose parts fit the record and whose properties are not too long."""
        marks: Marks = self.padding.view(np.uint64) < 8  # a negative padding becomes a huge one
        marks &= self.columns.words[:, HeaderWord.PROPERTIES] <= MAX_PROPERTIES_BYTES
        return marks

    def faults(self) -> Numbers:
        marks = mark_invalid_headers(self.columns, self.stage, self.limits)
        marks |= self._padding()
        if self.verify_crc:
            marks |= _wrong_crcs(self.columns, self.stage)
        self._mark_tags(marks)
        if not self.columns.keys.is_empty:
            self._mark_lists(marks, self.columns.keys, MAX_KEY_BYTES)
        self._mark_properties(marks)
        self._mark_not_utf8(marks)
        return np.flatnonzero(marks)

    def _padding(self) -> Marks:
        columns = self.columns
        every_eight = np.ndarray((columns.data.size - 7,), ">u8", columns.buffer, 0, (1,))
        last_eight = every_eight[columns.starts + (self.size - 8)]
        marks: Marks = (last_eight & padding_masks[self.padding]) != 0
        return marks

    def _mark_lists(self, marks: Marks, column: ListColumn, max_bytes: int) -> None:
        """Mark lists that do not add up, are too long, or have a string above ``max_bytes``."""
        lists = column.lists
        if lists.broken.size:
            marks[lists.broken] = True
        lengths = lists.strings.lengths
        if lengths.size and int(lengths.max()) > max_bytes:
            marks[np.searchsorted(lists.offsets, np.flatnonzero(lengths > max_bytes), side="right") - 1] = True

    def _mark_tags(self, marks: Marks) -> None:
        tags = self.columns.tags
        claimed = self.columns.words[:, HeaderWord.TAG_HASH]
        if tags.is_empty:
            marks |= claimed != 0
        elif tags.is_shared:
            expected_for_all = encoded_tags_hash(tags.first)
            marks |= True if expected_for_all is None else claimed != expected_for_all
        elif not self._are_few_tags_valid(claimed):
            self._mark_lists(marks, tags, MAX_TAG_BYTES)
            marks |= claimed != tag_hashes(self.columns.data, tags.lists)

    def _are_few_tags_valid(self, claimed: npt.NDArray[np.uint32]) -> bool:
        """Quick check for few distinct tags: records that claim the same hash have equal tags.

        ``False`` means unknown.
        """
        if claimed.size < _MANY_RECORDS:
            return False
        values = np.unique(claimed)
        if values.size > _FEW_TAGS:
            return False
        columns = self.columns
        tags = columns.part("tags")
        for value in values.tolist():
            same = tags.select(np.flatnonzero(claimed == value))
            if not all_equal(columns.data, same):
                return False
            begin = int(same.positions[0])
            if encoded_tags_hash(columns.data[begin : begin + int(same.lengths[0])].tobytes()) != value:
                return False
        return True

    def _mark_properties(self, marks: Marks) -> None:
        """Mark properties that are no list of pairs, or that repeat a name."""
        properties = self.columns.properties
        if properties.is_empty:
            return
        if properties.is_shared:
            if not are_valid_properties(properties.first):
                marks[:] = True
            return
        self._mark_lists(marks, properties, MAX_PROPERTIES_BYTES)
        lists = properties.lists
        counts = lists.counts
        marks |= (counts & 1) != 0
        several = np.flatnonzero((counts > 2) & ~marks)
        self._mark_one_by_one(marks, maybe_repeated_names(self.columns.data, lists, several))

    def _mark_not_utf8(self, marks: Marks) -> None:
        columns = self.columns
        beyond_ascii = nonascii(columns.data, columns.bounds[0], columns.bounds[BODY_AT])
        if not beyond_ascii.any():
            return
        which = np.flatnonzero(beyond_ascii & ~marks)
        if which.size == 0:
            return
        begins = columns.bounds[:TAGS_AT, which]
        positions = [begins.ravel()]
        lengths = [(columns.bounds[1 : TAGS_AT + 1, which] - begins).ravel()]
        for column in (columns.tags, columns.keys, columns.properties):
            inside = column.lists.strings.select(spread(column.lists.offsets[which], column.lists.counts[which]))
            positions.append(inside.positions)
            lengths.append(inside.lengths)
        every = Strings(np.concatenate(positions), np.concatenate(lengths))
        if not all_utf8(columns.data, every):
            self._mark_one_by_one(marks, which)

    def _mark_one_by_one(self, marks: Marks, which: Numbers) -> None:
        """Mark those of ``which`` that the scalar codec rejects."""
        for number in which.tolist():
            try:
                position = int(self.columns.starts[number])
                decode_record(self.columns.buffer, position, stage=self.stage, verify_crc=False, limits=self.limits)
            except RecordFormatError:
                marks[number] = True
