"""Arrow's columns to records, thousands at once: the way back of ``arrow.py``, and how a job writes.

Arrow joins the parts of all records in one call, row by row: the header, which numpy filled from the lengths of the parts, then the parts,
then the padding. What it returns is one buffer with the records one behind another; only the checksums are still to be written into it.
``encode_stored`` makes of rows the records that they were, bit for bit; ``encode_sent`` makes of columns what a producer sends, the same
bytes that ``record.RecordTemplate`` makes one by one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from litemq.errors import InvalidArgumentError, MissingExtraError
from litemq.format.arrow import SCHEMA
from litemq.format.check import explain, find_faults
from litemq.format.columns import HEADER, PARTS, TAGS_AT, RecordColumns
from litemq.format.crc import crc32c_of_rows, crc32c_of_strings
from litemq.format.limits import DEFAULT_LIMITS, STORED_LIMITS, RecordLimits
from litemq.format.record import FIXED_BYTES, MAGIC, PRODUCER_BYTES_AT, SEVERAL_TAGS, STAMPED_BYTES_AT, Stage
from litemq.types import DEFAULT_PRIORITY, LATEST_TIME_MS, Durability, MessageType

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.compute as pc
else:
    try:
        import pyarrow as pa
        import pyarrow.compute as pc
    except ModuleNotFoundError:
        raise MissingExtraError("making records of Arrow's columns", "arrow") from None

__all__ = ["EncodedRecords", "SentColumns", "encode_sent", "encode_stored"]

Longs = npt.NDArray[np.int64]

_MOST_BYTES: Final = (1 << 31) - 1  # of all records together: Arrow's offsets have 32 bits
_LARGEST_STRING: Final = 0xFFFF
_PRODUCER_CRC_AT: Final = 8
_PAIRS: Final = pa.list_(pa.struct([pa.field("key", pa.string(), nullable=False), pa.field("value", pa.string())]))
_NOTHING: Final = pa.scalar(b"", pa.binary())
_PADDINGS: Final = pa.array([bytes(length) for length in range(8)], pa.binary())
_STRINGS: Final = PARTS[:TAGS_AT]

# The numbers of a row that stand in its header as they are. What is narrower there must fit.
_FITTING: Final = {
    "queue_id": 0xFFFFFFFF,
    "topic_id": 0xFFFFFFFF,
    "epoch": 0xFFFFFFFF,
    "tag_hash": 0xFFFFFFFF,
    "flags": 0xFFFFFFFF,
    "consume_count": 0xFFFF,
    "kind": 0xFF,
    "type": 0xFF,
    "priority": 0xFF,
    "reliability": 0xFF,
}
_AS_THEY_ARE: Final = ("commitlog_offset", "queue_offset", "origin", "producer_id", "sequence")
_TIMES: Final = ("born_timestamp", "store_timestamp", "delay_time", "expire_at")
_MAY_BE_NULL: Final = frozenset({"delay_time", "expire_at"})


class EncodedRecords(NamedTuple):
    """Records one behind another: record i is ``data[bounds[i] : bounds[i + 1]]``."""

    data: memoryview
    bounds: Longs


class SentColumns(NamedTuple):
    """What differs between messages that are sent together to one topic; ``None``: none of them has any. A null is an absent value.

    ``message_ids`` and ``sharding_keys`` are strings, ``tags`` and ``keys`` lists of them, ``properties`` maps; times are in milliseconds.
    """

    bodies: pa.Array
    message_ids: pa.Array | None = None
    keys: pa.Array | None = None
    tags: pa.Array | None = None
    properties: pa.Array | None = None
    sharding_keys: pa.Array | None = None
    delay_times: Longs | None = None
    priorities: Longs | None = None


# What a producer sends --------------------------------------------------------------------------------------------------------


def encode_sent(
    columns: SentColumns,
    topic: str,
    *,
    transaction_id: str = "",
    born_host: str = "",
    born_timestamp: int = 0,
    reliability: Durability = Durability.DISK,
    limits: RecordLimits = DEFAULT_LIMITS,
) -> EncodedRecords:
    """Records as a producer sends them: the broker's fields are zero. Raises ``InvalidArgumentError`` for the first that breaks a rule."""
    count = len(columns.bodies)
    parts = {
        "message_id": _texts(columns.message_ids, "message_id"),
        "topic": _shared(topic, "topic"),
        "transaction_id": _shared(transaction_id, "transaction_id"),
        "sharding_key": _texts(columns.sharding_keys, "sharding_key"),
        "born_host": _shared(born_host, "born_host"),
        "tags": _lists(columns.tags, "tag"),
        "keys": _lists(columns.keys, "key"),
        "properties": _maps(columns.properties),
        "body": _without_nulls(columns.bodies, "body").cast(pa.binary()),
    }
    header = np.zeros(count, HEADER)
    header["born_timestamp"] = born_timestamp
    header["reliability"] = reliability
    header["priority"] = DEFAULT_PRIORITY if columns.priorities is None else _fitting(columns.priorities, "priority", 0xFF)
    if columns.delay_times is not None:
        header["delay_time"] = _fitting(columns.delay_times, "delay_time", LATEST_TIME_MS)
        header["type"] = np.where(columns.delay_times != 0, MessageType.DELAY, MessageType.NORMAL)
    if columns.tags is not None:
        header["tag_hash"] = _tag_hashes(columns.tags, parts["tags"])
    encoded = _join(header, parts, Stage.SENT)
    records = RecordColumns(encoded.data, encoded.bounds[:-1])
    faults = find_faults(records, stage=Stage.SENT, verify_crc=False, limits=limits)
    if faults.size:
        number = int(faults[0])
        problem = explain(encoded.data, int(encoded.bounds[number]), stage=Stage.SENT, verify_crc=False, limits=limits)
        raise InvalidArgumentError(f"row {number} makes no record: {problem}")
    return encoded


