"""The seam between the cluster's engine and what carries its requests: a TCP connection, or a call in the same process."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Protocol

from litemq.errors import LiteMQError
from litemq.net.request_channel import Answer, AnswerCallback
from litemq.proto.wire_pb2 import HelloAnswer

__all__ = ["Answer", "AnswerCallback", "Bytes", "Channel", "Connect"]

Bytes = bytes | bytearray | memoryview


class Channel(Protocol):
    """One server that was greeted. ``litemq.net.client.Peer`` is one."""

    address: str
    limits: HelloAnswer

    @property
    def is_open(self) -> bool: ...

    @property
    def in_flight(self) -> int: ...

    def ask(self, opcode: int, header: bytes, attachment: Bytes = b"") -> asyncio.Future[Answer]:
        """Send a request; the future is its answer, or the error that it was answered with."""
        ...

    def call(self, opcode: int, header: bytes, attachment: Bytes, answered: AnswerCallback) -> None:
        """The same without a future. ``answered`` is called once, later: when the answer is read, or the connection is lost."""
        ...

    async def request(self, opcode: int, header: bytes, attachment: Bytes = b"", *, timeout: float) -> Answer:  # noqa: ASYNC109
        """Ask and wait, no longer than that."""
        ...

    def close(self) -> None:
        """End it once what was sent before has gone out."""
        ...

    def abort(self, reason: LiteMQError) -> None:
        """End it now; what is on its way has failed when this returns."""
        ...


class Connect(Protocol):
    """How channels are made: ``litemq.net.client.Peer.connect``, or one that stays in this process."""

    async def __call__(
        self,
        host: str,
        port: int,
        *,
        client_id: str,
        timeout: float,  # noqa: ASYNC109
        lost: Callable[[LiteMQError], None],
    ) -> Channel: ...
