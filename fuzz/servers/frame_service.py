"""A frame server under the fuzzer: connections that send any bytes, in any pieces.

The peers of the connections are in this process. They stop reading, fall silent, disconnect, and
send frames that are long, slow or not frames at all.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any, Final

from fuzz.servers.choices import Choices
from fuzz.servers.client import Tally
from fuzz.servers.request_maker import RequestMaker
from fuzz.servers.virtual_loop import VirtualLoop

from litemq.errors import OverloadedError, ProtocolError
from litemq.net.frame import Flag, Frame, FrameReader, frame_prefix
from litemq.net.frame_budget import FREE_FRAME_BYTES
from litemq.net.server import FrameServer, ServerLimits, Session
from litemq.proto.wire_pb2 import Hello, Opcode

__all__ = ["FrameService"]

_MAX_STEPS: Final = 64
_MAX_PEERS: Final = 4
_SECONDS: Final = (0.001, 0.02, 0.5, 1.0, 3.0, 6.0, 20.0, 130.0)
_LIMITS: Final = ServerLimits(
    max_frame_bytes=192 << 10, max_connections=_MAX_PEERS + 1, max_strangers=2, max_unfinished_bytes=192 << 10
)
_LARGE: Final = bytes(300 << 10)  # an answer: a few of them fill the send buffer
_PIECES: Final = (1, 3, 16, 17, 100, 4096, 65_536, 1 << 20)
_READ_BYTES: Final = 256 << 10  # as asyncio's sockets
_PAUSE_S: Final = 0.03  # longer than the server stops reading from a client that it has refused
_MAX_PAUSES: Final = 2_000
_TOO_SLOW_S: Final = 30.0  # the server closes a connection whose frame takes longer


class _Peer(asyncio.Transport):
    """The other end of a connection, and the transport between."""

    def __init__(self, loop: VirtualLoop, tally: Tally) -> None:
        super().__init__()
        self._loop = loop
        self._tally = tally
        assert loop.connect is not None
        self._protocol = loop.connect()
        self._unsent = bytearray()  # to the server, which does not read
        self._unread = 0  # bytes of answers that this side has not read yet
        self._high = 64 << 10
        self._is_server_reading = True
        self._is_server_paused = False
        self.reads_answers = True
        self.is_lost = False
        self._is_closing = False
        self._answers = FrameReader(16 << 20)
        self._requests = FrameReader(_LIMITS.max_frame_bytes)  # the same bytes as the server's
        self.sent = 0  # whole frames
        self.answered = 0
        self.sent_nonsense = False
        self._protocol.connection_made(self)

    # As the fuzzer uses it ------------------------------------------------------------------------

    def send(self, data: bytes, piece: int) -> None:
        """Send ``data`` in pieces of ``piece`` bytes, as far as the server reads."""
        if self._is_closing:
            return
        self._requests.feed(data)
        try:
            while frames := self._requests.frames(16):
                self.sent += len(frames)
        except ProtocolError:
            self.sent_nonsense = True
        for at in range(0, len(data), max(piece, len(data) // 512 + 1)):
            self._unsent += data[at : at + max(piece, len(data) // 512 + 1)]
            self._pump()

    def read(self, *, is_reading: bool) -> None:
        """Read the answers from now on, or stop."""
        self.reads_answers = is_reading
        self._drain()

    @property
    def is_served(self) -> bool:
        """Whether the connection has ended, or every whole frame has its answer."""
        return self.is_lost or (self.answered == self.sent and not self.sent_nonsense)

    def hang_up(self) -> None:
        """End the connection, as a client that dies."""
        self._lose(None)

    def _pump(self) -> None:
        while self._unsent and self._is_server_reading and not self._is_closing:
            data = bytes(self._unsent[:_READ_BYTES])
            del self._unsent[:_READ_BYTES]
            self._protocol.data_received(data)

    def _drain(self) -> None:
        if self.reads_answers and self._unread:
            self._unread = 0
        if self._is_server_paused and not self._unread and not self.is_lost:
            self._is_server_paused = False
            self._protocol.resume_writing()

    def _lose(self, error: Exception | None) -> None:
        if not self.is_lost:
            self.is_lost = self._is_closing = True
            self._protocol.connection_lost(error)

    # As the server uses it ------------------------------------------------------------------------

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:  # noqa: ARG002
        self._high = high or 0

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return ("127.0.0.1", 1) if name == "peername" else default

    def is_closing(self) -> bool:
        return self._is_closing

    def pause_reading(self) -> None:
        self._is_server_reading = False

    def resume_reading(self) -> None:
        if not self._is_server_reading:
            self._is_server_reading = True
            self._loop.call_soon(self._pump)

    def write(self, data: bytes | bytearray | memoryview) -> None:
        assert not self.is_lost, "the server writes after the end of the connection"
        self._answers.feed(bytes(data))
        while frames := self._answers.frames(64):
            for frame in frames:
                assert frame.flags & Flag.ANSWER
                self.answered += 1
                ends = self._tally.refused if frame.flags & Flag.ERROR else self._tally.answered
                ends[frame.opcode] += 1
        if not self.reads_answers:
            self._unread += len(data)
            if self._unread > self._high and not self._is_server_paused:
                self._is_server_paused = True
                self._protocol.pause_writing()

    def writelines(self, pieces: Any) -> None:
        self.write(b"".join(pieces))

    def close(self) -> None:
        if not self._is_closing:
            self._is_closing = True
            self._loop.call_soon(self._lose, None)

    def abort(self) -> None:
        self.close()


class FrameService:
    """A frame server that answers at once, later, with errors or with large answers."""

    def __init__(self, loop: VirtualLoop, tally: Tally) -> None:
        self._loop = loop
        self._tally = tally
        self._maker = RequestMaker(loop.clock)
        self._server = FrameServer(self._handle, software="fuzzed", limits=_LIMITS, on_session_end=self._on_end)
        self._ended = 0
        self._begun = 0
        self._peers: list[_Peer] = []
        self.opcodes = [int(Opcode.HELLO), int(Opcode.PING)]
        loop.play(self._server.start("127.0.0.1", 0))

    def _on_end(self, _session: Session) -> None:
        self._ended += 1

    def _handle(self, session: Session, frames: list[Frame]) -> None:
        for frame in frames:
            self._answer(session, frame)

    def _answer(self, session: Session, frame: Frame) -> None:
        how = frame.opcode % 7
        if how == 0:
            session.answer(frame, b"")
        elif how == 1:
            session.answer(frame, frame.header, frame.attachment)
        elif how == 2:
            session.refuse(frame, OverloadedError("retry later", 100))
        elif how == 3:
            session.answer(frame, b"", _LARGE)
        elif how == 4:
            self._loop.call_later(0.01, session.answer, frame, b"later")
        elif how == 5 and not session.is_writable:
            session.on_writable(partial(self._answer, session, frame))
        else:
            session.answer_sent([frame.correlation], [7], 9)

    def play(self, data: bytes) -> None:
        """Play one input: each begins with one new connection."""
        self._loop.play(self._play(Choices(data)))

    async def _play(self, choices: Choices) -> None:
        self._peers = []
        peer = self._connect()
        piece = 1 << 20
        for _ in range(_MAX_STEPS):
            if choices.is_over:
                break
            step = choices.byte() % 16
            if step < 2:
                peer.send(choices.raw(choices.byte()), piece)
            elif step < 4:
                peer.send(self._hello(choices), piece)
            elif step < 8:
                header, attachment = choices.raw(choices.byte() % 32), choices.raw(choices.byte() % 32)
                opcode = choices.byte()
                if opcode in self.opcodes and not header:
                    self._tally.parsable[opcode] += 1
                head = frame_prefix(choices.byte(), opcode, 0, len(header), len(attachment))
                peer.send((head + header + attachment) * choices.pick((1, 1, 1, 40)), piece)
            elif step == 8:
                size = choices.pick((0, FREE_FRAME_BYTES, FREE_FRAME_BYTES + 1, 100_000, 190_000, 1 << 20))
                peer.send(frame_prefix(1, 7, 0, choices.byte(), size), piece)
            elif step < 11:
                peer.send(bytes(choices.pick((1, 16, 256, 4096, FREE_FRAME_BYTES, 100_000, 190_000))), piece)
            elif step == 11:
                await self._loop.advance(choices.pick(_SECONDS))
            elif step == 12:
                peer.read(is_reading=not peer.reads_answers)
            elif step == 13:
                is_new = choices.byte() % 2 == 0 and len(self._peers) < _MAX_PEERS
                peer = self._connect() if is_new else choices.pick(self._peers)
            elif step == 14:
                piece = choices.pick(_PIECES)
            else:
                peer.hang_up()
            await self._loop.settle()
        await self._check()

    def _connect(self) -> _Peer:
        peer = _Peer(self._loop, self._tally)
        self._peers.append(peer)
        self._begun += 1
        return peer

    def _hello(self, choices: Choices) -> bytes:
        hello = Hello(least_version=1, most_version=1, client_id="c")
        if choices.byte() < 64:
            self._maker.fill(hello, choices)
        self._tally.parsable[int(Opcode.HELLO)] += 1
        header = hello.SerializeToString()
        return frame_prefix(0, Opcode.HELLO, 0, len(header)) + header

    async def _check(self) -> None:
        """Every whole frame of a living connection has one answer, and no memory stays reserved."""
        for peer in self._peers:
            peer.read(is_reading=True)
        await self._loop.settle()
        for _ in range(_MAX_PAUSES):
            if all(peer.is_served for peer in self._peers):
                break
            await self._loop.advance(_PAUSE_S)
        for _ in range(8):
            await self._loop.advance(_TOO_SLOW_S / 8)
        for peer in self._peers:
            if not peer.is_lost:
                assert not peer.sent_nonsense, "the server keeps a connection that sent no frame"
                assert peer.answered == peer.sent, f"{peer.sent} requests have {peer.answered} answers"
        await self._check_budget()
        for peer in self._peers:
            peer.hang_up()
        await self._loop.settle()
        assert self._server.sessions == 0
        assert self._begun == self._ended, f"{self._begun} sessions began, {self._ended} have ended"

    async def _check_budget(self) -> None:
        """A new connection can send the longest frame: no other has an unfinished one."""
        peer = self._connect()
        hello = Hello(least_version=1, most_version=1).SerializeToString()
        peer.send(frame_prefix(0, Opcode.HELLO, 0, len(hello)) + hello, 1 << 20)
        await self._loop.settle()
        long = frame_prefix(1, 7, 0, 0, _LIMITS.max_frame_bytes - 12) + bytes(_LIMITS.max_frame_bytes - 12)
        peer.send(long[:100_000], 1 << 20)
        await self._loop.settle()
        peer.send(long[100_000:], 1 << 20)
        await self._loop.settle()
        assert peer.answered == 2, "a long frame finds no memory, although no other is unfinished"

    def close(self) -> None:
        """Stop the server."""
        self._loop.play(self._close())

    async def _close(self) -> None:
        await self._server.close()
        await self._loop.settle()