def _tag_hashes(tags: pa.Array, encoded: pa.Array) -> npt.NDArray[np.uint32]:
    counts = _list_lengths(tags)
    hashes = np.where(counts > 1, np.uint32(SEVERAL_TAGS), np.uint32(0))
    single = np.flatnonzero(counts == 1)
    if single.size:
        bounds, data = _bounds(encoded), _octets(encoded.buffers()[2])
        begins = bounds[single] + 2
        crcs = crc32c_of_strings(data, begins, bounds[single + 1] - begins)
        crcs[(crcs == 0) | (crcs == SEVERAL_TAGS)] = 1
        hashes[single] = crcs
    return hashes


# What was stored --------------------------------------------------------------------------------------------------------------


def encode_stored(rows: pa.RecordBatch) -> EncodedRecords:
    """The stored records of version 2 that rows with every column of ``arrow.SCHEMA`` were made of, bit for bit; others are not looked at.

    Raises ``InvalidArgumentError`` where a row cannot have been made of a record.
    """
    missing = [name for name in SCHEMA.names[: SCHEMA.names.index("status")] if name not in rows.schema.names]
    if missing:
        raise InvalidArgumentError(f"rows without {', '.join(missing)}: every field is needed to rebuild a record")
    column = {name: _column(rows, name) for name in SCHEMA.names if name in rows.schema.names}
    if (_longs(column["record_version"]) != 2).any():
        raise InvalidArgumentError("rows of records of version 1 are not rebuilt: an archive has version 2 only")
    header = np.zeros(rows.num_rows, HEADER)
    for name, most in _FITTING.items():
        header[name] = _fitting(_longs(column[name]), name, most)
    for name in _AS_THEY_ARE:
        header[name] = _longs(column[name]).view(np.uint64) if HEADER[name] == np.dtype(">u8") else _longs(column[name])
    for name in _TIMES:
        header[name] = _milliseconds(column[name])
    parts = {name: column[name].cast(pa.binary()) for name in (*_STRINGS, "body")}
    parts |= {"tags": _lists(column["tags"], "tag"), "keys": _lists(column["keys"], "key"), "properties": _maps(column["properties"])}
    encoded = _join(header, parts, Stage.STORED)
    sizes, claimed = np.diff(encoded.bounds), _longs(column["size"])
    if (sizes != claimed).any():
        number = int((sizes != claimed).argmax())
        raise InvalidArgumentError(f"row {number} says it was a record of {claimed[number]} bytes, and makes one of {sizes[number]}")
    records = RecordColumns(encoded.data, encoded.bounds[:-1])
    faults = find_faults(records, stage=Stage.STORED, verify_crc=False, limits=STORED_LIMITS)
    if faults.size:
        number = int(faults[0])
        problem = explain(encoded.data, int(encoded.bounds[number]), stage=Stage.STORED, verify_crc=False, limits=STORED_LIMITS)
        raise InvalidArgumentError(f"row {number} was made of no record: {problem}")
    return encoded


