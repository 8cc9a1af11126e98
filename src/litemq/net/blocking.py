"""A blocking client connection, for processes without an event loop such as a Spark task.

Requests can be pipelined: ``ask`` sends one without waiting for the answers to earlier requests.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterable
from itertools import count
from typing import Final, NamedTuple, Self

import numpy as np

from litemq.errors import ConnectionLostError, LiteMQError, ProtocolError, RequestTimeoutError
from litemq.net.connection import Bytes
from litemq.net.failures import decode_failure
from litemq.net.frame import PREFIX_BYTES, PROTOCOL_VERSION, Flag, frame_prefix, parse_prefix
from litemq.proto.wire_pb2 import Hello, HelloAnswer, Opcode

__all__ = ["BlockingAnswer", "BlockingPeer"]

_CORRELATIONS: Final = 1 << 32
_MAX_FRAME_BYTES: Final = 128 << 20
_TIMEVAL: Final = struct.Struct("@ll")  # struct timeval
_ERROR: Final = int(Flag.ERROR)
_ANSWER: Final = int(Flag.ANSWER)


class BlockingAnswer(NamedTuple):
    """A server's answer, undecoded. The attachment owns its memory."""

    header: bytes
    attachment: memoryview


class BlockingPeer:
    """A connection to one server. Not thread-safe."""

    def __init__(
        self,
        host: str,
        port: int,
        *,
        client_id: str,
        connect_timeout: float = 5.0,
        answer_timeout: float = 30.0,
        reads_replica: bool = False,
    ) -> None:
        """Connect and send HELLO. Raise ``ConnectionLostError`` if the server is unreachable.

        A follower serves reads only to a connection that ``reads_replica``.
        """
        self.address = f"{host}:{port}"
        self._answer_timeout = answer_timeout
        self._numbers = count(1)
        self._pending: set[int] = set()
        # Answers that ``answer`` has not returned yet.
        self._unclaimed: dict[int, tuple[bytes, memoryview, LiteMQError | None]] = {}
        try:
            self._socket = socket.create_connection((host, port), timeout=connect_timeout)
        except (OSError, UnicodeError) as error:
            reason = getattr(error, "strerror", None) or error
            raise ConnectionLostError(f"cannot reach {self.address}: {reason}") from error
        try:
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            # The kernel enforces the timeout: Python's own would double the system calls per recv.
            self._socket.settimeout(None)
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, _timeval(answer_timeout))
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, _timeval(answer_timeout))
            hello = Hello(
                least_version=PROTOCOL_VERSION,
                most_version=PROTOCOL_VERSION,
                client_id=client_id,
                reads_replica=reads_replica,
            )
            self.limits = HelloAnswer.FromString(self.request(Opcode.HELLO, hello.SerializeToString()).header)
        except BaseException:
            self._socket.close()
            raise

    def ask(self, opcode: int, header: bytes, attachment: Bytes | Iterable[Bytes] = b"") -> int:
        """Send a request; return its number, which ``answer`` takes."""
        pieces = [attachment] if isinstance(attachment, bytes | bytearray | memoryview) else list(attachment)
        number = next(self._numbers) % _CORRELATIONS
        prefix = frame_prefix(number, opcode, 0, len(header), sum(map(len, pieces)))
        self._send([prefix + header, *pieces])
        self._pending.add(number)
        return number

    def answer(self, number: int) -> BlockingAnswer:
        """Wait for the answer to request ``number``. Raise the error if the server refused it."""
        while number not in self._unclaimed:
            if number not in self._pending:
                raise ProtocolError(f"request {number} to {self.address} was never sent or is already answered")
            self._receive()
        header, attachment, error = self._unclaimed.pop(number)
        if error is not None:
            raise error
        return BlockingAnswer(header, attachment)

    def request(self, opcode: int, header: bytes, attachment: Bytes | Iterable[Bytes] = b"") -> BlockingAnswer:
        """Send a request and wait for its answer."""
        return self.answer(self.ask(opcode, header, attachment))

    def forget(self, number: int) -> None:
        """Discard the answer to request ``number``."""
        self._pending.discard(number)
        self._unclaimed.pop(number, None)

    def close(self) -> None:
        self._socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _send(self, pieces: list[Bytes]) -> None:
        left = [memoryview(piece) for piece in pieces if len(piece)]
        try:
            while left:
                sent = self._socket.sendmsg(left)
                while left and sent >= len(left[0]):
                    sent -= len(left.pop(0))
                if sent:
                    left[0] = left[0][sent:]
        except BlockingIOError:
            timeout = RequestTimeoutError(f"{self.address} accepted no data within {self._answer_timeout:g} s")
            raise self._broken(timeout) from None
        except OSError as error:
            raise self._broken(ConnectionLostError(f"the connection to {self.address} ended: {error}")) from error

    def _receive(self) -> None:
        """Read the next answer, to whichever request it belongs."""
        begin = self._take(PREFIX_BYTES)
        try:
            prefix = parse_prefix(begin, _MAX_FRAME_BYTES)
        except ProtocolError as fault:
            raise self._broken(fault) from None
        header = bytes(self._take(prefix.header_bytes))
        attachment = self._take(prefix.attachment_bytes)
        if not prefix.flags & _ANSWER:
            raise self._broken(ProtocolError(f"{self.address} sent a frame that is not an answer"))
        if prefix.correlation in self._pending:
            self._pending.discard(prefix.correlation)
            error = decode_failure(header) if prefix.flags & _ERROR else None
            self._unclaimed[prefix.correlation] = (header, attachment, error)

    def _take(self, size: int) -> memoryview:
        """Read ``size`` bytes into new, uninitialized memory."""
        data: memoryview = np.empty(size, np.uint8).data
        at = 0
        try:
            while at < size:
                received = self._socket.recv_into(data[at:], 0, socket.MSG_WAITALL)
                if not received:
                    raise self._broken(ConnectionLostError(f"{self.address} closed the connection"))
                at += received
        except BlockingIOError:
            timeout = RequestTimeoutError(f"{self.address} did not answer within {self._answer_timeout:g} s")
            raise self._broken(timeout) from None
        except OSError as error:
            raise self._broken(ConnectionLostError(f"the connection to {self.address} ended: {error}")) from error
        return data

    def _broken(self, error: LiteMQError) -> LiteMQError:
        """Close the connection, whose frame boundaries are lost, and return ``error`` to raise."""
        self._socket.close()
        return error


def _timeval(seconds: float) -> bytes:
    whole = int(seconds)
    return _TIMEVAL.pack(whole, int((seconds - whole) * 1e6))
