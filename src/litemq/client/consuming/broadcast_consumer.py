"""The broadcast consumer: each client gets all messages and keeps its progress in a local file."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

from litemq.client.consuming.broadcast_offsets import BroadcastOffsets
from litemq.client.consuming.consumer import Consumer
from litemq.client.consuming.feed import Feed
from litemq.client.consuming.ordered_consumer import MAX_HELD, OrderedInbox, OrderedReader, settled_locally
from litemq.client.consuming.queue_reader import QueueReader
from litemq.client.engine.engine import QueueInfo
from litemq.client.messages.message import Message
from litemq.client.settling.ack_policy import Failure
from litemq.client.settling.settlements import Settlements
from litemq.errors import OffsetOutOfRangeError, StorageError
from litemq.format.messages import MessageFields

__all__ = ["BroadcastConsumer"]

_LOG = logging.getLogger(__name__)


class BroadcastReader(OrderedReader):
    """One queue of a broadcast consumer. Failures concern this client only."""

    def dead_letter(self, message: Message, fields: MessageFields, failure: Failure) -> Settlements:  # noqa: ARG002
        """Log the failure and acknowledge ``message``: it is no dead letter of the group."""
        _LOG.error("%r failed for good, skipping it: %s", message, failure.error or failure.reason.name.lower())
        self.ack(message)
        return settled_locally()


class BroadcastConsumer(Consumer):
    """Iterates over all messages of a topic, independently of the other clients of its group.

    It retries a failed message locally, and logs a message that failed for good.
    """

    reader_type = BroadcastReader

    def __init__(self, *arguments: Any, ordered: bool = False, max_held: int = MAX_HELD, **options: Any) -> None:
        """As ``Consumer``; ``ordered``: deliver one message of an ordering key at a time."""
        super().__init__(*arguments, **options)
        config = self._config
        self._group = ""  # queues are not assigned
        self._file = BroadcastOffsets(config.offsets_directory, self.group_id, config.client_id, self.topic)
        self._file.open()
        self._inbox = self._ordered = OrderedInbox(config.prefetch_bytes, max_held, by_key=ordered)

    async def _read_broker(self, broker: str) -> None:
        await Feed._read_broker(self, broker)  # noqa: SLF001  without joining the group

    async def _begin(self, broker: str) -> list[QueueInfo]:
        return list((await self._engine.describe_topic(self.topic, broker)).queues)

    async def _start_offset(self, queue: QueueInfo) -> int:
        known = self._file.offsets.get((queue.broker, queue.queue_id))
        if known is not None:
            return known
        if self._reset == "error":
            raise OffsetOutOfRangeError(
                f"{self._file.path} has no offset for queue {queue.queue_id} of {self.topic!r} on {queue.broker}: "
                "choose auto_offset_reset='earliest' or 'latest'"
            )
        return await self._oldest(queue) if self._reset == "earliest" else queue.next

    def _new_reader(self, queue: QueueInfo, start: int) -> QueueReader:
        reader = super()._new_reader(queue, start)
        if isinstance(reader, OrderedReader):
            reader.inbox = self._ordered
        return reader

    async def commit(self) -> None:
        """Write the offset of each queue's finished prefix to the progress file.

        Raises:
            StorageError: The file cannot be written.
        """
        async with self._committing:
            offsets = dict(self._file.offsets)
            for reader in self._queues.values():
                if reader.acks is not None:
                    offsets[reader.broker, reader.queue_id] = reader.acks.done
            if offsets != self._file.offsets:
                try:
                    await asyncio.shield(asyncio.to_thread(self._file.write, offsets))
                except OSError as error:
                    raise StorageError(f"{self._file.path} cannot be written: {error}") from error

    async def close(self) -> None:
        """Stop reading and commit. Unacknowledged messages are delivered again. Raises nothing.

        Without ``enable_auto_commit``, it does not commit.
        """
        try:
            await super().close()
        finally:
            self._file.close()

    async def _finish(self) -> None:
        if self._commits:
            try:
                await self.commit()
            except StorageError as error:
                _LOG.warning(
                    "the last progress of %s in %s was not saved, its messages will be delivered again: %s",
                    self.group_id,
                    self.topic,
                    error,
                )
