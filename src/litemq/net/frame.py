"""The frame format of TCP connections, and a reader that splits a byte stream into frames.

::

    at  bytes  field
     0      4  length of the rest of the frame
     4      4  correlation id: the same in a request and its answer
     8      2  opcode
    10      2  flags: bit 0 an answer, bit 1 an error
    12      4  length of the header
    16         header: one protobuf message, whose type follows from the opcode
     …         attachment: raw bytes, usually records

All integers are big-endian. A frame that is too long, or whose header does not fit into it, ends
the connection, because the start of the next frame is unknown.
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
_AFTER_LENGTH: Final = PREFIX_BYTES - 4
_LONG_FRAME: Final = 64 * 1024  # copying a shorter one costs little


class Flag(IntFlag):
    """The flags of a frame."""

    ANSWER = 1
    ERROR = 2
    MORE = 4  # of an answer: further parts of it follow


class Frame(NamedTuple):
    """One frame, undecoded."""

    correlation: int
    opcode: int
    flags: int
    header: bytes
    attachment: bytes


def frame_prefix(correlation: int, opcode: int, flags: int, header_bytes: int, attachment_bytes: int = 0) -> bytes:
    """Encode the fixed fields in front of a frame's header."""
    return _pack_prefix(_AFTER_LENGTH + header_bytes + attachment_bytes, correlation, opcode, flags, header_bytes)


class Prefix(NamedTuple):
    """The fixed fields in front of a frame's header."""

    correlation: int
    opcode: int
    flags: int
    header_bytes: int
    attachment_bytes: int


def parse_prefix(data: bytes | memoryview, max_frame_bytes: int) -> Prefix:
    """Decode a frame's prefix. Raise ``ProtocolError`` if the lengths are invalid."""
    length, correlation, opcode, flags, header_bytes = _PREFIX.unpack(data)
    if length > max_frame_bytes or length < _AFTER_LENGTH + header_bytes:
        raise _too_long(length, header_bytes, max_frame_bytes)
    return Prefix(correlation, opcode, flags, header_bytes, length - _AFTER_LENGTH - header_bytes)


def _too_long(length: int, header_bytes: int, limit: int) -> ProtocolError:
    return ProtocolError(f"a frame of {length} bytes with a header of {header_bytes}: at most {limit} are accepted")


class FrameReader:
    """A buffer that collects received bytes and returns whole frames."""

    def __init__(self, max_frame_bytes: int) -> None:
        self._max_frame_bytes = max_frame_bytes
        self._needed = PREFIX_BYTES  # bytes that must be buffered before the next frame can be whole
        self._data = b""  # split into frames up to ``_at``
        self._at = 0
        self._pieces: list[bytes] = []  # received since
        self._size = 0

    def feed(self, data: bytes) -> None:
        """Append received bytes."""
        self._pieces.append(data)
        self._size += len(data)

    @property
    def buffered(self) -> int:
        """The number of buffered bytes."""
        return self._size

    @property
    def has_frame(self) -> bool:
        """Whether enough bytes for the next frame are buffered, as far as is known."""
        return self._size >= self._needed

    @property
    def needed(self) -> int:
        """The size of the unfinished frame, or of a prefix if that is not known yet."""
        return self._needed

    def limit_frames(self, max_frame_bytes: int) -> None:
        """Set the maximum size of frames from now on."""
        self._max_frame_bytes = max_frame_bytes

    def frames(self, limit: int) -> list[Frame]:
        """Take up to ``limit`` whole frames. Raise ``ProtocolError`` if one is invalid."""
        if self._size < self._needed:
            return []
        if self._needed > _LONG_FRAME and (frame := self._take_long()) is not None:
            return [frame]
        if self._pieces:
            rest = self._data[self._at :]
            self._data = b"".join((rest, *self._pieces)) if rest or len(self._pieces) > 1 else self._pieces[0]
            self._at = 0
            self._pieces.clear()
        found, self._at, self._needed = self._split(limit)
        self._size = len(self._data) - self._at
        if self._size < self._needed:
            self._data = self._data[self._at :]
            self._at = 0
        return found

    def _take_long(self) -> Frame | None:
        """Take a long frame that came in several pieces, and copy its attachment only once.

        ``None``: it must be split.
        """
        start = self._data
        if self._at or len(self._pieces) < 2:
            return None
        length, correlation, opcode, flags, header_bytes = _PREFIX.unpack_from(start)
        attachment_at = PREFIX_BYTES + header_bytes
        behind = self._size - 4 - length  # bytes of the next frame
        *whole, last = self._pieces
        if length > self._max_frame_bytes or attachment_at > len(start) or not 0 <= behind < len(last):
            return None
        end = len(last) - behind
        attachment = b"".join((memoryview(start)[attachment_at:], *whole, memoryview(last)[:end]))
        self._data, self._size, self._needed = last[end:], behind, PREFIX_BYTES
        self._pieces.clear()
        return Frame(correlation, opcode, flags, start[PREFIX_BYTES:attachment_at], attachment)

    def _split(self, limit: int) -> tuple[list[Frame], int, int]:
        """Return the frames, their end, and the number of bytes that the next one needs."""
        data, at, end = self._data, self._at, len(self._data)
        if native.enabled and type(data) is bytes:
            native_result = native.loops.split_frames(data, at, limit, self._max_frame_bytes, Frame)
            if native_result is not None:
                return native_result
        found: list[Frame] = []
        unpack = _PREFIX.unpack_from
        while end - at >= PREFIX_BYTES and len(found) < limit:
            length, correlation, opcode, flags, header_bytes = unpack(data, at)
            if length > self._max_frame_bytes or length < _AFTER_LENGTH + header_bytes:
                raise _too_long(length, header_bytes, self._max_frame_bytes)
            frame_end = at + 4 + length
            if frame_end > end:
                return found, at, frame_end - at
            header_at = at + PREFIX_BYTES
            attachment_at = header_at + header_bytes
            found.append(
                Frame(correlation, opcode, flags, data[header_at:attachment_at], data[attachment_at:frame_end])
            )
            at = frame_end
        return found, at, PREFIX_BYTES
