"""One TCP connection, seen from either side: frames in, frames out.

What is to be sent is gathered, and written once a turn of the event loop. While the peer does not read what it was sent, nothing more is
taken from it: its requests wait in its own memory, not in ours. Nor is it while it has more to ask than a moment's work: then others have
their turn first.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Final, cast

from litemq.errors import ConnectionLostError, LiteMQError, ProtocolError
from litemq.net.frame import Frame, FrameReader, frame_prefix

__all__ = ["Connection"]

# So much may wait to be sent before reading stops: a full pull, and as much again.
_MAX_UNSENT_BYTES: Final = 4 << 20
_MIN_FRAMES: Final = 16
_MAX_FRAMES: Final = 256
_MAX_TURN_S: Final = 0.001
_MAX_JOINED_BYTES: Final = 256 << 10  # many small pieces cost more to write than to copy
_INITIAL_ANSWER_BYTES: Final = _MAX_UNSENT_BYTES // 16

Bytes = bytes | bytearray | memoryview


class Connection(asyncio.Protocol):
    """Calls ``on_frames`` with the frames that arrived together, and ``on_lost`` with the reason when the connection ends."""

    def __init__(
        self,
        on_frames: Callable[[Connection, list[Frame]], None],
        on_lost: Callable[[Connection, LiteMQError], None],
        *,
        max_frame_bytes: int,
        on_open: Callable[[Connection], None] = lambda _connection: None,
    ) -> None:
        self._on_open = on_open
        self._on_frames = on_frames
        self._on_lost = on_lost
        self._reader = FrameReader(max_frame_bytes)
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._unsent: list[Bytes] = []
        self._unsent_bytes = 0
        self._answer_bytes = _INITIAL_ANSWER_BYTES  # moving average: it bounds how many requests are delivered at once
        self._at_once = _MAX_FRAMES  # requests per delivery: halved when a delivery takes too long
        self._write_paused = False  # the peer does not read
        self._read_paused = False  # others have their turn
        self._waiting_for_room: list[Callable[[], None]] = []  # callbacks for when there is room again
        self._reason: LiteMQError | None = None
        self.heard_at = self._loop.time()

    # The event loop calls these -----------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        stream = cast("asyncio.Transport", transport)  # uvloop's is one, but not by inheritance
        stream.set_write_buffer_limits(high=_MAX_UNSENT_BYTES)
        self._transport = stream
        self._on_open(self)

    def data_received(self, data: bytes) -> None:
        self.heard_at = self._loop.time()
        self._reader.feed(data)
        self._deliver()

    def pause_writing(self) -> None:
        self._write_paused = True
        if self._transport is not None:
            self._transport.pause_reading()

    def resume_writing(self) -> None:
        self._write_paused = False
        self._deliver()
        self._resume_reading()
        while self._waiting_for_room and self.has_room:
            self._waiting_for_room.pop(0)()

    def connection_lost(self, error: Exception | None) -> None:
        self._transport = None
        self._unsent.clear()
        self._waiting_for_room.clear()
        reason = self._reason or ConnectionLostError(f"the connection ended: {error or 'the other side closed it'}")
        self._on_lost(self, reason)

    # ---------------------------------------------------------------------------------------------------------------------------

    @property
    def is_open(self) -> bool:
        return self._transport is not None and not self._transport.is_closing()

    @property
    def is_torn(self) -> bool:
        """Whether the peer has begun a frame that has not come to its end, and nothing here keeps it from going on."""
        return self._reader.buffered > 0 and self.has_room and not self._read_paused

    @property
    def peer(self) -> str:
        """Who is at the other end."""
        name = self._transport.get_extra_info("peername") if self._transport is not None else None
        return f"{name[0]}:{name[1]}" if isinstance(name, tuple) else str(name or "nobody")

    @property
    def _may_deliver(self) -> bool:
        return self.has_room and not self._read_paused and self.is_open

    def _deliver(self) -> None:
        """Hand over what has arrived, as long as the answers find room, and others need not wait for long."""
        began = time.monotonic()  # the loop's own clock stands still meanwhile
        until = began + _MAX_TURN_S
        while self._may_deliver:
            before = self._unsent_bytes
            try:
                frames = self._reader.frames(max(1, min(self._at_once, (_MAX_UNSENT_BYTES - before) // self._answer_bytes)))
            except ProtocolError as error:
                self.close(error)
                return
            if not frames:
                return
            self._on_frames(self, frames)
            answered = max(0, self._unsent_bytes - before)
            self._answer_bytes = 1 + (self._answer_bytes + answered // len(frames)) // 2
            now = time.monotonic()
            if now - began > _MAX_TURN_S:
                self._at_once = max(_MIN_FRAMES, self._at_once // 2)
            elif self._at_once < _MAX_FRAMES:
                self._at_once *= 2
            began = now
            if now > until and self._reader.buffered:
                self.pause_reading_for(0)

    def pause_reading_for(self, seconds: float) -> None:
        """Read nothing from the peer for ``seconds``: it asks for more than this side can do."""
        if self._transport is not None and not self._transport.is_closing() and not self._read_paused:
            self._read_paused = True
            self._transport.pause_reading()
            self._loop.call_later(seconds, self._end_pause)

    def _end_pause(self) -> None:
        self._read_paused = False
        self._deliver()
        self._resume_reading()

    def _resume_reading(self) -> None:
        """Read from the peer again, unless its answers wait or reading is paused."""
        if self._transport is not None and not self._write_paused and not self._read_paused and not self._transport.is_closing():
            self._transport.resume_reading()

    def send(self, correlation: int, opcode: int, flags: int, header: bytes, attachment: Bytes = b"") -> None:
        """Send a frame, together with all others of this turn. Once the connection has ended, nothing happens."""
        if self._transport is None:
            return
        if not self._unsent:
            self._loop.call_soon(self._write)
        head = frame_prefix(correlation, opcode, flags, len(header), len(attachment)) + header
        self._unsent.append(head)
        self._unsent_bytes += len(head) + len(attachment)
        if attachment:
            self._unsent.append(attachment)

    def send_frames(self, frames: bytes) -> None:
        """Send frames that are ready, together with all others of this turn."""
        if self._transport is None:
            return
        if not self._unsent:
            self._loop.call_soon(self._write)
        self._unsent.append(frames)
        self._unsent_bytes += len(frames)

    @property
    def has_room(self) -> bool:
        """Whether what is sent now will go out soon: the peer reads, and little waits."""
        return not self._write_paused and self._unsent_bytes < _MAX_UNSENT_BYTES

    def when_room(self, resume: Callable[[], None]) -> None:
        """Call ``resume`` once there is room again; never, if the connection ends first."""
        self._waiting_for_room.append(resume)

    def _write(self) -> None:
        unsent, size = self._unsent, self._unsent_bytes
        self._unsent, self._unsent_bytes = [], 0
        if self._transport is not None and not self._transport.is_closing():
            if size < _MAX_JOINED_BYTES:
                self._transport.write(b"".join(unsent))
            else:
                self._transport.writelines(unsent)
            if not self._write_paused:
                self._deliver()  # what waited for room
                while self._waiting_for_room and self.has_room:
                    self._waiting_for_room.pop(0)()

    def close(self, reason: LiteMQError | None = None) -> None:
        """End the connection once what was sent before has gone out."""
        self._reason = self._reason or reason
        if self._transport is not None:
            self._write()
            if self._transport is not None:
                self._transport.close()

    def abort(self, reason: LiteMQError) -> None:
        """End the connection now."""
        self._reason = self._reason or reason
        if self._transport is not None:
            self._transport.abort()
