"""Which records of a batch are valid: every rule of the format, for all records together.

The rules are those of ``record_decode.decode_record``. Here a rule only says yes or no. For the
first faulty record, the scalar codec finds which rule is broken and how. So the fast path pays for
no explanation, and the two codecs cannot differ in what they report.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from litemq.errors import InvalidArgumentError, RecordFormatError
from litemq.format import native
from litemq.format.batches.header import faulty_headers
from litemq.format.batches.scan import ScanStop, scan
from litemq.format.batches.uniform_check import are_properties, hash_of_tags, is_sound_but_for_crcs, padding_masks
from litemq.format.columns.keys import tag_hashes
from litemq.format.columns.record_columns import BODY_AT, TAGS_AT, RecordColumns, Word, sizes_between
from litemq.format.columns.string_lists import (
    ListColumn,
    Strings,
    all_alike,
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

_MANY_RECORDS = 1024
_FEW_TAGS = 16


def check_batch(buffer: Buffer, *, stage: Stage = Stage.SENT, limits: RecordLimits = DEFAULT_LIMITS) -> RecordColumns:
    """The records that fill a buffer exactly, as columns; raises ``RecordFormatError`` for the first that is not valid."""
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
    """How many records, from the first on, are what was stored there: at those log offsets, and in a queue from offset ``first`` on.

    They fill the buffer, each is as long as it says, and both checksums are right. What else they have to be, they were when they were
    stored.
    """
    if native.enabled:
        return native.loops.count_intact(columns.buffer, columns.starts, log_offsets, first, topic_id, queue_id)
    header = columns.header
    wrong = header["size"] != sizes_between(columns.starts, columns.data.size)
    wrong |= (header["magic"] != MAGIC) | (header["size"] < FIXED_BYTES)
    wrong |= (header["commitlog_offset"] != log_offsets) | (header["queue_offset"] != np.arange(first, first + len(columns)))
    wrong |= (header["topic_id"] != topic_id) | (header["queue_id"] != queue_id)
    good = int(wrong.argmax()) if wrong.any() else len(columns)
    # Only where the record agrees that it has that size may the rest of it be looked at.
    bad = np.flatnonzero(_wrong_crcs(columns.subset(np.arange(good)), Stage.STORED)) if good else wrong[:0]
    return int(bad[0]) if bad.size else good


def are_of_topic(columns: RecordColumns, topic: bytes) -> bool:
    """Whether all of some valid records were written for one topic."""
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
    """The error that says what is wrong with the record at ``position``."""
    try:
        decode_record(buffer, position, stage=stage, verify_crc=verify_crc, limits=limits)
    except RecordFormatError as error:
        return error
    return RecordFormatError(Problem.FIELD.value, position, "refused in a batch, accepted alone: please report this record")


def find_faults(
    columns: RecordColumns, *, stage: Stage = Stage.STORED, verify_crc: bool = True, limits: RecordLimits = DEFAULT_LIMITS
) -> Numbers:
    """The numbers of the records that are not valid, rising. None: the whole batch may be believed."""
    if not isinstance(stage, Stage):
        raise InvalidArgumentError(f"stage={stage!r}: choose Stage.SENT or Stage.STORED")
    if len(columns) == 0:
        return np.empty(0, np.int64)
    if native.enabled:
        verdict = native.loops.examine(columns.buffer, columns.starts, stage is Stage.STORED, limits.max_record_bytes, verify_crc)
        if verdict != native.loops.NO_VERDICT:
            columns.of_one_template = verdict == native.loops.ALIKE
            return np.empty(0, np.int64)
    if is_sound_but_for_crcs(columns, stage, limits):
        return np.flatnonzero(_wrong_crcs(columns, stage)) if verify_crc else np.empty(0, np.int64)
    check = _Check(columns, stage, verify_crc, limits)
    sound = check.lengths_add_up()
    if sound.all():
        return check.faults()
    # Nothing behind the header may be looked at where the lengths do not add up.
    kept = np.flatnonzero(sound)
    rest = find_faults(columns.subset(kept), stage=stage, verify_crc=verify_crc, limits=limits)
    return np.sort(np.concatenate((np.flatnonzero(~sound), kept[rest])))


def _wrong_crcs(columns: RecordColumns, stage: Stage) -> Marks:
    """Which records have a wrong checksum. Every record's size must have been found sound."""
    begins = columns.starts + PRODUCER_BYTES_AT
    ends = columns.starts + columns.sizes
    claimed = columns.words[:, Word.PRODUCER_CRC]
    crcs = crc32c_of_records(memoryview(columns.buffer), begins.tolist(), ends.tolist())
    marks = np.zeros(len(columns), np.bool_)
    if crcs != claimed.tolist():
        marks |= np.array(crcs, np.uint32) != claimed
    if stage is Stage.STORED:
        octets = columns.header.view(np.uint8).reshape(len(columns), FIXED_BYTES)
        marks |= crc32c_of_rows(octets[:, STAMPED_BYTES_AT:PRODUCER_BYTES_AT]) != columns.words[:, Word.BROKER_CRC]
    return marks


