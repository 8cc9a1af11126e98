"""The asking side without an event loop: for processes that do one thing after another, such as a Spark task.

Requests may be sent ahead of the answers to those before them; the peer works on the next while this side is busy with the last.
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
    """A server's answer, its parts still bytes; the attachment has its own memory."""

    header: bytes
    attachment: memoryview


class BlockingPeer:
    """One connection to one server, for one thread."""

    def __init__(self, host: str, port: int, *, client_id: str, connect_timeout: float = 5.0, answer_timeout: float = 30.0) -> None:
        """Connect and greet. Raises ``ConnectionLostError`` where nobody answers."""
        self.address = f"{host}:{port}"
        self._answer_timeout = answer_timeout
        self._numbers = count(1)
        self._pending: set[int] = set()
        self._unclaimed: dict[int, tuple[bytes, memoryview, LiteMQError | None]] = {}  # answers that came before ``answer`` asked for them
        try:
            self._socket = socket.create_connection((host, port), timeout=connect_timeout)
        except (OSError, UnicodeError) as error:
            raise ConnectionLostError(f"cannot reach {self.address}: {getattr(error, 'strerror', None) or error}") from error
        try:
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            # The kernel keeps the time: with a time-out of its own, Python would ask it twice for every piece that comes.
            self._socket.settimeout(None)
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, _timeval(answer_timeout))
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, _timeval(answer_timeout))
            hello = Hello(least_version=PROTOCOL_VERSION, most_version=PROTOCOL_VERSION, client_id=client_id)
            self.limits = HelloAnswer.FromString(self.request(Opcode.HELLO, hello.SerializeToString()).header)
        except BaseException:
            self._socket.close()
            raise

    def ask(self, opcode: int, header: bytes, attachment: Bytes | Iterable[Bytes] = b"") -> int:
        """Send a request; returns the number by which ``answer`` gives its answer."""
        pieces = [attachment] if isinstance(attachment, bytes | bytearray | memoryview) else list(attachment)
        number = next(self._numbers) % _CORRELATIONS
        prefix = frame_prefix(number, opcode, 0, len(header), sum(map(len, pieces)))
        self._send([prefix + header, *pieces])
        self._pending.add(number)
        return number

    def answer(self, number: int) -> BlockingAnswer:
        """The answer to a request, waited for. Raises the error that it was answered with."""
        while number not in self._unclaimed:
            if number not in self._pending:
                raise ProtocolError(f"request {number} to {self.address} was not sent, or was answered before")
            self._receive()
        header, attachment, error = self._unclaimed.pop(number)
        if error is not None:
            raise error
        return BlockingAnswer(header, attachment)

    def request(self, opcode: int, header: bytes, attachment: Bytes | Iterable[Bytes] = b"") -> BlockingAnswer:
        """Ask, and wait for the answer."""
        return self.answer(self.ask(opcode, header, attachment))

    def forget(self, number: int) -> None:
        """Nobody wants this answer any more."""
        self._pending.discard(number)
        self._unclaimed.pop(number, None)

    def close(self) -> None:
        """End the connection."""
        self._socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # ---------------------------------------------------------------------------------------------------------------------------

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
            raise self._broken(RequestTimeoutError(f"{self.address} took nothing for {self._answer_timeout:g} s")) from None
        except OSError as error:
            raise self._broken(ConnectionLostError(f"the connection to {self.address} ended: {error}")) from error

    def _receive(self) -> None:
        """Take the next answer, whosever it is."""
        begin = self._take(PREFIX_BYTES)
        try:
            prefix = parse_prefix(begin, _MAX_FRAME_BYTES)
        except ProtocolError as fault:
            raise self._broken(fault) from None
        header = bytes(self._take(prefix.header_bytes))
        attachment = self._take(prefix.attachment_bytes)
        if not prefix.flags & _ANSWER:
            raise self._broken(ProtocolError(f"{self.address} sent what is no answer"))
        if prefix.correlation in self._pending:
            self._pending.discard(prefix.correlation)
            error = decode_failure(header) if prefix.flags & _ERROR else None
            self._unclaimed[prefix.correlation] = (header, attachment, error)

    def _take(self, size: int) -> memoryview:
        """So many bytes, in new memory that nobody has to fill first."""
        data: memoryview = np.empty(size, np.uint8).data
        at = 0
        try:
            while at < size:
                came = self._socket.recv_into(data[at:], 0, socket.MSG_WAITALL)
                if not came:
                    raise self._broken(ConnectionLostError(f"the connection ended: {self.address} closed it"))
                at += came
        except BlockingIOError:
            raise self._broken(RequestTimeoutError(f"{self.address} did not answer within {self._answer_timeout:g} s")) from None
        except OSError as error:
            raise self._broken(ConnectionLostError(f"the connection to {self.address} ended: {error}")) from error
        return data

    def _broken(self, error: LiteMQError) -> LiteMQError:
        """Close the connection: the frames on it can no longer be separated."""
        self._socket.close()
        return error


def _timeval(seconds: float) -> bytes:
    whole = int(seconds)
    return _TIMEVAL.pack(whole, int((seconds - whole) * 1e6))
