"""Messages for one queue that are sent together: their records, ids and futures."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, NamedTuple

from litemq.client import native
from litemq.client.cluster.sending.send_buffer import ByteCount, PythonByteCount
from litemq.client.identity import MessageIds, PythonMessageIds
from litemq.client.messages.outgoing import SendReceipt
from litemq.format.record_encode import complete_record

__all__ = ["Batch", "PythonBatch"]

_new_tuple: Final = tuple.__new__  # the constructor of a named tuple costs twice as much


class _Plain(NamedTuple):
    """How a batch takes messages that have only a body."""

    head: bytes
    ids: MessageIds | PythonMessageIds
    buffer: ByteCount | PythonByteCount
    new_future: Callable[[], asyncio.Future[SendReceipt]]
    max_record_bytes: int
    max_bytes: int
    max_messages: int
    sequenced: bool


class PythonBatch:
    """Takes messages until it is ``sealed``. Record ``n`` has the sequence number ``first + n``."""

    __slots__ = ("_plain", "first", "ids", "records", "sealed", "size", "waiters")

    def __init__(self) -> None:
        self.records: list[bytes] = []
        self.ids: list[str] = []
        self.waiters: list[asyncio.Future[SendReceipt]] = []
        self.size = 0  # of the records
        self.first = 0
        self.sealed = False
        self._plain: _Plain | None = None

    def take_plain(
        self,
        head: bytes,
        ids: MessageIds | PythonMessageIds,
        buffer: ByteCount | PythonByteCount,
        new_future: Callable[[], asyncio.Future[SendReceipt]],
        max_record_bytes: int,
        max_bytes: int,
        max_messages: int,
        sequenced: bool,
        /,
    ) -> None:
        """Take messages with ``add``, whose records begin with ``head``, up to these limits."""
        self._plain = _Plain(head, ids, buffer, new_future, max_record_bytes, max_bytes, max_messages, sequenced)

    def add(self, body: object, /) -> asyncio.Future[SendReceipt] | None:
        """Add a message that has only a body; return the future of its receipt.

        ``None``: the batch is full, or the message needs a closer look. It was not added.
        """
        plain = self._plain
        if self.sealed or plain is None or type(body) is not bytes:
            return None
        waiter = plain.new_future()
        size = (len(plain.head) + len(body) + 7) & ~7
        if (
            plain.buffer.used >= plain.buffer.limit
            or len(self.records) >= plain.max_messages - 1
            or size > plain.max_record_bytes
            or self.size + size > plain.max_bytes
        ):
            return None
        message_id, now = plain.ids.next()
        sequence = self.first + len(self.records) if plain.sequenced else 0
        self.records.append(complete_record(plain.head, body, message_id, now, sequence))
        self.ids.append(message_id)
        self.waiters.append(waiter)
        self.size += size
        plain.buffer.used += size
        return waiter

    def settle(
        self,
        receipt: type[SendReceipt],
        topic: str,
        broker: str,
        queue_id: int,
        offset: int,
        timestamp: int,
        /,
    ) -> None:
        """Resolve all futures: the records were stored from ``offset`` on; -1 means unknown."""
        step = 1 if offset >= 0 else 0
        for waiter, message_id in zip(self.waiters, self.ids, strict=True):
            if not waiter.done():
                waiter.set_result(_new_tuple(receipt, (topic, message_id, broker, queue_id, offset, timestamp)))
            offset += step


if TYPE_CHECKING:
    Batch = native.sending.Batch
else:
    Batch = native.sending.Batch if native.enabled else PythonBatch
