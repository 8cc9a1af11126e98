"""Answers to SEND, the most frequent answers of a busy broker, packed in bulk.

Each is a frame of 34 bytes::

    at  bytes  field
     0     16  frame prefix: an answer with a header of 18 bytes and no attachment
    16      1  0x09: field 1 of SendAnswer, eight bytes
    17      8  queue_offset, little-endian
    25      1  0x11: field 2 of SendAnswer, eight bytes
    26      8  store_timestamp, little-endian

The fixed size lets the broker build all answers of a tick at once, and clients read them without
a protobuf parser.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Final

import numpy as np
import numpy.typing as npt

from litemq.errors import InvalidArgumentError
from litemq.format import native
from litemq.net.frame import PREFIX_BYTES, Flag
from litemq.proto.wire_pb2 import Opcode

__all__ = ["SENT_ANSWER_BYTES", "pack_sent_answer", "pack_sent_answers", "unpack_sent_answer"]

_HEADER: Final = struct.Struct("<BqBq")
_OFFSET_TAG: Final = 0x09
_TIMESTAMP_TAG: Final = 0x11
SENT_ANSWER_BYTES: Final = PREFIX_BYTES + _HEADER.size

_FRAME: Final = np.dtype(
    [
        ("length", ">u4"),
        ("correlation", ">u4"),
        ("opcode", ">u2"),
        ("flags", ">u2"),
        ("header_bytes", ">u4"),
        ("offset_tag", "u1"),
        ("queue_offset", "<i8"),
        ("timestamp_tag", "u1"),
        ("store_timestamp", "<i8"),
    ]
)
_SEND: Final = int(Opcode.SEND)


def pack_sent_answer(queue_offset: int, store_timestamp: int) -> bytes:
    """Pack the header of one answer."""
    return _HEADER.pack(_OFFSET_TAG, queue_offset, _TIMESTAMP_TAG, store_timestamp)


def unpack_sent_answer(header: bytes) -> tuple[int, int] | None:
    """Return the queue offset and the store timestamp.

    Return ``None`` if the header has other fields or another encoding: then use the parser.
    """
    if len(header) != _HEADER.size:
        return None
    first, queue_offset, second, store_timestamp = _HEADER.unpack(header)
    return (queue_offset, store_timestamp) if first == _OFFSET_TAG and second == _TIMESTAMP_TAG else None


def pack_sent_answers(
    correlations: list[int], queue_offsets: Sequence[int] | npt.NDArray[np.int64], store_timestamp: int
) -> bytes:
    """Pack one answer frame per request, each with its own offset and a common timestamp."""
    if len(queue_offsets) != len(correlations):
        raise InvalidArgumentError(f"{len(correlations)} requests, but {len(queue_offsets)} offsets")
    offsets = queue_offsets.tolist() if isinstance(queue_offsets, np.ndarray) else list(queue_offsets)
    if native.enabled:
        native_result = native.loops.pack_sent_answers(correlations, offsets, _SEND, store_timestamp)
        if native_result is not None:
            return native_result
    frames = np.empty(len(correlations), _FRAME)
    frames["length"] = SENT_ANSWER_BYTES - 4
    frames["opcode"] = _SEND
    frames["flags"] = Flag.ANSWER
    frames["header_bytes"] = _HEADER.size
    frames["offset_tag"] = _OFFSET_TAG
    frames["timestamp_tag"] = _TIMESTAMP_TAG
    try:
        frames["correlation"] = correlations
        frames["queue_offset"] = offsets
        frames["store_timestamp"] = store_timestamp
    except OverflowError as error:
        raise InvalidArgumentError(f"a number is too large for an answer: {error}") from None
    return frames.tobytes()
