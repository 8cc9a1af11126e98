"""The trace recorder: writes the events of messages to ``LITEMQ_SYS_TRACE``.

It traces no messages, a sample, or all. Tracing is asynchronous: the recorder reads appended
messages from their queues a moment later, and writes all events of that moment in one append,
without a wait for the disk. It drops events that arrive faster than it can write them, and records
the number dropped.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Final

from litemq.broker.runtime.context import BrokerContext
from litemq.broker.runtime.queue_events import QueueListener
from litemq.broker.tracing.events import TraceEvent, TraceSampler, encode_events, in_order
from litemq.errors import LiteMQError
from litemq.format.dead_letters import DEAD_PREFIX, history_from_properties
from litemq.format.messages import MessageFields, decode_messages
from litemq.net.connection import Bytes
from litemq.storage.state import QueueKey
from litemq.storage.state.topics import FIRST_FREE_TOPIC_ID, TRACE_TOPIC_ID
from litemq.storage.store import Placed
from litemq.types import RecordKind

__all__ = ["TraceRecorder"]

_EVERY_SECONDS: Final = 0.1
_MAX_WAITING: Final = 20_000
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


class TraceRecorder(QueueListener):
    """The trace of one broker, on its event loop. If it is off, each call returns at once."""

    def __init__(self, context: BrokerContext) -> None:
        self._store = store = context.store
        self._clock = context.clock
        self._sampler = TraceSampler(context.limits.trace, context.limits.trace_one_in)
        self.is_on = self._sampler.is_on
        self._traced_to = dict(store.state.end_offsets) if self.is_on else {}
        self._acked_to = dict(store.state.group_offsets) if self.is_on else {}
        self._appended: dict[QueueKey, None] = {}
        self._events: list[TraceEvent] = []
        self._missed = 0
        self._timer: asyncio.TimerHandle | None = None

    # Events ---------------------------------------------------------------------------------------

    def on_append(self, keys: list[QueueKey], end: int) -> None:  # noqa: ARG002
        if self.is_on:
            self._appended.update(dict.fromkeys(key for key in keys if key.topic_id >= FIRST_FREE_TOPIC_ID))
            self._flush_soon()

    def on_retry_placed(self, group: str, key: QueueKey, end: int) -> None:  # noqa: ARG002
        self.on_append([key], end)

    def on_received(self, group: str, client: str, records: Bytes) -> None:
        """``client`` has received ``records`` for ``group``."""
        now = self._clock.wall_ms()
        for fields in decode_messages(bytes(records)):
            if self._sampler.takes(fields.message_id):
                self._note(_event(now, "received", fields)._replace(group=group, client=client))

    def on_begin(self, group: str, key: QueueKey, offset: int) -> None:
        """``group`` begins to read a queue at ``offset``: it acknowledges nothing below it."""
        self._acked_to.setdefault((group, key), offset)

    def on_settled(
        self, group: str, client: str, key: QueueKey, begin: int, end: int, what: str, detail: str = ""
    ) -> None:
        """``group`` has settled messages of a queue: acked, released, failed or rejected."""
        now = self._clock.wall_ms()
        for fields in self._read(key, begin, end):
            if self._sampler.takes(fields.message_id):
                self._note(
                    _event(now, what, fields)._replace(group=group, client=client, detail=detail or _detail(fields))
                )

    def on_committed(self, group: str, client: str, key: QueueKey, offset: int) -> None:
        """``group`` has committed ``offset``: it has acknowledged the messages below it."""
        begin = self._acked_to.get((group, key), offset)
        self._acked_to[group, key] = offset
        begin = max(begin, self._store.state.start_offsets.get(key, 0))
        if begin < offset:
            self.on_settled(group, client, key, begin, offset, "acked")

    def _note(self, event: TraceEvent) -> None:
        if len(self._events) >= _MAX_WAITING:
            self._missed += 1
        else:
            self._events.append(event)
        self._flush_soon()

    def _flush_soon(self) -> None:
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(_EVERY_SECONDS, self.flush)

    # Writing --------------------------------------------------------------------------------------

    def flush(self) -> None:
        """Write all events that wait."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        try:
            self._follow_queues()
            events, self._events = self._events, []
            now = self._clock.wall_ms()
            if self._missed:
                events.append(
                    TraceEvent(
                        now,
                        "missed",
                        detail=f"{self._missed} events were dropped: they arrived faster than they could be written",
                    )
                )
                self._missed = 0
            placed = [
                Placed(record, *_TRACE_QUEUE, RecordKind.MESSAGE) for record in encode_events(in_order(events), now)
            ]
            if placed:
                self._store.append_placed(placed)
        except LiteMQError as error:
            _LOG.warning("the trace is incomplete: %s", error)

    def _follow_queues(self) -> None:
        """Read the appended messages of queues; unconfirmed ones wait for the next call."""
        appended, self._appended = self._appended, {}
        state = self._store.state
        # No event follows an append of dead letters, so their topics are always read.
        dead = [QueueKey(topic.topic_id, 0) for topic in state.topics.values() if topic.name.startswith(DEAD_PREFIX)]
        appended.update(
            dict.fromkeys(key for key in dead if state.end_offsets.get(key, 0) > self._traced_to.get(key, 0))
        )
        for key in appended:
            end_offset = state.end_offsets.get(key, 0)
            at = self._traced_to.get(key, 0)
            found = self._read(key, at, end_offset)
            for fields in found:
                if self._sampler.takes(fields.message_id):
                    self._note(_event(fields.store_timestamp, _APPENDED.get(fields.kind, "stored"), fields))
            self._traced_to[key] = at = found[-1].queue_offset + 1 if found else at
            if at < end_offset:
                self._appended[key] = None
                self._flush_soon()

    def _read(self, key: QueueKey, begin: int, end: int) -> list[MessageFields]:
        """Return messages that are in memory and confirmed; count the others as missed."""
        try:
            records = self._store.read_if_hot(key, begin, min(end - begin, _READ_MESSAGES), _READ_BYTES)
        except LiteMQError:
            records = None
        if records is None:
            self._missed += end - begin
            self._traced_to[key] = max(end, self._traced_to.get(key, 0))
            return []
        return decode_messages(bytes(records))

    def close(self) -> None:
        """Write all events that wait, and stop."""
        if self.is_on:
            self.flush()
            if self._timer is not None:
                self._timer.cancel()


def _event(at: int, what: str, fields: MessageFields) -> TraceEvent:
    is_retry = fields.kind is RecordKind.RETRY  # the queue id of a retry queue is its topic's id
    if fields.kind is RecordKind.DEAD:
        history = history_from_properties(fields.properties)
        words = f"{history.reason.name.lower()} {history.error}".rstrip()
        topic = fields.topic.removeprefix(DEAD_PREFIX)
        return TraceEvent(
            at,
            what,
            fields.message_id,
            topic,
            group=history.group,
            client=history.consumer,
            tries=history.tries,
            detail=words,
        )
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
