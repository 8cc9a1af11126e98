"""Conversion of many records between versions 1 and 2.

The conversion copies the producer's parts byte for byte: both layouts have each of them in one
piece, with lengths and counts elsewhere. Version 1 lacks expire_at, producer_id, sequence and the
body's codec: ``upgrade`` sets neutral values, ``downgrade`` drops them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain

import numpy as np
import numpy.typing as npt

from litemq.format.columns.keys import tag_hashes
from litemq.format.columns.record_columns import HEADER, PARTS, TAGS_AT, RecordColumns
from litemq.format.columns.string_lists import StringLists, Strings
from litemq.format.crc import crc32c_of_records
from litemq.format.record import FIXED_BYTES, MAGIC, PRODUCER_BYTES_AT, PRODUCER_CRC_AT, Buffer
from litemq.format.v1.columns import RecordColumnsV1
from litemq.format.v1.record import MAGIC_V1, MIN_BYTES_V1
from litemq.types import MessageStatus, MessageType, RecordKind

__all__ = ["downgrade", "upgrade"]

Longs = npt.NDArray[np.int64]

_LIST_COUNT_BYTES = 4


# To version 2 -------------------------------------------------------------------------------------


def upgrade(columns: RecordColumnsV1) -> RecordColumns:
    """Convert valid records to version 2 as a producer sends them, in a new buffer.

    Version 2 has limits that version 1 lacks: check the result with ``check.find_faults``.
    """
    parts = _parts(columns)
    lengths = np.stack([part.lengths for part in parts])
    unpadded = FIXED_BYTES + lengths.sum(axis=0)
    sizes = (unpadded + 7) & ~7
    starts = np.cumsum(sizes) - sizes

    header = np.zeros(len(columns), HEADER)
    header["size"] = sizes
    header["magic"] = MAGIC
    header["born_timestamp"] = columns.born_timestamp
    header["delay_time"] = columns.attributes["delay_time"]
    header["tag_hash"] = tag_hashes(columns.data, columns.tags)
    for name in ("type", "priority", "reliability"):
        header[name] = columns.attributes[name]
    header["string_lengths"] = lengths[:TAGS_AT].T
    header["part_lengths"] = lengths[TAGS_AT:].T

    pieces = [_split(header), *_slices(columns.buffer, parts), map(bytes, (sizes - unpadded).tolist())]
    buffer = bytearray(_interleave(pieces))
    begins, ends = (starts + PRODUCER_BYTES_AT).tolist(), (starts + sizes).tolist()
    crcs = np.array(crc32c_of_records(memoryview(buffer), begins, ends), ">u4").view(np.uint8).reshape(-1, 4)
    np.frombuffer(buffer, np.uint8)[starts[:, None] + np.arange(PRODUCER_CRC_AT, PRODUCER_CRC_AT + 4)] = crcs
    return RecordColumns(buffer, starts)


def _parts(columns: RecordColumnsV1) -> list[Strings]:
    """Return the variable parts in the order of version 2, lists without their counts."""
    return [
        columns.message_id,
        columns.topic,
        columns.transaction_id,
        columns.sharding_key,
        columns.born_host,
        _list(columns.topic.positions + columns.topic.lengths, columns.tags),
        _list(columns.tags.ends, columns.keys),
        _list(columns.keys.ends, columns.properties),
        columns.body,
    ]


def _list(previous_ends: Longs, lists: StringLists) -> Strings:
    begins = previous_ends + _LIST_COUNT_BYTES
    return Strings(begins, lists.ends - begins)


# To version 1 -------------------------------------------------------------------------------------


def downgrade(columns: RecordColumns, bodies: Sequence[bytes], store_hosts: Sequence[bytes], position: int) -> bytes:
    """Convert valid stored records to version 1, for a log in which they begin at ``position``.

    ``bodies`` are the plain bodies. Consumption times are 0.
    """
    header = columns.header
    parts = {name: columns.part(name) for name in PARTS[:-1]}
    part = dict(zip(parts, _slices(columns.buffer, parts.values()), strict=True))
    length = {name: strings.lengths for name, strings in parts.items()}
    body_lengths, host_lengths = _lengths(bodies), _lengths(store_hosts)
    sizes = MIN_BYTES_V1 + np.sum(list(length.values()), axis=0) + body_lengths + host_lengths
    status = np.where(header["kind"] == RecordKind.COMMITTED, MessageStatus.COMMITTED, MessageStatus.NORMAL)

    def fixed(*fields: tuple[str, npt.NDArray[np.generic] | int]) -> list[bytes]:
        rows = np.empty(len(columns), np.dtype([(str(number), dtype) for number, (dtype, _) in enumerate(fields)]))
        for number, (_, values) in enumerate(fields):
            rows[str(number)] = values
        return _split(rows)

    return _interleave(
        [
            fixed((">u4", sizes - 4), (">u4", MAGIC_V1), (">u2", length["message_id"])),
            part["message_id"],
            fixed((">u2", length["topic"])),
            part["topic"],
            fixed((">u4", np.diff(columns.tags.offsets))),
            part["tags"],
            fixed((">u4", np.diff(columns.keys.offsets))),
            part["keys"],
            fixed((">u4", np.diff(columns.properties.offsets) // 2)),
            part["properties"],
            fixed((">u4", body_lengths)),
            bodies,
            fixed(
                ("u1", header["type"]),
                ("u1", header["priority"]),
                ("u1", header["reliability"]),
                (">u8", header["delay_time"]),
                (">u2", length["transaction_id"]),
            ),
            part["transaction_id"],
            fixed(("u1", status), (">u2", length["sharding_key"])),
            part["sharding_key"],
            fixed(
                ("u1", header["type"] == MessageType.BROADCAST),
                (">u8", header["born_timestamp"]),
                (">u2", length["born_host"]),
            ),
            part["born_host"],
            fixed((">u2", host_lengths)),
            store_hosts,
            fixed(
                (">u4", header["queue_id"]),
                (">i8", header["queue_offset"]),
                (">i8", np.cumsum(sizes) - sizes + position),
                (">u4", sizes),
                (">u8", header["store_timestamp"]),
                (">u8", 0),
                (">u8", 0),
                (">u4", header["consume_count"]),
            ),
        ]
    )


def _lengths(values: Sequence[bytes]) -> Longs:
    return np.fromiter(map(len, values), np.int64, len(values))


# Pieces -------------------------------------------------------------------------------------------


def _slices(buffer: Buffer, parts: Iterable[Strings]) -> list[list[bytes]]:
    # A slice per part: numpy would need an index for each byte of long bodies.
    data = bytes(buffer)
    bounds = [(part.positions.tolist(), (part.positions + part.lengths).tolist()) for part in parts]
    return [[data[begin:end] for begin, end in zip(begins, ends, strict=True)] for begins, ends in bounds]


def _split(rows: npt.NDArray[np.void]) -> list[bytes]:
    raw, width = rows.tobytes(), rows.dtype.itemsize
    return [raw[at : at + width] for at in range(0, len(raw), width)]


def _interleave(pieces: list[Iterable[bytes]]) -> bytes:
    """Join the first items of all pieces, then the second, and so on: record by record."""
    return b"".join(chain.from_iterable(zip(*pieces, strict=True)))
