"""The frame server: accepts connections, performs the HELLO handshake and passes requests on.

A connection must send HELLO as its first frame within ``handshake_timeout_ms``. The server closes
connections that are silent for ``idle_timeout_ms``; idle clients send PING.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import ipaddress
import logging
import ssl
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from google.protobuf.message import DecodeError

from litemq.errors import (
    AddressInUseError,
    ConnectionLostError,
    InvalidArgumentError,
    LiteMQError,
    OverloadedError,
    ProtocolError,
    UnsupportedVersionError,
)
from litemq.net.connection import Bytes, Connection
from litemq.net.failures import encode_failure
from litemq.net.frame import PROTOCOL_VERSION, Flag, Frame
from litemq.net.frame_budget import FREE_FRAME_BYTES, FrameBudget
from litemq.net.sent_answers import pack_sent_answers
from litemq.proto.wire_pb2 import Hello, HelloAnswer, Opcode

__all__ = ["FrameServer", "ServerLimits", "Session"]

_ANSWER: Final = int(Flag.ANSWER)
_PART: Final = int(Flag.ANSWER | Flag.MORE)
_PING: Final = int(Opcode.PING)  # a plain int: compared with every request's opcode
_LOG = logging.getLogger(__name__)
_OVERLOAD_PAUSE_S: Final = 0.02
_MIN_RATE: Final = 64 << 10  # bytes per second that a frame must arrive with
_CONTENDED_RATE: Final = 1 << 20  # the same while others wait for memory
_CONTENDED_AFTER_S: Final = 2.0
_MAX_LASTING_ID: Final = 16
_MAX_LOGGED: Final = 500  # characters of a reason, which may quote the client


@dataclass(frozen=True, slots=True)
class ServerLimits:
    """The limits of a server for its clients."""

    max_frame_bytes: int = 16 << 20
    max_connections: int = 10_000
    max_strangers: int = 1_000  # connections that have not sent HELLO yet
    max_unfinished_bytes: int = 128 << 20  # of the frames that arrive at the same time
    handshake_timeout_ms: int = 5_000  # also for the next bytes of an incomplete frame
    idle_timeout_ms: int = 120_000


class Session:
    """One client connection; ``hello`` is ``None`` until the handshake."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self.hello: Hello | None = None
        self.begun_at = connection.heard_at

    @property
    def peer(self) -> str:
        return self._connection.peer

    @property
    def client_id(self) -> str:
        return self.hello.client_id if self.hello is not None else ""

    @property
    def is_writable(self) -> bool:
        return self._connection.is_writable

    def on_writable(self, resume: Callable[[], None]) -> None:
        self._connection.on_writable(resume)

    def answer(self, frame: Frame, header: bytes, attachment: Bytes = b"", *, more: bool = False) -> None:
        """Answer a request. Do nothing if the client has disconnected."""
        self._connection.send(frame[0], frame[1], _PART if more else _ANSWER, header, attachment)

    def answer_sent(self, correlations: list[int], queue_offsets: list[int], store_timestamp: int) -> None:
        """Answer many SEND requests at once."""
        self._connection.send_frames(pack_sent_answers(correlations, queue_offsets, store_timestamp))

    def refuse(self, frame: Frame, error: LiteMQError) -> None:
        """Answer a request with ``error``; on overload, stop reading from the client briefly."""
        if isinstance(error, OverloadedError):
            self._connection.pause_reading_for(_OVERLOAD_PAUSE_S)
        self._connection.send(frame[0], frame[1], Flag.ANSWER | Flag.ERROR, encode_failure(error))

    def close(self, reason: LiteMQError) -> None:
        """Close the connection after writing the pending answers."""
        self._connection.close(reason)


