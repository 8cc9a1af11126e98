"""The answers to sends: by far the most frequent frames, all of one form, and so packed many at a time.

A frame whose header is a ``SendAnswer`` with both of its fixed fields written, zero or not, has 34 bytes.
"""

from __future__ import annotations

import struct
from typing import Final

from litemq.net.frame import Flag, frame_prefix
from litemq.proto.wire_pb2 import Opcode

__all__ = ["SENT_ANSWER_BYTES", "pack_sent_answer", "pack_sent_answers", "unpack_sent_answer"]

# Protobuf's tag of field 1 and of field 2, each a number of 64 bits, little-endian.
_ANSWER: Final = struct.Struct("<BqBq")
_TAGS: Final = (0x09, 0x11)
SENT_ANSWER_BYTES: Final = _ANSWER.size


def pack_sent_answer(queue_offset: int, store_timestamp: int) -> bytes:
    """The header of one answer."""
    return _ANSWER.pack(_TAGS[0], queue_offset, _TAGS[1], store_timestamp)


def pack_sent_answers(correlations: list[int], queue_offsets: list[int], store_timestamp: int) -> bytes:
    """The frames that tell each request where its first record went."""
    pieces = []
    for correlation, queue_offset in zip(correlations, queue_offsets, strict=True):
        pieces.append(frame_prefix(correlation, Opcode.SEND, Flag.ANSWER, SENT_ANSWER_BYTES))
        pieces.append(pack_sent_answer(queue_offset, store_timestamp))
    return b"".join(pieces)


def unpack_sent_answer(header: bytes) -> tuple[int, int] | None:
    """Queue offset and store timestamp of a plain answer; ``None`` where it is of another form, which protobuf can read."""
    if len(header) != SENT_ANSWER_BYTES:
        return None
    first, queue_offset, second, store_timestamp = _ANSWER.unpack(header)
    return (queue_offset, store_timestamp) if (first, second) == _TAGS else None
