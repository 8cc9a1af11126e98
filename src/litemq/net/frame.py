"""The frame: what every message on a TCP connection looks like.

::

    at  bytes  field
     0      4  length of everything behind this field
     4      4  correlation id: an answer carries its request's
     8      2  opcode
    10      2  flags: bit 0 an answer, bit 1 an error
    12      4  length of the header
    16         header: one protobuf message, which the opcode names
     …         attachment: raw bytes, usually records

All integers big-endian. A frame that is too long, or whose header does not fit into it, ends the connection: what comes behind it can no
longer be told from its inside.
"""

from __future__ import annotations

import struct
from enum import IntFlag
from typing import Final, NamedTuple

from litemq.errors import ProtocolError

__all__ = ["PREFIX_BYTES", "PROTOCOL_VERSION", "Flag", "Frame", "FrameReader", "frame_prefix"]

_PREFIX: Final = struct.Struct(">IIHHI")
PREFIX_BYTES: Final = _PREFIX.size
PROTOCOL_VERSION: Final = 1
_BEHIND_LENGTH: Final = PREFIX_BYTES - 4


class Flag(IntFlag):
    """What a frame is, besides what its opcode says."""

    ANSWER = 1
    ERROR = 2


class Frame(NamedTuple):
    """One message, its parts still bytes."""

    correlation: int
    opcode: int
    flags: int
    header: bytes
    attachment: bytes


def frame_prefix(correlation: int, opcode: int, flags: int, header_bytes: int, attachment_bytes: int = 0) -> bytes:
    """What stands before the header."""
    return _PREFIX.pack(_BEHIND_LENGTH + header_bytes + attachment_bytes, correlation, opcode, flags, header_bytes)


class FrameReader:
    """Takes what comes from a connection in any pieces, and gives whole frames."""

    def __init__(self, max_frame_bytes: int) -> None:
        self._max_frame_bytes = max_frame_bytes
        self._wanted = PREFIX_BYTES  # so many bytes must be there before it is worth looking again
        self._pieces: list[bytes] = []
        self._size = 0

    def feed(self, data: bytes) -> None:
        """More bytes have come."""
        self._pieces.append(data)
        self._size += len(data)

    @property
    def buffered(self) -> int:
        """How many bytes wait here."""
        return self._size

    def frames(self, most: int) -> list[Frame]:
        """The next whole frames, ``most`` at most. Raises ``ProtocolError`` where the stream cannot be trusted."""
        if self._size < self._wanted:
            return []
        data = self._pieces[0] if len(self._pieces) == 1 else b"".join(self._pieces)
        found: list[Frame] = []
        at, end = 0, len(data)
        unpack = _PREFIX.unpack_from
        self._wanted = PREFIX_BYTES
        while end - at >= PREFIX_BYTES and len(found) < most:
            length, correlation, opcode, flags, header_bytes = unpack(data, at)
            if length > self._max_frame_bytes or length < _BEHIND_LENGTH + header_bytes:
                raise ProtocolError(f"a frame of {length} bytes with a header of {header_bytes}: at most {self._max_frame_bytes} are taken")
            behind = at + 4 + length
            if behind > end:
                self._wanted = behind - at
                break
            header_at = at + PREFIX_BYTES
            attachment_at = header_at + header_bytes
            found.append(Frame(correlation, opcode, flags, data[header_at:attachment_at], data[attachment_at:behind]))
            at = behind
        rest = data[at:]
        self._pieces = [rest] if rest else []
        self._size = len(rest)
        return found