def _column(rows: pa.RecordBatch, name: str) -> pa.Array:
    """A column with the type that it has in ``SCHEMA``; tables give strings and lists back in several types."""
    array = rows.column(name)
    if name not in _MAY_BE_NULL and SCHEMA.names.index(name) < SCHEMA.names.index("status"):
        array = _without_nulls(array, name)
    wanted = SCHEMA.field(name).type
    return array if array.type == wanted else array.cast(wanted)


def _longs(array: pa.Array) -> Longs:
    numbers: Longs = array.to_numpy(zero_copy_only=False).astype(np.int64)
    return numbers


def _milliseconds(array: pa.Array) -> Longs:
    microseconds = _longs(pc.fill_null(array.cast(pa.int64()), 0))
    if (microseconds % 1000).any():
        raise InvalidArgumentError("a time with parts of a millisecond: no record has one")
    return microseconds // 1000


# Both -------------------------------------------------------------------------------------------------------------------------


def _join(header: npt.NDArray[np.void], parts: dict[str, Any], stage: Stage) -> EncodedRecords:
    """Records of their headers and parts. The lengths and the checksums are filled in here."""
    count = header.size
    unpadded = np.full(count, FIXED_BYTES, np.int64)
    for number, name in enumerate(PARTS):
        part = parts[name]
        lengths: Longs | int = len(part.as_py()) if isinstance(part, pa.Scalar) else np.diff(_bounds(part))
        if number < TAGS_AT:
            header["string_lengths"][:, number] = lengths
        else:
            header["part_lengths"][:, number - TAGS_AT] = lengths
        unpadded += lengths
    sizes = (unpadded + 7) & ~7
    bounds = np.zeros(count + 1, np.int64)
    np.cumsum(sizes, out=bounds[1:])
    if bounds[-1] > _MOST_BYTES:
        raise InvalidArgumentError(f"{count} rows make {bounds[-1]} bytes of records: pass fewer at once, for less than 2 GiB")
    header["size"] = sizes
    header["magic"] = MAGIC
    if stage is Stage.STORED:
        stamps = header.view(np.uint8).reshape(count, FIXED_BYTES)[:, STAMPED_BYTES_AT:PRODUCER_BYTES_AT]
        header["broker_crc"] = crc32c_of_rows(np.ascontiguousarray(stamps))
    paddings = _PADDINGS.take(pa.array(sizes - unpadded))
    if count == 0:
        return EncodedRecords(memoryview(b""), bounds)
    joined = pc.binary_join_element_wise(_rows(header), *(parts[name] for name in PARTS), paddings, b"")
    data = _octets(joined.buffers()[2])[: int(bounds[-1])]
    if not data.flags.writeable:
        data = data.copy()
    crcs = crc32c_of_strings(data, bounds[:-1] + PRODUCER_BYTES_AT, sizes - PRODUCER_BYTES_AT)
    np.ndarray((data.size - 3,), ">u4", data.data, 0, (1,))[bounds[:-1] + _PRODUCER_CRC_AT] = crcs
    return EncodedRecords(data.data, bounds)


