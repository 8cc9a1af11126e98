"""The part of a send that each message takes, in C. Its twins in Python describe it."""

import asyncio
from collections.abc import Callable
from typing import Self

from litemq.client.messages.outgoing import SendReceipt

class MessageIds:
    """See ``litemq.client.identity``."""

    def __new__(cls, random: str, /) -> Self: ...
    def next(self) -> tuple[str, int]: ...

class ByteCount:
    """See ``litemq.client.cluster.sending.send_buffer``."""

    __slots__ = ("limit", "used")

    used: int
    limit: int

class Batch:
    """See ``litemq.client.cluster.sending.batch``."""

    __slots__ = ("first", "ids", "records", "sealed", "size", "waiters")

    records: list[bytes]
    ids: list[str]
    waiters: list[asyncio.Future[SendReceipt]]
    size: int
    first: int
    sealed: bool

    def __new__(cls, *args: object) -> Self: ...
    def take_plain(
        self,
        head: bytes,
        ids: MessageIds,
        buffer: ByteCount,
        new_future: Callable[[], asyncio.Future[SendReceipt]],
        max_record_bytes: int,
        max_bytes: int,
        max_messages: int,
        sequenced: bool,
        /,
    ) -> None: ...
    def add(self, body: object, /) -> asyncio.Future[SendReceipt] | None: ...
    def settle(
        self,
        receipt: type[SendReceipt],
        topic: str,
        broker: str,
        queue_id: int,
        offset: int,
        timestamp: int,
        /,
    ) -> None: ...
