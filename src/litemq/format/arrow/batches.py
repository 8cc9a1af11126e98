"""Records to Arrow batches: the table that Spark shows of a log.

Every field of a record is a column, so that a record can be rebuilt from its row bit for bit.
Unsigned numbers become wider signed ones; ``producer_id`` and ``sequence`` keep their 64 bits. A
time of 0, which means none, is null. The last five columns are fields of version 1.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt

from litemq.errors import InvalidArgumentError, MissingExtraError, RecordFormatError
from litemq.format.batches.check import explain, find_faults
from litemq.format.batches.scan import ScanStop, Version, scan
from litemq.format.columns.record_columns import PARTS, HeaderWord, RecordColumns
from litemq.format.columns.string_lists import ListColumn, Strings, rows_at
from litemq.format.compression import MAX_BODY_BYTES, decompress
from litemq.format.limits import DEFAULT_LIMITS, RecordLimits
from litemq.format.record import FIXED_BYTES, Buffer, Stage
from litemq.format.v1.columns import RecordColumnsV1, find_faults_v1
from litemq.format.v1.record import decode_record_v1
from litemq.types import BodyCodec

if TYPE_CHECKING:
    import pyarrow as pa
else:
    try:
        import pyarrow as pa
    except ModuleNotFoundError:
        raise MissingExtraError("reading records as Arrow", "arrow") from None

__all__ = ["SCHEMA", "decode_batches", "to_record_batch"]

Longs = npt.NDArray[np.int64]

_TIME: Final = pa.timestamp("us", tz="UTC")
_STRINGS: Final = pa.list_(pa.field("element", pa.string()))
_MAP: Final = pa.map_(pa.string(), pa.string())
_PLAIN_BYTES: Final = 64 << 20  # decompressed bodies in one batch
_CHUNK: Final = 8192  # records per batch: their headers and positions stay in the cache

SCHEMA: Final = pa.schema(
    [
        ("message_id", pa.string()),
        ("topic", pa.string()),
        ("queue_id", pa.int64()),
        ("queue_offset", pa.int64()),
        ("tags", _STRINGS),
        ("keys", _STRINGS),
        ("properties", _MAP),
        ("body", pa.binary()),
        ("kind", pa.int32()),
        ("type", pa.int32()),
        ("priority", pa.int32()),
        ("reliability", pa.int32()),
        ("born_timestamp", _TIME),
        ("store_timestamp", _TIME),
        ("delay_time", _TIME),
        ("expire_at", _TIME),
        ("sharding_key", pa.string()),
        ("transaction_id", pa.string()),
        ("born_host", pa.string()),
        ("producer_id", pa.int64()),
        ("sequence", pa.int64()),
        ("commitlog_offset", pa.int64()),
        ("origin", pa.int64()),
        ("topic_id", pa.int64()),
        ("epoch", pa.int64()),
        ("consume_count", pa.int64()),
        ("tag_hash", pa.int64()),
        ("flags", pa.int32()),
        ("size", pa.int32()),
        ("record_version", pa.int32()),
        ("status", pa.int32()),
        ("broadcast", pa.bool_()),
        ("store_host", pa.string()),
        ("consume_start_time", _TIME),
        ("consume_end_time", _TIME),
    ]
)


def _numbers(values: npt.NDArray[Any], arrow_type: pa.DataType) -> pa.Array:
    """Convert from memory: ``pa.array`` would import pandas to check for its types."""
    native = np.ascontiguousarray(values, np.int32 if arrow_type == pa.int32() else np.int64)
    return pa.Array.from_buffers(arrow_type, native.size, [None, pa.py_buffer(native)])


def _times(milliseconds: npt.NDArray[Any], *, zero_is_null: bool = False) -> pa.Array:
    microseconds = milliseconds.astype(np.int64)
    valid = None
    nulls = 0
    if zero_is_null:
        given = microseconds != 0
        nulls = int(given.size - np.count_nonzero(given))
        valid = pa.py_buffer(np.packbits(given, bitorder="little")) if nulls else None
    microseconds *= 1000
    return pa.Array.from_buffers(_TIME, microseconds.size, [valid, pa.py_buffer(microseconds)], nulls)


def _fixed_width(rows: npt.NDArray[np.uint8], arrow_type: pa.DataType) -> pa.Array:
    """Convert the rows of a matrix, strings of one length."""
    count, width = rows.shape
    offsets = np.arange(count + 1, dtype=np.int32)
    offsets *= width
    return pa.Array.from_buffers(arrow_type, count, [None, pa.py_buffer(offsets), pa.py_buffer(rows)])


def _parts(data: npt.NDArray[np.uint8], strings: Strings, arrow_type: pa.DataType) -> pa.Array:
    """Copy strings with ascending positions out of a buffer."""
    count = strings.positions.size
    width = int(strings.lengths[0]) if count else 0
    if (strings.lengths == width).all():
        rows = rows_at(data, strings.positions, width) if width else np.empty((count, 0), np.uint8)
        return _fixed_width(rows, arrow_type)
    # In this array the gaps between the strings are values, too; ``take`` skips them.
    offsets = np.empty(2 * count + 1, np.int32)
    offsets[0] = 0
    offsets[1::2] = strings.positions
    np.add(strings.positions, strings.lengths, out=offsets[2::2], casting="unsafe")
    with_gaps = pa.Array.from_buffers(arrow_type, 2 * count, [None, pa.py_buffer(offsets), pa.py_buffer(data)])
    return with_gaps.take(_numbers(np.arange(1, 2 * count, 2), pa.int64()))


@lru_cache(maxsize=8)
def _repeated(values: tuple[bytes, ...], count: int) -> pa.Array:
    """Repeat ``values`` ``count`` times. Cached: consecutive batches have the same values."""
    ends = np.cumsum([len(value) for value in values]) if values else np.empty(0, np.int64)
    offsets = np.zeros(count * len(values) + 1, np.int32)
    if values:
        offsets[1:] = (np.arange(count)[:, None] * ends[-1] + ends).ravel()
    data = b"".join(values) * count
    return pa.Array.from_buffers(pa.string(), offsets.size - 1, [None, pa.py_buffer(offsets), pa.py_buffer(data)])


def _lists(offsets: Longs, values: pa.Array) -> pa.Array:
    buffers = [None, pa.py_buffer(offsets.astype(np.int32))]
    return pa.Array.from_buffers(_STRINGS, offsets.size - 1, buffers, children=[values])


def _maps(offsets: Longs, names: pa.Array, values: pa.Array) -> pa.Array:
    return pa.MapArray.from_arrays(_numbers(offsets >> 1, pa.int32()), names, values, _MAP)


_ALL: Final = slice(None)
_NAMES: Final = slice(0, None, 2)
_VALUES: Final = slice(1, None, 2)


def _strings(column: ListColumn, which: slice) -> pa.Array:
    if column.is_shared:
        return _repeated(tuple(column.first_strings[which]), column.begins.size)
    return _parts(column.data, column.lists.strings.select(which), pa.string())


def _list_column(column: ListColumn) -> pa.Array:
    return _lists(column.offsets, _strings(column, _ALL))


def _map_column(column: ListColumn) -> pa.Array:
    return _maps(column.offsets, _strings(column, _NAMES), _strings(column, _VALUES))


def _nulls(name: str) -> Callable[[RecordColumns], pa.Array]:
    return lambda columns: pa.nulls(len(columns), SCHEMA.field(name).type)


def _narrow(name: str) -> Callable[[RecordColumns], pa.Array]:
    """Return a maker for a field of one or two bytes."""
    return lambda columns: _numbers(columns.header[name], SCHEMA.field(name).type)


def _word(name: str, at: HeaderWord) -> Callable[[RecordColumns], pa.Array]:
    """Return a maker for a 32-bit field. Many are constant in a batch, which is already known."""
    arrow_type = SCHEMA.field(name).type

    def make(columns: RecordColumns) -> pa.Array:
        value = columns.set_everywhere[at]
        if value == columns.set_anywhere[at]:
            return _numbers(np.full(len(columns), value, np.int64), arrow_type)
        return _numbers(columns.words[:, at], arrow_type)

    return make


def _long_values(columns: RecordColumns, at: HeaderWord) -> Longs:
    """Return a 64-bit field, whose upper half is the word ``at``."""
    high, low = columns.set_everywhere[at : at + 2]
    if columns.set_anywhere[at : at + 2] == [high, low]:
        value = high << 32 | low
        return np.full(len(columns), value - (1 << 64) if value >> 63 else value, np.int64)
    return columns.header.view(">i8").reshape(len(columns), FIXED_BYTES // 8)[:, at // 2].astype(np.int64)


def _long(at: HeaderWord) -> Callable[[RecordColumns], pa.Array]:
    return lambda columns: _numbers(_long_values(columns, at), pa.int64())


def _time(at: HeaderWord, *, zero_is_null: bool = False) -> Callable[[RecordColumns], pa.Array]:
    def make(columns: RecordColumns) -> pa.Array:
        if zero_is_null and not any(columns.set_anywhere[at : at + 2]):
            return pa.nulls(len(columns), _TIME)
        return _times(_long_values(columns, at), zero_is_null=zero_is_null)

    return make


def _part(name: str) -> Callable[[RecordColumns], pa.Array]:
    at, arrow_type = PARTS.index(name), SCHEMA.field(name).type

    def make(columns: RecordColumns) -> pa.Array:
        if columns.layout is not None and columns.rows is not None and at + 1 < len(columns.layout):
            begin, end = columns.layout[at : at + 2]
            return _fixed_width(np.ascontiguousarray(columns.rows[:, begin:end]), arrow_type)
        return _parts(columns.data, columns.part(name), arrow_type)

    return make


# The maker of each column for records of version 2.
_MAKERS: Final[dict[str, Callable[[RecordColumns], pa.Array]]] = {
    **{name: _part(name) for name in ("message_id", "topic", "sharding_key", "transaction_id", "born_host", "body")},
    "tags": lambda columns: _list_column(columns.tags),
    "keys": lambda columns: _list_column(columns.keys),
    "properties": lambda columns: _map_column(columns.properties),
    "queue_id": _word("queue_id", HeaderWord.QUEUE_ID),
    "topic_id": _word("topic_id", HeaderWord.TOPIC_ID),
    "epoch": _word("epoch", HeaderWord.EPOCH),
    "tag_hash": _word("tag_hash", HeaderWord.TAG_HASH),
    "flags": _word("flags", HeaderWord.FLAGS),
    "size": _word("size", HeaderWord.SIZE),
    **{name: _narrow(name) for name in ("kind", "type", "priority", "reliability", "consume_count")},
    "commitlog_offset": _long(HeaderWord.COMMITLOG),
    "queue_offset": _long(HeaderWord.QUEUE),
    "origin": _long(HeaderWord.ORIGIN),
    "producer_id": _long(HeaderWord.PRODUCER_ID),
    "sequence": _long(HeaderWord.SEQUENCE),
    "born_timestamp": _time(HeaderWord.BORN),
    "store_timestamp": _time(HeaderWord.STORED),
    "delay_time": _time(HeaderWord.DUE, zero_is_null=True),
    "expire_at": _time(HeaderWord.EXPIRE, zero_is_null=True),
    "record_version": lambda columns: _numbers(np.full(len(columns), 2), pa.int32()),
    **{name: _nulls(name) for name in ("status", "broadcast", "store_host", "consume_start_time", "consume_end_time")},
}

# The same for version 1; fields that it lacks have a neutral value.
_MAKERS_V1: Final[dict[str, Callable[[RecordColumnsV1], pa.Array]]] = {
    "message_id": lambda c: _parts(c.data, c.message_id, pa.string()),
    "topic": lambda c: _parts(c.data, c.topic, pa.string()),
    "queue_id": lambda c: _numbers(c.stored["queue_id"], pa.int64()),
    "queue_offset": lambda c: _numbers(c.stored["queue_offset"], pa.int64()),
    "tags": lambda c: _lists(c.tags.offsets, _parts(c.data, c.tags.strings, pa.string())),
    "keys": lambda c: _lists(c.keys.offsets, _parts(c.data, c.keys.strings, pa.string())),
    "properties": lambda c: _maps(
        c.properties.offsets,
        _parts(c.data, c.properties.strings.select(_NAMES), pa.string()),
        _parts(c.data, c.properties.strings.select(_VALUES), pa.string()),
    ),
    "body": lambda c: _parts(c.data, c.body, pa.binary()),
    "kind": lambda c: _numbers(c.kinds, pa.int32()),
    "type": lambda c: _numbers(c.attributes["type"], pa.int32()),
    "priority": lambda c: _numbers(c.attributes["priority"], pa.int32()),
    "reliability": lambda c: _numbers(c.attributes["reliability"], pa.int32()),
    "born_timestamp": lambda c: _times(c.born_timestamp),
    "store_timestamp": lambda c: _times(c.stored["store_timestamp"]),
    "delay_time": lambda c: _times(c.attributes["delay_time"], zero_is_null=True),
    "expire_at": lambda c: pa.nulls(len(c), _TIME),
    "sharding_key": lambda c: _parts(c.data, c.sharding_key, pa.string()),
    "transaction_id": lambda c: _parts(c.data, c.transaction_id, pa.string()),
    "born_host": lambda c: _parts(c.data, c.born_host, pa.string()),
    **{
        name: lambda c: _numbers(np.zeros(len(c)), pa.int64())
        for name in ("producer_id", "sequence", "topic_id", "epoch", "tag_hash")
    },
    "commitlog_offset": lambda c: _numbers(c.stored["commitlog_offset"], pa.int64()),
    "origin": lambda c: _numbers(np.full(len(c), -1), pa.int64()),
    "consume_count": lambda c: _numbers(c.stored["consume_count"], pa.int64()),
    "flags": lambda c: _numbers(np.zeros(len(c)), pa.int32()),
    "size": lambda c: _numbers(c.sizes, pa.int32()),
    "record_version": lambda c: _numbers(np.ones(len(c)), pa.int32()),
    "status": lambda c: _numbers(c.status, pa.int32()),
    "broadcast": lambda c: pa.array(c.broadcast != 0),
    "store_host": lambda c: _parts(c.data, c.store_host, pa.string()),
    "consume_start_time": lambda c: _times(c.stored["consume_start_time"], zero_is_null=True),
    "consume_end_time": lambda c: _times(c.stored["consume_end_time"], zero_is_null=True),
}


def to_record_batch(
    columns: RecordColumns | RecordColumnsV1,
    names: Sequence[str] | None = None,
    *,
    bodies: pa.Array | None = None,
) -> pa.RecordBatch:
    """Convert valid records to one batch with the columns ``names``, by default all of ``SCHEMA``.

    ``bodies`` replaces the stored bodies.
    """
    selected = _check_names(names)
    if columns.data.size >= 1 << 31:
        raise InvalidArgumentError(
            f"a buffer of {columns.data.size} bytes: Arrow allows less than 2 GiB, read it in parts"
        )
    arrays = []
    for name in selected:
        if name == "body" and bodies is not None:
            arrays.append(bodies)
        elif isinstance(columns, RecordColumnsV1):
            arrays.append(_MAKERS_V1[name](columns))
        else:
            arrays.append(_MAKERS[name](columns))
    return pa.RecordBatch.from_arrays(arrays, schema=pa.schema([SCHEMA.field(name) for name in selected]))


def _check_names(names: Sequence[str] | None) -> list[str]:
    if names is None:
        return list(SCHEMA.names)
    if isinstance(names, str) or not names:
        raise InvalidArgumentError(f"names={names!r}: pass a list with at least one column, even to count rows")
    unknown = [name for name in names if name not in _MAKERS]
    if unknown:
        raise InvalidArgumentError(f"no column {', '.join(map(repr, unknown))}: choose from {', '.join(SCHEMA.names)}")
    return list(names)


def _plain_bodies(columns: RecordColumns, max_body_bytes: int) -> Iterator[tuple[int, int, pa.Array]]:
    """Yield (first, end, plain bodies) of consecutive records, about ``_PLAIN_BYTES`` each."""
    view = memoryview(columns.buffer)
    bodies: list[bytes] = []
    first = size = 0
    parts = zip(
        columns.words[:, HeaderWord.FLAGS].tolist(), *(part.tolist() for part in columns.part("body")), strict=True
    )
    for number, (codec, begin, length) in enumerate(parts):
        body = bytes(view[begin : begin + length])
        # An encrypted body was compressed before encryption: decompress it after decryption.
        bodies.append(body if codec & 0b1000 else decompress(body, BodyCodec(codec), max_bytes=max_body_bytes))
        size += len(bodies[-1])
        if size >= _PLAIN_BYTES:
            yield first, number + 1, pa.array(bodies, pa.binary())
            bodies = []
            first, size = number + 1, 0
    if bodies:
        yield first, first + len(bodies), pa.array(bodies, pa.binary())


def decode_batches(
    buffer: Buffer,
    names: Sequence[str] | None = None,
    *,
    version: Version = 2,
    verify_crc: bool = True,
    decompress_bodies: bool = False,
    max_body_bytes: int = MAX_BODY_BYTES,
    limits: RecordLimits = DEFAULT_LIMITS,
) -> Iterator[pa.RecordBatch]:
    """Convert stored records to batches of some thousand rows, up to the end of the log or buffer.

    With ``decompress_bodies``, the bodies are plain, none larger than ``max_body_bytes``, and
    batches of large bodies have fewer rows; ``flags`` still has the stored codec. Raise
    ``RecordFormatError`` for the first invalid record, and if the buffer ends inside a record.
    """
    _check_names(names)
    found = scan(buffer, version=version, limits=limits)
    for begin in range(0, found.starts.size, _CHUNK):
        starts = found.starts[begin : begin + _CHUNK]
        columns: RecordColumns | RecordColumnsV1
        if version == 2:
            columns = RecordColumns(buffer, starts)
            faults = find_faults(columns, verify_crc=verify_crc, limits=limits)
        else:
            columns = RecordColumnsV1(buffer, starts)
            faults = find_faults_v1(columns, limits=limits)
        if faults.size:
            raise _explain(buffer, int(starts[faults[0]]), version, verify_crc=verify_crc, limits=limits)
        if isinstance(columns, RecordColumns) and decompress_bodies and columns.set_anywhere[HeaderWord.FLAGS]:
            for first, end, bodies in _plain_bodies(columns, max_body_bytes):
                yield to_record_batch(columns.subset(np.arange(first, end)), names, bodies=bodies)
        else:
            yield to_record_batch(columns, names)
    if found.stop in (ScanStop.BROKEN, ScanStop.INCOMPLETE):
        raise _explain(buffer, found.end, version, verify_crc=verify_crc, limits=limits)


def _explain(
    buffer: Buffer, position: int, version: Version, *, verify_crc: bool, limits: RecordLimits
) -> RecordFormatError:
    if version == 2:
        return explain(buffer, position, stage=Stage.STORED, verify_crc=verify_crc, limits=limits)
    try:
        decode_record_v1(buffer, position, limits=limits)
    except RecordFormatError as error:
        return error
    raise AssertionError(f"bug: the codecs of version 1 disagree on the record at byte {position}")
