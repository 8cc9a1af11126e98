"""The asyncio client connection to one server, with many requests in flight."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from itertools import count
from typing import Final, NamedTuple

from litemq.errors import ConnectionLostError, LiteMQError, ProtocolError
from litemq.net.connection import Bytes, Connection
from litemq.net.failures import decode_failure
from litemq.net.frame import PROTOCOL_VERSION, Flag, Frame
from litemq.net.request_channel import AnswerCallback, PartCallback, RequestChannel
from litemq.proto.wire_pb2 import Hello, HelloAnswer, Opcode

__all__ = ["NO_ATTEMPT", "Attempt", "Peer"]

_CORRELATIONS: Final = 1 << 32
_MAX_FRAME_BYTES: Final = 128 << 20
_ANSWER: Final = int(Flag.ANSWER)  # plain ints: enum members compare several times slower
_ERROR: Final = int(Flag.ERROR)
_PART: Final = int(Flag.ANSWER | Flag.MORE)


class Attempt(NamedTuple):
    """One of the attempts to connect with which a lasting connection to a server is kept up.

    The server ends connections of earlier attempts, and handles nothing more that was sent on them.
    So requests of a later connection are never overtaken by requests that the client has given up.
    """

    lasting_id: bytes
    number: int


NO_ATTEMPT: Final = Attempt(b"", 0)  # a connection for its own sake: the server ends no other


class Peer(RequestChannel):
    """A connection to one server, which sends PING every ``ping_interval`` seconds."""

    def __init__(self, address: str, on_lost: Callable[[LiteMQError], None]) -> None:
        self.address = address
        self._on_lost = on_lost
        self._loop = asyncio.get_running_loop()
        self._connection: Connection | None = None
        self._numbers = count(1)
        self._pending: dict[int, AnswerCallback] = {}
        self._parts: dict[int, PartCallback] = {}
        self._pinging: asyncio.TimerHandle | None = None
        self._ping_interval = 0.0
        self._ended = False  # further requests would never be answered
        self.limits = HelloAnswer()

    @classmethod
    async def connect(
        cls,
        host: str,
        port: int,
        *,
        client_id: str,
        timeout: float = 5.0,  # noqa: ASYNC109  every call in this library takes one
        ping_interval: float = 30.0,
        tls: ssl.SSLContext | None = None,
        on_lost: Callable[[LiteMQError], None] = lambda _error: None,
        reads_replica: bool = False,
        attempt: Attempt = NO_ATTEMPT,
    ) -> Peer:
        """Connect and send HELLO. Raise ``ConnectionLostError`` if the server is unreachable.

        If ``reads_replica``, a follower serves reads on this connection.
        """
        peer = cls(f"{host}:{port}", on_lost)
        try:
            async with asyncio.timeout(timeout):
                await peer._greet(host, port, tls, client_id, attempt, reads_replica=reads_replica)
        except BaseException as error:
            peer._on_lost = lambda _reason: None  # the caller gets ``error``, which says why
            peer.close()  # a cancelled connect must not leak its socket
            if isinstance(error, TimeoutError):
                raise ConnectionLostError(f"{peer.address} did not answer within {timeout:g} s") from None
            if isinstance(error, OSError | UnicodeError):  # UnicodeError: an invalid host name
                reason = getattr(error, "strerror", None) or error
                raise ConnectionLostError(f"cannot reach {peer.address}: {reason}") from error
            raise
        peer._ping_interval = ping_interval
        peer._pinging = peer._loop.call_later(ping_interval, peer._ping)
        return peer

    async def _greet(
        self,
        host: str,
        port: int,
        tls: ssl.SSLContext | None,
        client_id: str,
        attempt: Attempt,
        *,
        reads_replica: bool,
    ) -> None:
        _, connection = await self._loop.create_connection(
            lambda: Connection(self._on_frames, self._on_connection_lost, max_frame_bytes=_MAX_FRAME_BYTES),
            host,
            port,
            ssl=tls,
        )
        self._connection = connection
        hello = Hello(
            least_version=PROTOCOL_VERSION,
            most_version=PROTOCOL_VERSION,
            client_id=client_id,
            reads_replica=reads_replica,
            lasting_id=attempt.lasting_id,
            attempt=attempt.number,
        )
        answer = await self.ask(Opcode.HELLO, hello.SerializeToString())
        self.limits = HelloAnswer.FromString(answer.header)

    @property
    def is_open(self) -> bool:
        return self._connection is not None and self._connection.is_open

    @property
    def in_flight(self) -> int:
        """The number of requests without an answer."""
        return len(self._pending)

    def call(
        self,
        opcode: int,
        header: bytes,
        attachment: Bytes,
        answered: AnswerCallback,
        on_part: PartCallback | None = None,
    ) -> None:
        connection = self._connection
        if connection is None or self._ended:
            lost = ConnectionLostError(f"not connected to {self.address}")
            self._loop.call_soon(answered, b"", b"", lost)  # in a later tick, like every answer
            return
        number = next(self._numbers) % _CORRELATIONS
        self._pending[number] = answered
        if on_part is not None:
            self._parts[number] = on_part
        connection.send(number, opcode, 0, header, attachment)

    def _on_frames(self, connection: Connection, frames: list[Frame]) -> None:
        pending, parts = self._pending, self._parts
        for correlation, _, flags, header, attachment in frames:
            if parts and correlation in parts:
                if flags == _PART:
                    parts[correlation](header, attachment)
                    continue
                del parts[correlation]
            answered = pending.pop(correlation, None)
            if not flags & _ANSWER or answered is None:
                connection.abort(ProtocolError(f"{self.address} answered an unknown request (number {correlation})"))
                return
            if flags & _ERROR:
                answered(b"", b"", decode_failure(header))
            else:
                answered(header, attachment, None)

    def _on_connection_lost(self, _connection: Connection, reason: LiteMQError) -> None:
        self._fail(reason)
        if self._pinging is not None:
            self._pinging.cancel()
        self._on_lost(reason)

    def _fail(self, reason: LiteMQError) -> None:
        self._ended = True
        pending, self._pending, self._parts = self._pending, {}, {}
        for answered in pending.values():
            answered(b"", b"", ConnectionLostError(f"{self.address}: {reason}"))

    def _ping(self) -> None:
        if self.is_open:
            self.ask(Opcode.PING, b"").add_done_callback(lambda answer: answer.cancelled() or answer.exception())
            self._pinging = self._loop.call_later(self._ping_interval, self._ping)

    def close(self) -> None:
        """Close the connection after writing pending requests. Unanswered requests fail."""
        if self._pinging is not None:
            self._pinging.cancel()
        if self._connection is not None:
            self._connection.close(ConnectionLostError("this side closed the connection"))

    def abort(self, reason: LiteMQError) -> None:
        """Close the connection at once. All unanswered requests have failed when this returns."""
        if self._connection is not None:
            self._connection.abort(reason)
        self._fail(reason)
