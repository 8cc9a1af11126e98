"""Reading a topic for a group: what is acknowledged is committed, and does not come again."""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict

from litemq.client.ack_policy import Handling
from litemq.client.backend import Backend, QueueFact
from litemq.client.config import ClientConfig, OffsetReset
from litemq.client.feed import Feed
from litemq.client.leases import Leases
from litemq.client.queue_reader import QueueReader
from litemq.client.serializers import Serializers
from litemq.errors import LiteMQError, OffsetOutOfRangeError

__all__ = ["Consumer"]

_LOG = logging.getLogger(__name__)


class Consumer(Feed):
    """``async for message in consumer:`` gives the messages of all queues, those of one queue in order. Acknowledge each when it is done."""

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
        leases: Leases,
        handling: Handling,
    ) -> None:
        super().__init__(backend, topic, config, serializers, group=group, settles=True)
        self.group_id = group
        self._reset: OffsetReset = reset
        self._commits = commits
        self._committing = asyncio.Lock()
        self._leases = leases
        self._handling = handling

    def _new_reader(self, queue: QueueFact, start: int) -> QueueReader:
        reader = super()._new_reader(queue, start)
        reader.settler, reader.handling = self._leases.settler(queue.broker, self.topic, self.group_id), self._handling
        return reader

    def _start(self) -> None:
        if not self._started and not self._closed and self._commits:
            self._run(" commits", self._commit_behind())
        super()._start()

    async def _begin(self, broker: str) -> list[QueueFact]:
        return await self._backend.join(broker, self.topic, self.group_id)

    async def _start_of(self, queue: QueueFact) -> int:
        if queue.committed >= 0:
            return queue.committed
        if self._reset == "error":
            raise OffsetOutOfRangeError(
                f"group {self.group_id!r} has no offset in queue {queue.queue_id} of {self.topic!r} on {queue.broker}: "
                "choose auto_offset_reset='earliest' or 'latest'"
            )
        return queue.least if self._reset == "earliest" else queue.next

    def _came_back(self, reader: QueueReader, queue: QueueFact) -> None:
        reader.skip_to(queue.committed)
        if reader.acks is not None:
            reader.acks.committed = max(queue.committed, 0)

    async def _commit_behind(self) -> None:
        interval = self._config.auto_commit_interval_ms / 1000
        while True:
            await asyncio.sleep(interval)
            try:
                await self.commit()
            except LiteMQError as error:
                _LOG.info("offsets of group %s are committed later: %s", self.group_id, error)

    async def commit(self) -> None:
        """Tell the brokers how far the acknowledged messages reach, in each queue up to the first that is not."""
        async with self._committing:
            offsets: dict[str, dict[int, int]] = defaultdict(dict)
            for reader in self._queues.values():
                if reader.acks is not None and reader.acks.wants_commit():
                    offsets[reader.broker][reader.queue_id] = reader.acks.done
            outcomes = await asyncio.gather(*(self._commit_to(broker, done) for broker, done in offsets.items()), return_exceptions=True)
            for outcome in outcomes:
                if isinstance(outcome, BaseException):
                    raise outcome

    async def _commit_to(self, broker: str, done: dict[int, int]) -> None:
        await self._backend.commit(broker, self.topic, self.group_id, done)
        for queue_id, offset in done.items():
            acks = self._queues[broker, queue_id].acks
            if acks is not None:
                acks.committed = max(acks.committed, offset)

    async def _finish(self) -> None:
        try:
            await self._leases.flush()  # what failed is told before it counts as done
            if self._commits:
                await self.commit()
        except LiteMQError as error:
            _LOG.warning("the last offsets of group %s were not committed, their messages come again: %s", self.group_id, error)
        brokers = {broker for broker, _ in self._queues}
        await asyncio.gather(*(self._backend.leave(broker, self.topic, self.group_id) for broker in brokers), return_exceptions=True)
