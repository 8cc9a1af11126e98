"""One TCP connection that sends and receives frames; both sides use it.

The connection buffers frames and writes them once per tick of the event loop. While the peer does
not read, the connection stops reading, too, so pending requests stay in the peer's memory. It also
pauses reading when one peer's requests take more than ``_MAX_TICK_S``, so others are served.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Final, cast

from litemq.errors import ConnectionLostError, LiteMQError, ProtocolError
from litemq.errors.detached import detached
from litemq.net.frame import Frame, FrameReader, frame_prefix
from litemq.net.frame_budget import FREE_FRAME_BYTES, FrameBudget

__all__ = ["Connection"]

# Reading stops above this: the size of two full pulls.
_MAX_UNSENT_BYTES: Final = 4 << 20
_MIN_FRAMES: Final = 16
_MAX_FRAMES: Final = 256
_MAX_TICK_S: Final = 0.001
_MAX_JOINED_BYTES: Final = 256 << 10  # many small pieces cost more to write than to copy
# Until the answers are known, one frame at a time: the peer may never read them.
_INITIAL_ANSWER_BYTES: Final = _MAX_UNSENT_BYTES

Bytes = bytes | bytearray | memoryview


class Connection(asyncio.Protocol):
    """A framed connection.

    It calls ``on_open`` when the connection is established, ``on_frames`` with the frames that
    arrived together, ``on_unfinished`` when only a part of a frame has arrived, and ``on_lost``
    with the reason when the connection ends.
    """

    def __init__(
        self,
        on_frames: Callable[[Connection, list[Frame]], None],
        on_lost: Callable[[Connection, LiteMQError], None],
        *,
        max_frame_bytes: int,
        on_open: Callable[[Connection], None] = lambda _connection: None,
        on_unfinished: Callable[[], None] = lambda: None,
        budget: FrameBudget | None = None,
    ) -> None:
        """Without a ``budget``, the peer is trusted.

        With one, the peer is a stranger until ``admit``: its frames are short, and read one by one.
        """
        self._on_open = on_open
        self._on_unfinished = on_unfinished
        self._max_frame_bytes = max_frame_bytes
        self._budget = budget
        self._is_stranger = budget is not None
        self._on_frames = on_frames
        self._on_lost = on_lost
        self._reader = FrameReader(min(max_frame_bytes, FREE_FRAME_BYTES) if self._is_stranger else max_frame_bytes)
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._unsent: list[Bytes] = []
        self._unsent_bytes = 0
        self._answer_bytes = _INITIAL_ANSWER_BYTES  # moving average; bounds the frames per delivery
        self._batch_frames = _MAX_FRAMES  # frames per delivery: halved when a delivery takes too long
        self._write_paused = False  # the peer does not read
        self._read_paused = False  # other connections are served first
        self._writable_callbacks: list[Callable[[], None]] = []
        self._reason: LiteMQError | None = None
        self._is_closing = False  # no further frame is delivered
        self._reserved_bytes = 0  # for the unfinished frame, or asked for
        self._waits_for_budget = False
        self._frame_since: float | None = None  # when the unfinished frame began, without pauses
        self._frame_bytes = 0  # that had arrived then
        self._peer = "unknown peer"
        self.heard_at = self._loop.time()

    # Called by the event loop ---------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        stream = cast("asyncio.Transport", transport)  # uvloop's transport does not inherit from it
        stream.set_write_buffer_limits(high=_MAX_UNSENT_BYTES)
        self._transport = stream
        name = stream.get_extra_info("peername")
        self._peer = f"{name[0]}:{name[1]}" if isinstance(name, tuple) else str(name or "unknown peer")
        self._on_open(self)

    def admit(self) -> None:
        """Accept frames of any size from now on: the peer has introduced itself."""
        self._is_stranger = False
        self._reader.limit_frames(self._max_frame_bytes)

    def data_received(self, data: bytes) -> None:
        self.heard_at = self._loop.time()
        self._reader.feed(data)
        self._deliver()
        if self._reader.buffered or self._frame_since is not None or self._reserved_bytes:
            self._track_unfinished()

    def _track_unfinished(self) -> None:
        """Reserve memory for a long unfinished frame, and note when it began."""
        reader, budget = self._reader, self._budget
        if reader.buffered == 0 or reader.buffered >= reader.needed:
            self._frame_since = None
        elif self._frame_since is None:
            self._frame_since, self._frame_bytes = self._loop.time(), reader.buffered
            self._on_unfinished()
        if budget is None:
            return
        is_long = self._frame_since is not None and reader.needed > FREE_FRAME_BYTES and not self._is_closing
        wanted = reader.needed if is_long else 0
        if wanted == self._reserved_bytes:
            return
        if self._reserved_bytes:
            budget.release(self)
        self._reserved_bytes = wanted
        if wanted and not budget.reserve(self, wanted, self._on_reserved):
            self._waits_for_budget = True
            if self._transport is not None:
                self._transport.pause_reading()

    def _on_reserved(self) -> None:
        self._waits_for_budget = False
        self._frame_since, self._frame_bytes = self._loop.time(), self._reader.buffered
        self._resume_reading()

    def frame_rate(self, now: float) -> tuple[float, float] | None:
        """Return the age of the unfinished frame in seconds, and its bytes per second since then.

        ``None`` if there is none, or if this side does not read it.
        """
        if self._frame_since is None or not self.is_torn:
            return None
        age = now - self._frame_since
        return age, (self._reader.buffered - self._frame_bytes) / age if age > 0 else 0.0

    def pause_writing(self) -> None:
        self._write_paused = True
        if self._transport is not None:
            self._transport.pause_reading()

    def resume_writing(self) -> None:
        self._write_paused = False
        self._deliver()
        self._restart_frame()
        self._resume_reading()
        while self._writable_callbacks and self.is_writable:
            self._writable_callbacks.pop(0)()

    def connection_lost(self, error: Exception | None) -> None:
        self._transport = None
        self._unsent.clear()
        self._writable_callbacks.clear()
        if self._budget is not None:
            self._budget.release(self)
        reason = self._reason or ConnectionLostError(f"the connection ended: {error or 'closed by the peer'}")
        self._on_lost(self, reason)

    @property
    def is_open(self) -> bool:
        return self._transport is not None and not self._transport.is_closing()

    @property
    def is_torn(self) -> bool:
        """Whether the peer has sent part of a frame, and this side is ready to read the rest."""
        is_reading = self.is_writable and not self._read_paused and not self._waits_for_budget
        return self._reader.buffered > 0 and is_reading

    @property
    def unfinished_bytes(self) -> int:
        """The size of the unfinished frame; 0 if there is none."""
        return 0 if self._frame_since is None else self._reader.needed

    @property
    def peer(self) -> str:
        """The peer's address, for messages; also after the connection has ended."""
        return self._peer

    @property
    def _may_deliver(self) -> bool:
        transport = self._transport
        return (
            not (self._write_paused or self._read_paused or self._is_closing)
            and self._unsent_bytes < _MAX_UNSENT_BYTES
            and transport is not None
            and not transport.is_closing()
        )

    def _deliver(self) -> None:
        """Pass received frames to ``on_frames`` while send buffer and time of this tick allow."""
        reader = self._reader
        began = deadline = 0.0
        while self._may_deliver:
            before = self._unsent_bytes
            try:
                fitting = (_MAX_UNSENT_BYTES - before) // self._answer_bytes
                is_first = self._is_stranger
                limit = 1 if is_first else max(1, min(self._batch_frames, fitting))
                frames = reader.frames(limit)
            except ProtocolError as error:
                self.close(error)
                return
            if not frames:
                return
            is_short = len(frames) <= _MIN_FRAMES and not reader.has_frame
            if not is_short and not began:
                began = time.monotonic()  # the loop's clock does not advance within a tick
                deadline = began + _MAX_TICK_S
            self._on_frames(self, frames)
            if is_first:
                continue  # its answer says nothing about later ones
            answered = max(0, self._unsent_bytes - before)
            self._answer_bytes = 1 + (self._answer_bytes + answered // len(frames)) // 2
            if is_short:
                return
            now = time.monotonic()
            if now - began > _MAX_TICK_S:
                self._batch_frames = max(_MIN_FRAMES, self._batch_frames // 2)
            elif self._batch_frames < _MAX_FRAMES:
                self._batch_frames *= 2
            began = now
            if now > deadline and reader.buffered:
                self.pause_reading_for(0)

    def pause_reading_for(self, seconds: float) -> None:
        """Stop reading from the peer for ``seconds``: it sends more than this side can handle."""
        if self._transport is not None and not self._transport.is_closing() and not self._read_paused:
            self._read_paused = True
            self._transport.pause_reading()
            self._loop.call_later(seconds, self._end_pause)

    def _end_pause(self) -> None:
        self._read_paused = False
        self._deliver()
        self._restart_frame()
        self._resume_reading()

    def _restart_frame(self) -> None:
        """Reading goes on after a pause: the time of an unfinished frame begins again."""
        self._frame_since = None
        self._track_unfinished()

    def _resume_reading(self) -> None:
        """Resume reading unless answers wait to be written or reading is paused."""
        if (
            self._transport is not None
            and not self._write_paused
            and not self._read_paused
            and not self._waits_for_budget
            and not self._transport.is_closing()
        ):
            self._transport.resume_reading()

    def send(self, correlation: int, opcode: int, flags: int, header: bytes, attachment: Bytes = b"") -> None:
        """Send a frame at the end of this tick. Do nothing if the connection has ended."""
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
        """Send encoded ``frames`` at the end of this tick."""
        if self._transport is None:
            return
        if not self._unsent:
            self._loop.call_soon(self._write)
        self._unsent.append(frames)
        self._unsent_bytes += len(frames)

    @property
    def is_writable(self) -> bool:
        """Whether the peer reads and the send buffer is below its limit."""
        return not self._write_paused and self._unsent_bytes < _MAX_UNSENT_BYTES

    def on_writable(self, resume: Callable[[], None]) -> None:
        """Call ``resume`` once the connection is writable again; never, if it ends first."""
        self._writable_callbacks.append(resume)

    def _write(self) -> None:
        unsent, size = self._unsent, self._unsent_bytes
        self._unsent, self._unsent_bytes = [], 0
        if self._transport is not None and not self._transport.is_closing():
            if size < _MAX_JOINED_BYTES:
                self._transport.write(b"".join(unsent))
            else:
                self._transport.writelines(unsent)
            if not self._write_paused:
                if self._reader.buffered:
                    self._deliver()  # frames that waited for buffer space
                    self._track_unfinished()
                while self._writable_callbacks and self.is_writable:
                    self._writable_callbacks.pop(0)()

    def close(self, reason: LiteMQError | None = None) -> None:
        """Close the connection after writing the pending frames."""
        if reason is not None and self._reason is None:
            self._reason = detached(reason)
        self._is_closing = True
        if self._transport is not None:
            self._write()
            if self._transport is not None:
                self._transport.close()

    def abort(self, reason: LiteMQError) -> None:
        """Close the connection at once, without writing pending frames."""
        self._reason = self._reason or detached(reason)
        self._is_closing = True
        if self._transport is not None:
            self._transport.abort()