def _rows(table: npt.NDArray[Any]) -> pa.Array:
    """The items of a numpy array as Arrow's bytes."""
    offsets = np.arange(table.size + 1, dtype=np.int32) * np.int32(table.dtype.itemsize)
    return pa.Array.from_buffers(pa.binary(), table.size, [None, pa.py_buffer(offsets), pa.py_buffer(np.ascontiguousarray(table))])


def _octets(buffer: pa.Buffer | None) -> npt.NDArray[np.uint8]:
    return np.frombuffer(buffer, np.uint8) if buffer is not None and buffer.size else np.empty(0, np.uint8)


def _bounds(array: pa.Array) -> Longs:
    """Where the strings or lists of an array begin, and where the last ends."""
    if len(array) == 0:
        return np.zeros(1, np.int64)
    return np.frombuffer(array.buffers()[1], np.int32, len(array) + 1, array.offset * 4).astype(np.int64)


def _fitting(numbers: Longs, what: str, most: int) -> Longs:
    if numbers.size and (int(numbers.min()) < 0 or int(numbers.max()) > most):
        raise InvalidArgumentError(f"{what} of {int(numbers.min())} … {int(numbers.max())}: choose 0 … {most}")
    return numbers


def _without_nulls(array: pa.Array, what: str) -> pa.Array:
    if array.null_count:
        raise InvalidArgumentError(f"{what} is null in {array.null_count} of {len(array)} rows: give it a value there")
    return array


def _shared(text: str, what: str) -> pa.Scalar:
    encoded = text.encode()
    _check_length(len(encoded), what)
    return pa.scalar(encoded, pa.binary())


def _check_length(length: int, what: str) -> None:
    if length > _LARGEST_STRING:
        raise InvalidArgumentError(f"{what} of {length} bytes: at most {_LARGEST_STRING} are allowed")


def _texts(array: pa.Array | None, what: str) -> pa.Array | pa.Scalar:
    if array is None:
        return _NOTHING
    texts = pc.fill_null(array.cast(pa.binary()), b"") if array.null_count else array.cast(pa.binary())
    _check_length(int(np.diff(_bounds(texts)).max(initial=0)), what)
    return texts


def _with_lengths(strings: pa.Array, what: str) -> tuple[pa.Array, pa.Array]:
    """Strings, and the u16 that stands in front of each."""
    texts = _without_nulls(strings, f"a {what}").cast(pa.binary())
    lengths = np.diff(_bounds(texts))
    _check_length(int(lengths.max(initial=0)), what)
    return _rows(lengths.astype(">u2")), texts


def _list_lengths(array: pa.Array) -> Longs:
    lengths = np.diff(_bounds(array))
    if array.null_count:
        lengths[array.is_null().to_numpy(zero_copy_only=False)] = 0  # what a null covers is no part of it
    return lengths


def _lists(array: pa.Array | None, what: str) -> pa.Array | pa.Scalar:
    """Lists of strings as a record has them: each string with its length in front, one behind another."""
    if array is None or array.null_count == len(array):
        return _NOTHING
    return _regrouped(_list_lengths(array), *_with_lengths(array.flatten(), what))


def _maps(array: pa.Array | None) -> pa.Array | pa.Scalar:
    if array is None or array.null_count == len(array):
        return _NOTHING
    entries = array.cast(_PAIRS).flatten()
    names, values = (_with_lengths(entries.field(number), "property") for number in (0, 1))
    return _regrouped(_list_lengths(array), *names, *values)


def _regrouped(counts: Longs, *pieces: pa.Array) -> pa.Array:
    """The pieces of each entry joined, and of them as many together as a row has."""
    joined = pc.binary_join_element_wise(*pieces, b"")
    ends = np.zeros(counts.size + 1, np.int64)
    np.cumsum(counts, out=ends[1:])
    bounds = _bounds(joined)[ends].astype(np.int32)
    return pa.Array.from_buffers(pa.binary(), counts.size, [None, pa.py_buffer(bounds), joined.buffers()[2]])