class FrameServer:
    """A TCP server.

    It calls ``handle`` with the requests of a session that arrived together, and
    ``on_session_end`` when a session ends.
    """

    def __init__(
        self,
        handle: Callable[[Session, list[Frame]], None],
        *,
        software: str,
        limits: ServerLimits | None = None,
        on_session_end: Callable[[Session], None] = lambda _session: None,
    ) -> None:
        self._handle = handle
        self._on_session_end = on_session_end
        self._software = software
        self._limits = limits or ServerLimits()
        self._sessions: dict[Connection, Session] = {}
        self._strangers: dict[Connection, None] = {}  # without HELLO, the oldest first
        self._lasting: dict[bytes, Connection] = {}  # by ``Hello.lasting_id``
        self._budget = FrameBudget(max(self._limits.max_unfinished_bytes, self._limits.max_frame_bytes + 4))
        self._has_unfinished = asyncio.Event()  # a handshake or a frame has begun
        self._server: asyncio.Server | None = None
        self._sweeping: asyncio.Task[None] | None = None

    @property
    def sessions(self) -> int:
        """The number of connections."""
        return len(self._sessions)

    async def start(
        self, host: str, port: int, *, insecure: bool = False, tls: ssl.SSLContext | None = None
    ) -> tuple[str, int]:
        """Listen; return host and port. Port 0 chooses a free port.

        Raise unless ``host`` is a loopback address or ``insecure`` is set.
        """
        if not insecure and not is_loopback(host):
            raise InvalidArgumentError(
                f"listening on {host} is insecure: LiteMQ does not authenticate clients yet. "
                "Listen on 127.0.0.1, or pass --insecure if only trusted clients can reach this network"
            )
        loop = asyncio.get_running_loop()
        try:
            handshake = self._limits.handshake_timeout_ms / 1000 if tls is not None else None
            self._server = await loop.create_server(
                self._connect, host, port, ssl=tls, ssl_handshake_timeout=handshake, backlog=1024
            )
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                raise AddressInUseError(
                    f"cannot listen on {host}:{port}: another program uses the port. Stop it, or choose "
                    "another port with --port"
                ) from error
            raise InvalidArgumentError(f"cannot listen on {host}:{port}: {error.strerror or error}") from error
        self._sweeping = asyncio.create_task(self._sweep())
        address = self._server.sockets[0].getsockname()
        return str(address[0]), int(address[1])

    def _connect(self) -> Connection:
        return Connection(
            self._on_frames,
            self._on_lost,
            max_frame_bytes=self._limits.max_frame_bytes,
            on_open=self._begin,
            on_unfinished=self._has_unfinished.set,
            budget=self._budget,
        )

    def _begin(self, connection: Connection) -> None:
        # Not in ``_connect``: if a TLS handshake fails, ``_on_lost`` is never called.
        self._sessions[connection] = Session(connection)
        self._strangers[connection] = None
        self._has_unfinished.set()
        if len(self._strangers) > self._limits.max_strangers:
            oldest = next(iter(self._strangers))
            del self._strangers[oldest]
            oldest.abort(ConnectionLostError("too many connections have not sent HELLO"))

    def _on_lost(self, connection: Connection, reason: LiteMQError) -> None:
        self._strangers.pop(connection, None)
        session = self._sessions.pop(connection, None)
        if session is not None:
            lasting_id = session.hello.lasting_id if session.hello is not None else b""
            if self._lasting.get(lasting_id) is connection:
                del self._lasting[lasting_id]
            if not isinstance(reason, ConnectionLostError):
                _LOG.warning("closed the connection from %s: %s", session.peer, str(reason)[:_MAX_LOGGED])
            self._on_session_end(session)

    def _on_frames(self, connection: Connection, frames: list[Frame]) -> None:
        session = self._sessions[connection]
        if session.hello is None:
            first, *frames = frames
            try:
                self._greet(connection, session, first)
            except LiteMQError as error:
                session.refuse(first, error)
                connection.close(error)
                return
        requests = [frame for frame in frames if frame[1] != _PING]
        if len(requests) < len(frames):
            for frame in frames:
                if frame[1] == _PING:
                    session.answer(frame, b"")
        if requests:
            self._handle(session, requests)

    def _greet(self, connection: Connection, session: Session, frame: Frame) -> None:
        if frame.opcode != Opcode.HELLO or frame.flags:
            raise ProtocolError(f"opcode {frame.opcode} was sent before HELLO")
        if self.sessions - len(self._strangers) >= self._limits.max_connections:
            raise ConnectionLostError(
                f"the server has reached its limit of {self._limits.max_connections} connections: retry later"
            )
        try:
            hello = Hello.FromString(frame.header)
        except DecodeError as error:
            raise ProtocolError(f"the header of HELLO cannot be read: {error}") from error
        if not hello.least_version <= PROTOCOL_VERSION <= hello.most_version:
            raise UnsupportedVersionError(
                f"this server supports protocol version {PROTOCOL_VERSION}, "
                f"the client {hello.least_version} to {hello.most_version}"
            )
        if hello.lasting_id:
            self._end_earlier(hello)
            self._lasting[hello.lasting_id] = connection
        session.hello = hello
        self._strangers.pop(connection, None)
        connection.admit()
        limits = self._limits
        answer = HelloAnswer(version=PROTOCOL_VERSION, max_frame_bytes=limits.max_frame_bytes, software=self._software)
        session.answer(frame, answer.SerializeToString())

    def _end_earlier(self, hello: Hello) -> None:
        """End the connection that the client has given up before it sent ``hello``.

        What it sent there must not be handled later than what it sends here. It may lie in this
        process's buffers, unread, as long as this process was stopped.
        """
        if len(hello.lasting_id) > _MAX_LASTING_ID:
            raise ProtocolError(
                f"lasting_id has {len(hello.lasting_id)} bytes: at most {_MAX_LASTING_ID} bytes are allowed"
            )
        known = self._lasting.get(hello.lasting_id)
        if known is None:
            return
        latest = self._sessions[known].hello
        if latest is not None and latest.attempt >= hello.attempt:
            raise ConnectionLostError("the client has connected again since this attempt")
        known.abort(ConnectionLostError("the client has connected again"))

    async def _sweep(self) -> None:
        """Close connections that sent no HELLO, that stopped inside a frame, or that are idle."""
        loop = asyncio.get_running_loop()
        handshake, idle = self._limits.handshake_timeout_ms / 1000, self._limits.idle_timeout_ms / 1000
        while True:
            if not self._strangers and not any(connection.unfinished_bytes for connection in self._sessions):
                self._has_unfinished.clear()
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(idle / 4):
                        await self._has_unfinished.wait()
            await asyncio.sleep(min(handshake, idle) / 4)
            now = loop.time()
            for connection, session in list(self._sessions.items()):
                if session.hello is None and now - session.begun_at > handshake:
                    connection.abort(ProtocolError(f"no HELLO arrived within {handshake:g} s"))
                elif connection.is_torn and now - connection.heard_at > handshake:
                    connection.abort(ProtocolError(f"a frame was not continued within {handshake:g} s"))
                elif self._is_too_slow(connection, now):
                    connection.abort(
                        ProtocolError(f"a frame of {connection.unfinished_bytes} bytes arrived too slowly")
                    )
                elif now - connection.heard_at > idle:
                    connection.abort(ConnectionLostError(f"{session.peer} was idle for {idle:g} s"))

    def _is_too_slow(self, connection: Connection, now: float) -> bool:
        """Whether an unfinished frame is late, or slow while others wait for memory."""
        progress = connection.frame_rate(now)
        if progress is None:
            return False
        age, rate = progress
        if self._budget.is_contended and age > _CONTENDED_AFTER_S and rate < _CONTENDED_RATE:
            return connection.unfinished_bytes > FREE_FRAME_BYTES
        return age > self._limits.handshake_timeout_ms / 1000 + connection.unfinished_bytes / _MIN_RATE

    async def close(self) -> None:
        """Stop listening, write the pending answers and close all connections."""
        if self._sweeping is not None:
            self._sweeping.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._sweeping
        if self._server is not None:
            self._server.close()
        for connection in list(self._sessions):
            connection.close(ConnectionLostError("the server is stopping"))
        # Wait at most a second: a client may never read its answers.
        for _ in range(20):
            if not self._sessions:
                break
            await asyncio.sleep(0.05)
        for connection in list(self._sessions):
            connection.abort(ConnectionLostError("the server has stopped"))


def is_loopback(host: str) -> bool:
    """Return whether ``host`` is reachable from this machine only."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
