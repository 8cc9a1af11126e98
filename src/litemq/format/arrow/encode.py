"""Arrow columns to records, thousands at once.

``encode_stored`` rebuilds stored records from the rows of ``batches.py``, bit for bit.
``encode_sent`` encodes messages that a Spark job sends, with the same bytes as
``record_encode.RecordTemplate``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from litemq.errors import InvalidArgumentError, MissingExtraError
from litemq.format.arrow.batches import SCHEMA
from litemq.format.arrow.parts import (
    EncodedRecords,
    compute_tag_hashes,
    join_records,
    list_part,
    map_part,
    shared_part,
    string_part,
    without_nulls,
)
from litemq.format.batches.check import explain, find_faults
from litemq.format.columns.record_columns import HEADER, PARTS, TAGS_AT, RecordColumns
from litemq.format.limits import DEFAULT_LIMITS, STORED_LIMITS, RecordLimits
from litemq.format.record import Stage
from litemq.types import DEFAULT_PRIORITY, LATEST_TIME_MS, Durability, MessageType

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.compute as pc
else:
    try:
        import pyarrow as pa
        import pyarrow.compute as pc
    except ModuleNotFoundError:
        raise MissingExtraError("encoding records from Arrow columns", "arrow") from None

__all__ = ["EncodedRecords", "SentColumns", "encode_sent", "encode_stored"]

Longs = npt.NDArray[np.int64]

_STRINGS: Final = PARTS[:TAGS_AT]

# Numbers that are narrower in the header than in the row, with their maximum.
_MAX_VALUES: Final = {
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
_UNCHANGED: Final = ("commitlog_offset", "queue_offset", "origin", "producer_id", "sequence")
_TIMES: Final = ("born_timestamp", "store_timestamp", "delay_time", "expire_at")
_MAY_BE_NULL: Final = frozenset({"delay_time", "expire_at"})


class SentColumns(NamedTuple):
    """The columns of messages to one topic. ``None`` or a null means that the field is absent.

    ``message_ids`` and ``sharding_keys`` are strings, ``tags`` and ``keys`` lists of strings,
    ``properties`` maps. Times are in milliseconds.
    """

    bodies: pa.Array
    message_ids: pa.Array | None = None
    keys: pa.Array | None = None
    tags: pa.Array | None = None
    properties: pa.Array | None = None
    sharding_keys: pa.Array | None = None
    delay_times: Longs | None = None
    priorities: Longs | None = None


# Records to send ----------------------------------------------------------------------------------


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
    """Encode records as a producer sends them; raise ``InvalidArgumentError`` if one is invalid."""
    count = len(columns.bodies)
    parts = {
        "message_id": string_part(columns.message_ids, "message_id"),
        "topic": shared_part(topic, "topic"),
        "transaction_id": shared_part(transaction_id, "transaction_id"),
        "sharding_key": string_part(columns.sharding_keys, "sharding_key"),
        "born_host": shared_part(born_host, "born_host"),
        "tags": list_part(columns.tags, "tag"),
        "keys": list_part(columns.keys, "key"),
        "properties": map_part(columns.properties),
        "body": without_nulls(columns.bodies, "body").cast(pa.binary()),
    }
    header = np.zeros(count, HEADER)
    header["born_timestamp"] = born_timestamp
    header["reliability"] = reliability
    header["priority"] = DEFAULT_PRIORITY
    if columns.priorities is not None:
        header["priority"] = _check_range(columns.priorities, "priority", 0xFF)
    if columns.delay_times is not None:
        header["delay_time"] = _check_range(columns.delay_times, "delay_time", LATEST_TIME_MS)
        header["type"] = np.where(columns.delay_times != 0, MessageType.DELAY, MessageType.NORMAL)
    if columns.tags is not None:
        header["tag_hash"] = compute_tag_hashes(columns.tags, parts["tags"])
    encoded = join_records(header, parts, Stage.SENT)
    records = RecordColumns(encoded.data, encoded.bounds[:-1])
    faults = find_faults(records, stage=Stage.SENT, verify_crc=False, limits=limits)
    if faults.size:
        number = int(faults[0])
        problem = explain(encoded.data, int(encoded.bounds[number]), stage=Stage.SENT, verify_crc=False, limits=limits)
        raise InvalidArgumentError(f"row {number} is no valid record: {problem}")
    return encoded


# Stored records -----------------------------------------------------------------------------------


def encode_stored(rows: pa.RecordBatch) -> EncodedRecords:
    """Rebuild stored records of version 2 from rows with all columns of ``SCHEMA``, bit for bit.

    Ignores other columns. Raise ``InvalidArgumentError`` if a row does not come from a record.
    """
    missing = [name for name in SCHEMA.names[: SCHEMA.names.index("status")] if name not in rows.schema.names]
    if missing:
        raise InvalidArgumentError(f"missing columns {', '.join(missing)}: every field is needed to rebuild a record")
    column = {name: _column(rows, name) for name in SCHEMA.names if name in rows.schema.names}
    if (_longs(column["record_version"]) != 2).any():
        raise InvalidArgumentError("records of version 1 cannot be rebuilt: an archive has version 2 only")
    header = np.zeros(rows.num_rows, HEADER)
    for name, maximum in _MAX_VALUES.items():
        header[name] = _check_range(_longs(column[name]), name, maximum)
    for name in _UNCHANGED:
        numbers = _longs(column[name])
        header[name] = numbers.view(np.uint64) if HEADER[name] == np.dtype(">u8") else numbers
    for name in _TIMES:
        header[name] = _milliseconds(column[name])
    parts = {name: column[name].cast(pa.binary()) for name in (*_STRINGS, "body")}
    parts |= {
        "tags": list_part(column["tags"], "tag"),
        "keys": list_part(column["keys"], "key"),
        "properties": map_part(column["properties"]),
    }
    encoded = join_records(header, parts, Stage.STORED)
    sizes, claimed = np.diff(encoded.bounds), _longs(column["size"])
    if (sizes != claimed).any():
        number = int((sizes != claimed).argmax())
        raise InvalidArgumentError(
            f"row {number} was a record of {claimed[number]} bytes, but encodes to {sizes[number]} bytes"
        )
    records = RecordColumns(encoded.data, encoded.bounds[:-1])
    faults = find_faults(records, stage=Stage.STORED, verify_crc=False, limits=STORED_LIMITS)
    if faults.size:
        number = int(faults[0])
        position = int(encoded.bounds[number])
        problem = explain(encoded.data, position, stage=Stage.STORED, verify_crc=False, limits=STORED_LIMITS)
        raise InvalidArgumentError(f"row {number} does not come from a record: {problem}")
    return encoded


def _column(rows: pa.RecordBatch, name: str) -> pa.Array:
    """Return a column, cast to its type in ``SCHEMA`` if the table uses another."""
    array = rows.column(name)
    if name not in _MAY_BE_NULL and SCHEMA.names.index(name) < SCHEMA.names.index("status"):
        array = without_nulls(array, name)
    wanted = SCHEMA.field(name).type
    return array if array.type == wanted else array.cast(wanted)


def _longs(array: pa.Array) -> Longs:
    numbers: Longs = array.to_numpy(zero_copy_only=False).astype(np.int64)
    return numbers


def _milliseconds(array: pa.Array) -> Longs:
    microseconds = _longs(pc.fill_null(array.cast(pa.int64()), 0))
    if (microseconds % 1000).any():
        raise InvalidArgumentError("a time has a fraction of a millisecond: records store whole milliseconds")
    return microseconds // 1000


def _check_range(numbers: Longs, what: str, maximum: int) -> Longs:
    if numbers.size and (int(numbers.min()) < 0 or int(numbers.max()) > maximum):
        raise InvalidArgumentError(f"{what} of {int(numbers.min())} … {int(numbers.max())}: choose 0 … {maximum}")
    return numbers
