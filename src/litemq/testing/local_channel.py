"""A channel to a broker in the same process: it passes frames without a socket.

The broker is the real one. Answers arrive in a later tick of the event loop, as they would over a
network.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from itertools import count
from typing import Protocol

from litemq.broker.runtime.caller import Caller
from litemq.errors import ConnectionLostError, LiteMQError
from litemq.net.connection import Bytes
from litemq.net.failures import decode_failure, encode_failure
from litemq.net.frame import Frame
from litemq.net.request_channel import AnswerCallback, PartCallback, RequestChannel
from litemq.net.sent_answers import pack_sent_answer
from litemq.proto.wire_pb2 import HelloAnswer, Opcode

__all__ = ["LocalChannel", "Service"]


class Service(Protocol):
    """The server of a channel: a broker or a NameServer."""

    def handle(self, caller: Caller, frames: list[Frame]) -> None: ...

    def caller_gone(self, caller: Caller) -> None: ...


class LocalChannel(RequestChannel):
    """Both ends of a connection: the client's channel, and the broker's caller."""

    def __init__(
        self,
        address: str,
        client_id: str,
        service: Service,
        on_lost: Callable[[LiteMQError], None] = lambda _error: None,
    ) -> None:
        self.address = address
        self.client_id = client_id
        self.limits = HelloAnswer(version=1, max_frame_bytes=64 << 20, software="litemq in memory")
        self._service: Service | None = service
        self._on_lost = on_lost
        self._loop = asyncio.get_running_loop()
        self._numbers = count(1)
        self._pending: dict[int, AnswerCallback] = {}
        self._parts: dict[int, PartCallback] = {}
        self._unsent: list[Frame] = []

    # The client's side ----------------------------------------------------------------------------

    @property
    def is_open(self) -> bool:
        return self._service is not None

    @property
    def in_flight(self) -> int:
        return len(self._pending)

    def call(
        self,
        opcode: int,
        header: bytes,
        attachment: Bytes,
        answered: AnswerCallback,
        on_part: PartCallback | None = None,
    ) -> None:
        if self._service is None:
            lost = ConnectionLostError(f"no connection to {self.address}")
            self._loop.call_soon(answered, b"", b"", lost)  # in a later tick, like all answers
            return
        number = next(self._numbers)
        self._pending[number] = answered
        if on_part is not None:
            self._parts[number] = on_part
        if not self._unsent:
            self._loop.call_soon(self._deliver)
        self._unsent.append(Frame(number, opcode, 0, header, bytes(attachment)))

    def _deliver(self) -> None:
        unsent, self._unsent = self._unsent, []
        for frame in unsent:
            if frame.opcode == Opcode.PING:  # answered by the frame server, not by the service
                self.answer(frame, b"")
        requests = [frame for frame in unsent if frame.opcode != Opcode.PING]
        if requests and self._service is not None:
            self._service.handle(self, requests)

    def close(self, reason: LiteMQError | None = None) -> None:
        """Close the connection and fail all pending requests."""
        if self._service is None:
            return
        service, self._service = self._service, None
        pending, self._pending, self._parts = self._pending, {}, {}
        lost = reason or ConnectionLostError("this side closed the connection")
        for answered in pending.values():
            answered(b"", b"", ConnectionLostError(f"{self.address}: {lost}"))
        service.caller_gone(self)
        self._on_lost(lost)

    def abort(self, reason: LiteMQError) -> None:
        self.close(reason)

    # The broker's side ----------------------------------------------------------------------------

    @property
    def peer(self) -> str:
        return "this process"

    @property
    def is_writable(self) -> bool:
        return True

    def on_writable(self, resume: Callable[[], None]) -> None:
        resume()

    def answer(self, frame: Frame, header: bytes, attachment: Bytes = b"", *, more: bool = False) -> None:
        if more:
            on_part = self._parts.get(frame[0])
            if on_part is not None:
                on_part(header, bytes(attachment))
            return
        answered = self._pop(frame[0])
        if answered is not None:
            answered(header, bytes(attachment), None)

    def _pop(self, number: int) -> AnswerCallback | None:
        self._parts.pop(number, None)
        return self._pending.pop(number, None)

    def answer_sent(self, correlations: list[int], queue_offsets: list[int], store_timestamp: int) -> None:
        for correlation, queue_offset in zip(correlations, queue_offsets, strict=True):
            self.answer(Frame(correlation, Opcode.SEND, 0, b"", b""), pack_sent_answer(queue_offset, store_timestamp))

    def refuse(self, frame: Frame, error: LiteMQError) -> None:
        answered = self._pop(frame[0])
        if answered is not None:
            answered(b"", b"", decode_failure(encode_failure(error)))  # as it arrives over a network
