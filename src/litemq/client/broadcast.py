"""Reading a topic so that everybody gets everything: each client by itself, with its progress in a file of its own."""

from __future__ import annotations

import asyncio
import logging

from litemq.client.ack_policy import Failure, Handling
from litemq.client.backend import Backend, QueueFact
from litemq.client.broadcast_offsets import BroadcastOffsets
from litemq.client.config import ClientConfig, OffsetReset
from litemq.client.feed import Feed
from litemq.client.messages import Message
from litemq.client.ordered import MAX_HELD, OrderedInbox, OrderedReader, settled_here
from litemq.client.queue_reader import QueueReader
from litemq.client.selection import Selection
from litemq.client.serializers import Serializers
from litemq.client.settlements import Settlements
from litemq.errors import OffsetOutOfRangeError, StorageError
from litemq.format.messages import MessageFields

__all__ = ["BroadcastConsumer"]

_LOG = logging.getLogger(__name__)


class BroadcastReader(OrderedReader):
    """One queue, of which nobody else is told what failed."""

    def bury(self, message: Message, fields: MessageFields, failure: Failure) -> Settlements:
        """The others have it, too: it is no dead letter, but it is said."""
        _LOG.error("%r failed for good, and is passed by: %s", message, failure.error or failure.reason.name.lower())
        self.ack(message, fields)
        return settled_here()


class BroadcastConsumer(Feed):
    """``async for message in consumer:`` gives all messages, also those that others of the group get. What is acknowledged does not come again
    to this client; a failed try is made again here, and what failed for good is only logged."""

    reader_type = BroadcastReader

    def __init__(
        self,
        backend: Backend,
        topic: str,
        group: str,
        config: ClientConfig,
        serializers: Serializers,
        *,
        reset: OffsetReset,
        commits: bool,
        handling: Handling,
        selection: Selection,
        ordered: bool = False,
        max_held: int = MAX_HELD,
    ) -> None:
        super().__init__(backend, topic, config, serializers, group="", settles=True, selection=selection)
        self.group_id = group
        self._reset: OffsetReset = reset
        self._commits = commits
        self._handling = handling
        self._file = BroadcastOffsets(config.offsets_directory, group, config.client_id, topic)
        self._file.open()
        self._writing = asyncio.Lock()
        self._inbox = self._ordered = OrderedInbox(config.prefetch_bytes, max_held, by_key=ordered)

    def _start(self) -> None:
        if not self._started and not self._closed and self._commits:
            self._run(" commits", self._commit_behind())
        super()._start()

    async def _begin(self, broker: str) -> list[QueueFact]:
        fact = await self._backend.describe_topic(self.topic)
        return [queue for queue in fact.queues if queue.broker == broker]

    async def _start_of(self, queue: QueueFact) -> int:
        known = self._file.offsets.get((queue.broker, queue.queue_id))
        if known is not None:
            return known
        if self._reset == "error":
            raise OffsetOutOfRangeError(
                f"{self._file.path} has no offset for queue {queue.queue_id} of {self.topic!r} on {queue.broker}: "
                "choose auto_offset_reset='earliest' or 'latest'"
            )
        return queue.least if self._reset == "earliest" else queue.next

    def _new_reader(self, queue: QueueFact, start: int) -> QueueReader:
        reader = super()._new_reader(queue, start)
        reader.handling = self._handling
        if isinstance(reader, OrderedReader):
            reader.inbox = self._ordered
        return reader

    async def _commit_behind(self) -> None:
        interval = self._config.auto_commit_interval_ms / 1000
        while True:
            await asyncio.sleep(interval)
            try:
                await self.commit()
            except StorageError as error:
                _LOG.warning("the progress of %s in %s is kept later: %s", self.group_id, self.topic, error)

    async def commit(self) -> None:
        """Write to the file how far the acknowledged messages reach, in each queue up to the first that is not."""
        async with self._writing:
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
        """Stop reading. What was not acknowledged comes again."""
        try:
            await super().close()
        finally:
            self._file.close()

    async def _finish(self) -> None:
        if self._commits:
            try:
                await self.commit()
            except StorageError as error:
                _LOG.warning("the last progress of %s in %s was not kept, its messages come again: %s", self.group_id, self.topic, error)
