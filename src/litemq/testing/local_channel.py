"""A channel to a broker in the same process: frames are handed over, and no socket is made.

The broker behind it is the real one. Answers come in a later turn of the event loop, as they would over a network.
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
from litemq.net.request_channel import AnswerCallback, RequestChannel
from litemq.net.sent_answers import pack_sent_answer
from litemq.proto.wire_pb2 import HelloAnswer, Opcode

__all__ = ["LocalChannel", "Service"]


class Service(Protocol):
    """What stands behind a channel: a broker or a NameServer."""

    def handle(self, caller: Caller, frames: list[Frame]) -> None: ...

    def caller_gone(self, caller: Caller) -> None: ...


class LocalChannel(RequestChannel):
    """Both ends of a connection at once: what the client asks through, and whom the broker answers."""

    def __init__(self, address: str, client_id: str, service: Service, lost: Callable[[LiteMQError], None] = lambda _error: None) -> None:
        self.address = address
        self.client_id = client_id
        self.limits = HelloAnswer(version=1, max_frame_bytes=64 << 20, software="litemq in memory")
        self._service: Service | None = service
        self._on_lost = lost
        self._loop = asyncio.get_running_loop()
        self._numbers = count(1)
        self._pending: dict[int, AnswerCallback] = {}
        self._unsent: list[Frame] = []

    # As the client sees it ----------------------------------------------------------------------------------------------------

    @property
    def is_open(self) -> bool:
        return self._service is not None

    @property
    def in_flight(self) -> int:
        return len(self._pending)

    def call(self, opcode: int, header: bytes, attachment: Bytes, answered: AnswerCallback) -> None:
        if self._service is None:
            lost = ConnectionLostError(f"there is no connection to {self.address}")
            self._loop.call_soon(answered, b"", b"", lost)  # later, as all answers
            return
        number = next(self._numbers)
        self._pending[number] = answered
        if not self._unsent:
            self._loop.call_soon(self._deliver)
        self._unsent.append(Frame(number, opcode, 0, header, bytes(attachment)))

    def _deliver(self) -> None:
        unsent, self._unsent = self._unsent, []
        if self._service is not None:
            self._service.handle(self, unsent)

    def close(self, reason: LiteMQError | None = None) -> None:
        """End the connection; what is still on its way fails."""
        if self._service is None:
            return
        service, self._service = self._service, None
        pending, self._pending = self._pending, {}
        lost = reason or ConnectionLostError("this side closed the connection")
        for answered in pending.values():
            answered(b"", b"", ConnectionLostError(f"{self.address}: {lost}"))
        service.caller_gone(self)
        self._on_lost(lost)

    def abort(self, reason: LiteMQError) -> None:
        self.close(reason)

    # As the broker sees it ----------------------------------------------------------------------------------------------------

    @property
    def peer(self) -> str:
        return "this process"

    @property
    def has_room(self) -> bool:
        return True

    def when_room(self, resume: Callable[[], None]) -> None:
        resume()

    def answer(self, frame: Frame, header: bytes, attachment: Bytes = b"") -> None:
        answered = self._pending.pop(frame[0], None)
        if answered is not None:
            answered(header, bytes(attachment), None)

    def answer_sent(self, correlations: list[int], queue_offsets: list[int], store_timestamp: int) -> None:
        for correlation, queue_offset in zip(correlations, queue_offsets, strict=True):
            self.answer(Frame(correlation, Opcode.SEND, 0, b"", b""), pack_sent_answer(queue_offset, store_timestamp))

    def refuse(self, frame: Frame, error: LiteMQError) -> None:
        answered = self._pending.pop(frame[0], None)
        if answered is not None:
            answered(b"", b"", decode_failure(encode_failure(error)))  # as it would arrive over a network