class _Check:
    """One batch under examination."""

    def __init__(self, columns: RecordColumns, stage: Stage, verify_crc: bool, limits: RecordLimits) -> None:
        self.columns = columns
        self.stage = stage
        self.verify_crc = verify_crc
        self.limits = limits
        self.size = columns.sizes
        self.padding = self.size - (columns.bounds[-1] - columns.starts)

    def lengths_add_up(self) -> Marks:
        """Whether every part lies inside its record, and the properties are few enough to be walked."""
        marks: Marks = self.padding.view(np.uint64) < 8  # a negative padding is a huge one
        marks &= self.columns.words[:, Word.PROPERTIES] <= MAX_PROPERTIES_BYTES
        return marks

    def faults(self) -> Numbers:
        marks = faulty_headers(self.columns, self.stage, self.limits)
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
        last_eight = np.ndarray((columns.data.size - 7,), ">u8", columns.buffer, 0, (1,))[columns.starts + (self.size - 8)]
        marks: Marks = (last_eight & padding_masks[self.padding]) != 0
        return marks

    def _mark_lists(self, marks: Marks, column: ListColumn, most_bytes: int) -> None:
        """Lists that do not add up, have too many strings, or one that is too long."""
        lists = column.lists
        if lists.broken.size:
            marks[lists.broken] = True
        lengths = lists.strings.lengths
        if lengths.size and int(lengths.max()) > most_bytes:
            marks[np.searchsorted(lists.offsets, np.flatnonzero(lengths > most_bytes), side="right") - 1] = True

    def _mark_tags(self, marks: Marks) -> None:
        tags = self.columns.tags
        claimed = self.columns.words[:, Word.TAG_HASH]
        if tags.is_empty:
            marks |= claimed != 0
        elif tags.is_shared:
            expected_for_all = hash_of_tags(tags.first)
            marks |= True if expected_for_all is None else claimed != expected_for_all
        elif not self._few_tags_are_sound(claimed):
            self._mark_lists(marks, tags, MAX_TAG_BYTES)
            marks |= claimed != tag_hashes(self.columns.data, tags.lists)

    def _few_tags_are_sound(self, claimed: npt.NDArray[np.uint32]) -> bool:
        """The quick yes where a few tags are repeated over and over: all records that claim one hash have the same tags."""
        if claimed.size < _MANY_RECORDS:
            return False
        values = np.unique(claimed)
        if values.size > _FEW_TAGS:
            return False
        columns = self.columns
        tags = columns.part("tags")
        for value in values.tolist():
            same = tags.chosen(np.flatnonzero(claimed == value))
            if not all_alike(columns.data, same):
                return False
            begin = int(same.positions[0])
            if hash_of_tags(columns.data[begin : begin + int(same.lengths[0])].tobytes()) != value:
                return False
        return True

    def _mark_properties(self, marks: Marks) -> None:
        """Properties that are no list, whose names and values do not pair up, or with one name twice."""
        properties = self.columns.properties
        if properties.is_empty:
            return
        if properties.is_shared:
            if not are_properties(properties.first):
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
            inside = column.lists.strings.chosen(spread(column.lists.offsets[which], column.lists.counts[which]))
            positions.append(inside.positions)
            lengths.append(inside.lengths)
        every = Strings(np.concatenate(positions), np.concatenate(lengths))
        if not all_utf8(columns.data, every):
            self._mark_one_by_one(marks, which)

    def _mark_one_by_one(self, marks: Marks, which: Numbers) -> None:
        """Ask the scalar codec: for the few records about which the columns have a doubt."""
        for number in which.tolist():
            try:
                position = int(self.columns.starts[number])
                decode_record(self.columns.buffer, position, stage=self.stage, verify_crc=False, limits=self.limits)
            except RecordFormatError:
                marks[number] = True
