"""The reader: reads a topic without a group, from any offset, and stores no progress."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Final, Literal

from litemq.client.config import ClientConfig
from litemq.client.consuming.feed import Feed
from litemq.client.consuming.queue_reader import QueueReader
from litemq.client.engine.engine import Engine, QueueInfo
from litemq.client.engine.selection import EVERYTHING, Selection
from litemq.client.engine.survey import describe_missing
from litemq.client.messages.message import Message
from litemq.client.messages.serializers import Serializers
from litemq.client.times import to_ms
from litemq.errors import InvalidArgumentError, PartialAnswerError

__all__ = ["Reader", "Start"]

_CONFIRM_WAIT_MS: Final = 20

# The oldest message, the next one, a time, or an offset for each queue (default: its oldest).
Start = Literal["earliest", "latest"] | datetime | Mapping[tuple[str, int], int]


class Reader(Feed):
    """Iterates over the messages of all queues: ``async for message in reader:``.

    Each queue stays in order. At its end, a reader without ``follow`` closes itself.
    """

    def __init__(
        self,
        engine: Engine,
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
            raise InvalidArgumentError(
                f"start={start!r}: choose 'earliest', 'latest', a datetime, or {{(broker, queue_id): offset}}"
            )
        super().__init__(engine, topic, config, serializers, group="", settles=False, selection=selection)
        self._start_at = start
        self._follow = follow
        self._ends: dict[tuple[str, int], int] | None = None  # of queues that were not read up to it
        self._missing: dict[str, str] = {}  # brokers that did not answer when the ends were determined

    async def _begin(self, broker: str) -> list[QueueInfo]:
        if self._ends is None and not self._follow:
            try:
                info = await self._engine.describe_topic(self.topic)
            except PartialAnswerError as error:
                info, self._missing = error.answer, dict(error.missing)
            if self._ends is None:  # else another broker was faster
                self._ends = {(queue.broker, queue.queue_id): queue.next for queue in info.queues}
        queues = list((await self._engine.describe_topic(self.topic, broker)).queues)
        if self._ends is not None and self._missing.pop(broker, None) is not None:  # it answers now
            self._ends.update({(queue.broker, queue.queue_id): queue.next for queue in queues})
        return queues

    async def _start_offset(self, queue: QueueInfo) -> int:
        if isinstance(self._start_at, datetime):
            return await self._engine.offset_at_time(
                queue.broker, self.topic, queue.queue_id, to_ms(self._start_at, "start")
            )
        if isinstance(self._start_at, Mapping):
            named = self._start_at.get((queue.broker, queue.queue_id))
            return await self._oldest(queue) if named is None else named
        return await self._oldest(queue) if self._start_at == "earliest" else queue.next

    async def _next(self) -> Message:
        try:
            return await super()._next()
        except StopAsyncIteration:
            await self.close()
            raise

    @property
    def _wait_ms(self) -> int:
        # Without ``follow``, wait only for messages that are about to be confirmed.
        return super()._wait_ms if self._follow else _CONFIRM_WAIT_MS

    @property
    def _patience_s(self) -> float:
        # A reader that follows waits for its brokers, as consumers do.
        return super()._patience_s if self._follow else self._config.delivery_timeout_ms / 1000

    def _reached(self, reader: QueueReader) -> None:
        key = (reader.broker, reader.queue_id)
        if self._ends and key in self._ends and reader.position >= self._ends[key]:
            del self._ends[key]
            if self._ends:
                return
            self._stop_reading()
            if self._missing:
                self._inbox.break_off(
                    PartialAnswerError(
                        f"not all messages were read: {describe_missing(self._missing)}", None, self._missing
                    )
                )
            else:
                self._inbox.finish()
