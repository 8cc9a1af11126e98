"""The channel interface: a TCP connection to a server, or calls within the process."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Protocol

from litemq.errors import LiteMQError
from litemq.net.client import NO_ATTEMPT, Attempt
from litemq.net.request_channel import Answer, AnswerCallback, PartCallback
from litemq.proto.wire_pb2 import HelloAnswer

__all__ = ["NO_ATTEMPT", "Answer", "AnswerCallback", "Attempt", "Bytes", "Channel", "Connect", "PartCallback"]

Bytes = bytes | bytearray | memoryview


class Channel(Protocol):
    """An open channel to one server, after the handshake. ``litemq.net.client.Peer`` is one."""

    address: str
    limits: HelloAnswer

    @property
    def is_open(self) -> bool: ...

    @property
    def in_flight(self) -> int: ...

    def ask(self, opcode: int, header: bytes, attachment: Bytes = b"") -> asyncio.Future[Answer]:
        """Send a request; the future is its answer, or the error that the server answered."""
        ...

    def call(self, opcode: int, header: bytes, attachment: Bytes, answered: AnswerCallback) -> None:
        """Send a request, and call ``answered`` once, in a later tick, with the answer or error."""
        ...

    async def request(
        self,
        opcode: int,
        header: bytes,
        attachment: Bytes = b"",
        *,
        timeout: float,  # noqa: ASYNC109
        on_part: PartCallback | None = None,
    ) -> Answer:
        """Send a request, and wait up to ``timeout`` seconds for its answer.

        If the answer comes in parts, call ``on_part`` for each but the last.
        """
        ...

    def close(self) -> None:
        """Close the channel after the data written so far is sent."""
        ...

    def abort(self, reason: LiteMQError) -> None:
        """Close the channel now; every pending request has failed when this returns."""
        ...


class Connect(Protocol):
    """A factory of channels: ``litemq.net.client.Peer.connect``, or one within the process."""

    async def __call__(
        self,
        host: str,
        port: int,
        *,
        client_id: str,
        timeout: float,  # noqa: ASYNC109
        on_lost: Callable[[LiteMQError], None],
        attempt: Attempt = NO_ATTEMPT,
    ) -> Channel: ...
