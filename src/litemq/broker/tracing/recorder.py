"""The trace: what happened to messages, told in ``LITEMQ_SYS_TRACE``. Off, for some messages, or for all.

Nobody waits for it. What was appended is read from the queues that grew, a moment later; all events of that moment are one append, of which
nobody waits for the disk. What happens faster than it can be told is counted, and the number is told.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Final

from litemq.broker.runtime.context import BrokerContext
from litemq.broker.runtime.queue_events import QueueListener
from litemq.broker.tracing.events import Sampling, TraceEvent, encode_events, in_order
from litemq.errors import LiteMQError
from litemq.format.dead_letters import DEAD_PREFIX, story_of
from litemq.format.messages import MessageFields, decode_messages
from litemq.net.connection import Bytes
from litemq.storage.state import QueueKey
from litemq.storage.state.topics import FIRST_FREE_TOPIC_ID, TRACE_TOPIC_ID
from litemq.storage.store import Placed
from litemq.types import RecordKind

__all__ = ["Trace"]

_EVERY_SECONDS: Final = 0.1
_MOST_WAITING: Final = 20_000
_READ_MESSAGES: Final = 4_096
_READ_BYTES: Final = 4 << 20
_LOG = logging.getLogger(__name__)

_TRACE_QUEUE: Final = QueueKey(TRACE_TOPIC_ID, 0)
_APPENDED: Final = {
    RecordKind.MESSAGE: "stored",
    RecordKind.FIRED: "fired",
    RecordKind.COMMITTED: "stored",
    RecordKind.RETRY: "retried",
    RecordKind.DEAD: "died",
}


class Trace(QueueListener):
    """One broker's trace, on its event loop. Where it is off, each call returns at once."""

    def __init__(self, context: BrokerContext) -> None:
        self._store = store = context.store
        self._clock = context.clock
        self._sampling = Sampling(context.limits.trace, context.limits.trace_one_in)
        self.is_on = self._sampling.is_on
        self._told_to = dict(store.state.next) if self.is_on else {}
        self._acked_to = dict(store.state.group_offsets) if self.is_on else {}
        self._grown: dict[QueueKey, None] = {}
        self._events: list[TraceEvent] = []
        self._missed = 0
        self._timer: asyncio.TimerHandle | None = None

    # What happens -------------------------------------------------------------------------------------------------------------

    def on_append(self, keys: list[QueueKey], end: int) -> None:  # noqa: ARG002
        if self.is_on:
            self._grown.update(dict.fromkeys(key for key in keys if key.topic_id >= FIRST_FREE_TOPIC_ID))
            self._soon()

    def on_retry_placed(self, group: str, key: QueueKey, end: int) -> None:  # noqa: ARG002
        self.on_append([key], end)

    def received(self, group: str, client: str, records: Bytes) -> None:
        """Somebody was given these messages for a group."""
        now = self._clock.wall_ms()
        for fields in decode_messages(bytes(records)):
            if self._sampling.takes(fields.message_id):
                self._note(_event(now, "received", fields)._replace(group=group, client=client))

    def began(self, group: str, key: QueueKey, offset: int) -> None:
        """A group reads a queue from an offset on: what is below it was done before, or never will be."""
        self._acked_to.setdefault((group, key), offset)

    def settled(self, group: str, client: str, key: QueueKey, begin: int, end: int, what: str, detail: str = "") -> None:
        """A group has settled these offsets of a queue: acked, released, failed or rejected."""
        now = self._clock.wall_ms()
        for fields in self._read(key, begin, end):
            if self._sampling.takes(fields.message_id):
                self._note(_event(now, what, fields)._replace(group=group, client=client, detail=detail or _detail(fields)))

    def committed(self, group: str, client: str, key: QueueKey, offset: int) -> None:
        """A group has finished everything below an offset; what is new of it is acknowledged now."""
        begin = self._acked_to.get((group, key), offset)
        self._acked_to[group, key] = offset
        begin = max(begin, self._store.state.least.get(key, 0))
        if begin < offset:
            self.settled(group, client, key, begin, offset, "acked")

    def _note(self, event: TraceEvent) -> None:
        if len(self._events) >= _MOST_WAITING:
            self._missed += 1
        else:
            self._events.append(event)
        self._soon()

    def _soon(self) -> None:
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(_EVERY_SECONDS, self.flush)

    # Telling it ---------------------------------------------------------------------------------------------------------------

    def flush(self) -> None:
        """Tell everything that waits."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        try:
            self._follow_queues()
            events, self._events = self._events, []
            now = self._clock.wall_ms()
            if self._missed:
                events.append(TraceEvent(now, "missed", detail=f"{self._missed} events came faster than they could be told"))
                self._missed = 0
            placed = [Placed(record, *_TRACE_QUEUE, RecordKind.MESSAGE) for record in encode_events(in_order(events), now)]
            if placed:
                self._store.append_placed(placed)
        except LiteMQError as error:
            _LOG.warning("some events are missing in the trace: %s", error)

    def _follow_queues(self) -> None:
        """Read what was appended to the queues that grew; what is not confirmed yet is for the next time."""
        grown, self._grown = self._grown, {}
        state = self._store.state
        # Messages die in the middle of other things: their topics are looked at, nobody says that they grew.
        dead = [QueueKey(facts.topic_id, 0) for facts in state.topics.values() if facts.name.startswith(DEAD_PREFIX)]
        grown.update(dict.fromkeys(key for key in dead if state.next.get(key, 0) > self._told_to.get(key, 0)))
        for key in grown:
            following = state.next.get(key, 0)
            at = self._told_to.get(key, 0)
            found = self._read(key, at, following)
            for fields in found:
                if self._sampling.takes(fields.message_id):
                    self._note(_event(fields.store_timestamp, _APPENDED.get(fields.kind, "stored"), fields))
            self._told_to[key] = at = found[-1].queue_offset + 1 if found else at
            if at < following:
                self._grown[key] = None
                self._soon()

    def _read(self, key: QueueKey, begin: int, end: int) -> list[MessageFields]:
        """Messages of a queue, as far as they are in memory and confirmed; the others are counted as missed."""
        try:
            records = self._store.read_if_hot(key, begin, min(end - begin, _READ_MESSAGES), _READ_BYTES)
        except LiteMQError:
            records = None
        if records is None:
            self._missed += end - begin
            self._told_to[key] = max(end, self._told_to.get(key, 0))
            return []
        return decode_messages(bytes(records))

    def close(self) -> None:
        """The broker stops: what waits is told."""
        if self.is_on:
            self.flush()
            if self._timer is not None:
                self._timer.cancel()


def _event(at: int, what: str, fields: MessageFields) -> TraceEvent:
    is_retry = fields.kind is RecordKind.RETRY  # then the number of its queue is that of its topic
    if fields.kind is RecordKind.DEAD:
        story = story_of(fields.properties)
        words = f"{story.reason.name.lower()} {story.error}".rstrip()
        topic = fields.topic.removeprefix(DEAD_PREFIX)
        return TraceEvent(at, what, fields.message_id, topic, group=story.group, client=story.consumer, tries=story.tries, detail=words)
    return TraceEvent(
        at,
        what,
        fields.message_id,
        fields.topic,
        -1 if is_retry else fields.queue_id,
        fields.queue_offset,
        tries=fields.consume_count,
        detail=_detail(fields),
    )


def _detail(fields: MessageFields) -> str:
    return "in the retry queue" if fields.kind is RecordKind.RETRY else ""
