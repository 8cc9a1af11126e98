"""Reading a topic without a group: from anywhere, as often as wanted, and nothing is remembered."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Final, Literal

from litemq.client.config import ClientConfig
from litemq.client.consuming.feed import Feed
from litemq.client.consuming.queue_reader import QueueReader
from litemq.client.engine.engine import Backend, QueueFact
from litemq.client.engine.selection import EVERYTHING, Selection
from litemq.client.messages.serializers import Serializers
from litemq.client.times import to_ms
from litemq.errors import InvalidArgumentError

__all__ = ["Reader", "Start"]

_MOMENT_MS: Final = 20

# Where to begin: the oldest message, the next one, a time, or an offset for each queue (those not named begin with their oldest).
Start = Literal["earliest", "latest"] | datetime | Mapping[tuple[str, int], int]


class Reader(Feed):
    """``async for message in reader:`` gives the messages of all queues, those of one queue in order."""

    def __init__(
        self,
        backend: Backend,
        topic: str,
        config: ClientConfig,
        serializers: Serializers,
        *,
        start: Start,
        follow: bool,
        selection: Selection = EVERYTHING,
    ) -> None:
        if isinstance(start, datetime):
            to_ms(start, "start")
        elif not isinstance(start, Mapping) and start not in ("earliest", "latest"):
            raise InvalidArgumentError(f"start={start!r}: choose 'earliest', 'latest', a datetime, or {{(broker, queue_id): offset}}")
        super().__init__(backend, topic, config, serializers, group="", settles=False, selection=selection)
        self._from = start
        self._follow = follow
        self._ends: dict[tuple[str, int], int] | None = None  # where queues ended when this began, of those that were not read up to it

    async def _begin(self, broker: str) -> list[QueueFact]:
        fact = await self._backend.describe_topic(self.topic)
        if self._ends is None and not self._follow:
            self._ends = {(queue.broker, queue.queue_id): queue.next for queue in fact.queues}
        return [queue for queue in fact.queues if queue.broker == broker]

    async def _start_of(self, queue: QueueFact) -> int:
        if isinstance(self._from, datetime):
            return await self._backend.offset_at_time(queue.broker, self.topic, queue.queue_id, to_ms(self._from, "start"))
        if isinstance(self._from, Mapping):
            named = self._from.get((queue.broker, queue.queue_id))
            return await self._oldest(queue) if named is None else named
        return await self._oldest(queue) if self._from == "earliest" else queue.next

    @property
    def _wait_ms(self) -> int:
        # Who wants only what is there now waits for nothing that a filter might let through; a moment, for what is not safe yet.
        return super()._wait_ms if self._follow else _MOMENT_MS

    def _reached(self, reader: QueueReader) -> None:
        key = (reader.broker, reader.queue_id)
        if self._ends and key in self._ends and reader.position >= self._ends[key]:
            del self._ends[key]
            if not self._ends:
                self._inbox.finish()
