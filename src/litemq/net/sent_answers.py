"""The answers that a busy broker gives most: those to what was sent.

Each is a frame of 34 bytes, whatever it says::

    at  bytes  field
     0     16  the prefix of a frame: flags say an answer, the header has 18 bytes, there is no attachment
    16      1  0x09: field 1 of SendAnswer, eight bytes
    17      8  queue_offset, little-endian
    25      1  0x11: field 2 of SendAnswer, eight bytes
    26      8  store_timestamp, little-endian

So the answers to all requests of a turn are put together at once, and read without a parser.
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
    """The header of one answer."""
    return _HEADER.pack(_OFFSET_TAG, queue_offset, _TIMESTAMP_TAG, store_timestamp)


def unpack_sent_answer(header: bytes) -> tuple[int, int] | None:
    """The queue offset and the store timestamp of a plain answer; ``None`` where it has more to say, or another form: then the parser is to be asked."""
    if len(header) != _HEADER.size:
        return None
    first, queue_offset, second, store_timestamp = _HEADER.unpack(header)
    return (queue_offset, store_timestamp) if first == _OFFSET_TAG and second == _TIMESTAMP_TAG else None


def pack_sent_answers(correlations: list[int], queue_offsets: Sequence[int] | npt.NDArray[np.int64], store_timestamp: int) -> bytes:
    """The whole frames that answer several requests, stored at one time, each with its own offset."""
    if len(queue_offsets) != len(correlations):
        raise InvalidArgumentError(f"{len(correlations)} requests and {len(queue_offsets)} offsets")
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
        raise InvalidArgumentError(f"an answer's numbers are too large for it: {error}") from None
    return frames.tobytes()
