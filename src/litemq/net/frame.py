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
from litemq.format import native

__all__ = ["PREFIX_BYTES", "PROTOCOL_VERSION", "Flag", "Frame", "FrameReader", "Prefix", "frame_prefix", "parse_prefix"]

_PREFIX: Final = struct.Struct(">IIHHI")
_pack_prefix: Final = _PREFIX.pack
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
    return _pack_prefix(_BEHIND_LENGTH + header_bytes + attachment_bytes, correlation, opcode, flags, header_bytes)


class Prefix(NamedTuple):
    """What stands before the header, read."""

    correlation: int
    opcode: int
    flags: int
    header_bytes: int
    attachment_bytes: int


def parse_prefix(data: bytes | memoryview, max_frame_bytes: int) -> Prefix:
    """The first bytes of a frame. Raises ``ProtocolError`` where the stream cannot be trusted."""
    length, correlation, opcode, flags, header_bytes = _PREFIX.unpack(data)
    if length > max_frame_bytes or length < _BEHIND_LENGTH + header_bytes:
        raise _too_long(length, header_bytes, max_frame_bytes)
    return Prefix(correlation, opcode, flags, header_bytes, length - _BEHIND_LENGTH - header_bytes)


def _too_long(length: int, header_bytes: int, most: int) -> ProtocolError:
    return ProtocolError(f"a frame of {length} bytes with a header of {header_bytes}: at most {most} are taken")


class FrameReader:
    """Takes what comes from a connection in any pieces, and gives whole frames."""

    def __init__(self, max_frame_bytes: int) -> None:
        self._max_frame_bytes = max_frame_bytes
        self._wanted = PREFIX_BYTES  # so many bytes must be there before it is worth looking again
        self._data = b""  # what is being cut, from a place on
        self._at = 0
        self._pieces: list[bytes] = []  # what has come since
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
        if self._pieces:
            rest = self._data[self._at :]
            self._data = b"".join((rest, *self._pieces)) if rest or len(self._pieces) > 1 else self._pieces[0]
            self._at = 0
            self._pieces.clear()
        found, self._at, self._wanted = self._split(most)
        self._size = len(self._data) - self._at
        if self._size < self._wanted:
            self._data = self._data[self._at :]
            self._at = 0
        return found

    def _split(self, most: int) -> tuple[list[Frame], int, int]:
        """The frames, where they end, and what is wanted next."""
        data, at, end = self._data, self._at, len(self._data)
        if native.enabled and type(data) is bytes:
            quickly = native.loops.split_frames(data, at, most, self._max_frame_bytes, Frame)
            if quickly is not None:
                return quickly
        found: list[Frame] = []
        unpack = _PREFIX.unpack_from
        while end - at >= PREFIX_BYTES and len(found) < most:
            length, correlation, opcode, flags, header_bytes = unpack(data, at)
            if length > self._max_frame_bytes or length < _BEHIND_LENGTH + header_bytes:
                raise _too_long(length, header_bytes, self._max_frame_bytes)
            behind = at + 4 + length
            if behind > end:
                return found, at, behind - at
            header_at = at + PREFIX_BYTES
            attachment_at = header_at + header_bytes
            found.append(Frame(correlation, opcode, flags, data[header_at:attachment_at], data[attachment_at:behind]))
            at = behind
        return found, at, PREFIX_BYTES
