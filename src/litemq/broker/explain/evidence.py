"""Collects the evidence about a message and a group: the records with its id, and the group's
progress.

Records are looked up in a thread, because that may wait for the disk. The state of groups is read
on the event loop, where it changes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final, NamedTuple

from litemq.broker.explain.verdict import DeadLetterCause, Delivery, Evidence, Half
from litemq.broker.groups.recent_consumers import RETRY_QUEUE, ConsumerVisit, RecentConsumers
from litemq.broker.runtime.context import BrokerContext
from litemq.broker.runtime.deferred_answers import wait_readable
from litemq.broker.timers.lookup import NOT_FOUND, FoundTimer, TimerLookup, TimerName, TimerState, is_pending
from litemq.broker.tracing.events import TRACE_TOPIC, TraceEvent, decode_events, in_order
from litemq.errors import LiteMQError
from litemq.filters.filter import parse_filter
from litemq.format.dead_letters import dead_topic, history_from_properties
from litemq.format.limits import STORED_LIMITS
from litemq.format.record_encode import encode_record
from litemq.format.record_view import RecordView
from litemq.storage.state import QueueKey, Topic, retry_topic
from litemq.types import DeadReason, RecordKind, Stamp, StoredRecord, is_system_name

__all__ = ["CollectedEvidence", "EvidenceCollector"]

_MAX_COPIES: Final = 256
_MAX_TOPICS: Final = 10_000
_MAX_QUEUES: Final = 64  # whose oldest message is read
_ID_TIME_DIGITS: Final = 12  # an id begins with its creation time in ms, in hexadecimal
_EARLIEST_MS: Final = 1_500_000_000_000  # an earlier time is another kind of id


class Copy(NamedTuple):
    """A record with the id, and its stamp."""

    stored: StoredRecord
    stamp: Stamp


class CollectedEvidence(NamedTuple):
    """The evidence, and the trace of the message, if there is one."""

    evidence: Evidence
    copies: int
    events: list[TraceEvent]


class EvidenceCollector:
    """Collects the evidence of one broker."""

    def __init__(self, context: BrokerContext, recent_consumers: RecentConsumers) -> None:
        self._store = store = context.store
        self._clock = context.clock
        self._recent_consumers = recent_consumers
        self._lookups = context.answers.lookups
        self._timers = TimerLookup(store)

    async def collect(self, topic: str, message_id: str, group: str) -> CollectedEvidence:
        """Collect the evidence about a message of ``topic``, or of any topic if it is empty, and
        ``group``.
        """
        topics = self._topics(topic, group)
        loop = asyncio.get_running_loop()
        name, copies = await loop.run_in_executor(self._lookups, self._find, topics, message_id)
        half = self._half(copies)
        if half is not None:
            # The messages of a committed transaction are found once they are confirmed: look again
            # then.
            await wait_readable(self._store)
            name, copies = await loop.run_in_executor(self._lookups, self._find, topics, message_id)
        events = await loop.run_in_executor(self._lookups, self._trace, message_id)
        if not copies:
            oldest_at = await loop.run_in_executor(self._lookups, self._oldest, [name] if name else topics[:1])
            sent_at = sent_at_from_id(message_id)
            is_topic = not topic or bool(topics)
            evidence = Evidence(
                message_id,
                group,
                topic,
                self._clock.wall_ms(),
                is_topic=is_topic,
                is_found=False,
                sent_at=sent_at,
                oldest_at=oldest_at,
            )
            return CollectedEvidence(evidence, 0, events)
        timer = NOT_FOUND
        if any(is_pending(copy.stored) for copy in copies):
            known_as = TimerName(name, message_id)
            await wait_readable(self._store)
            timer = (await loop.run_in_executor(self._lookups, self._timers.find, [known_as]))[known_as]
        half = half if _are_halves(copies) else None
        return CollectedEvidence(self._evidence(name, message_id, group, copies, half, timer), len(copies), events)

    def _topics(self, topic: str, group: str) -> list[str]:
        """Return the topics to search, those of the group first."""
        state = self._store.state
        if topic:
            return [topic] if state.topic(topic) is not None else []
        names = [each.name for each in state.topics.values() if not each.deleted and not is_system_name(each.name)]
        read = {key.topic_id for name, key in state.group_offsets if name == group}
        return sorted(names, key=lambda name: (state.topic_ids[name] not in read, name))[:_MAX_TOPICS]

    # From a thread --------------------------------------------------------------------------------

    def _find(self, topics: Sequence[str], message_id: str) -> tuple[str, list[Copy]]:
        for topic in topics:
            found = [
                *self._store.find(topic, message_id, _MAX_COPIES, anywhere=True),
                *self._store.find(dead_topic(topic), message_id, _MAX_COPIES),
            ]
            copies = [
                Copy(one, one.stamp) for one in found if one.stamp is not None and one.record.message_id == message_id
            ]
            if copies:
                return topic, sorted(copies, key=lambda copy: copy.stamp.commitlog_offset)
        return "", []

    def _trace(self, message_id: str) -> list[TraceEvent]:
        found = self._store.find(TRACE_TOPIC, message_id, _MAX_COPIES)
        events = [event for one in found for event in decode_events(one.record.body) if event.message_id == message_id]
        return in_order(events)

    def _oldest(self, topics: Sequence[str]) -> int:
        """Return when the oldest remaining message was stored; 0 if retention took none."""
        state = self._store.state
        oldest = []
        for topic in topics:
            facts = state.topic(topic)
            for queue_id in range(min(facts.queues, _MAX_QUEUES) if facts is not None else 0):
                key = QueueKey(state.topic_ids[topic], queue_id)
                start_offset = state.start_offsets.get(key, 0)
                if start_offset:
                    try:
                        entries = self._store.read_entries(key, start_offset, 1)
                    except LiteMQError:
                        continue
                    oldest += entries["store_timestamp"].tolist()
        return min(oldest, default=0)

    # On the event loop ----------------------------------------------------------------------------

    def _evidence(
        self, topic: str, message_id: str, group: str, copies: list[Copy], half: Half | None, timer: FoundTimer
    ) -> Evidence:
        state, now = self._store.state, self._clock.wall_ms()
        ahead = self._log_ahead_ms()
        facts = state.topic(topic)
        if facts is None:  # deleted a moment ago
            return Evidence(message_id, group, topic, now, is_topic=False)
        own = [copy for copy in copies if copy.stamp.topic_id == facts.topic_id]
        retries = state.topic(retry_topic(group))
        tried = [copy for copy in copies if retries is not None and copy.stamp.topic_id == retries.topic_id]
        # The last record of the message: in its topic, or in the group's retry queue.
        last = max([*own[-1:], *tried[-1:]], key=lambda copy: copy.stamp.commitlog_offset, default=None)
        visits = self._recent_consumers.recent(group, facts.topic_id)
        filter_, fits = _filtered(visits, last or copies[-1])
        waiting = None if last is None else state.parts.tries.get(last.stamp.commitlog_offset, group)
        return Evidence(
            message_id,
            group,
            topic,
            now,
            stored_at=0 if not own else own[-1].stamp.store_timestamp,
            due=self._store.timers.due_time(timer.pending, timer.delay_time) if last is None else 0,
            delay_time=timer.delay_time,
            is_cancelled=last is None and timer.state is TimerState.CANCELLED,
            expire_at=copies[-1].stored.record.expire_at if last is None else last.stored.record.expire_at,
            delivery=None if last is None else self._delivery(group, facts, last, visits),
            waiting_try=None if waiting is None else (waiting.due - ahead, waiting.tries),
            dead_letter=self._dead_letter(group, copies),
            half=half,
            is_paused=self._store.state.parts.groups.is_paused(group),
            consumers=len(visits),
            filter=filter_,
            fits_filter=fits,
        )

    def _delivery(self, group: str, topic: Topic, last: Copy, visits: dict[int, ConsumerVisit]) -> Delivery:
        stamp, progress = last.stamp, self._store.state.parts.progress
        key, offset = QueueKey(stamp.topic_id, stamp.queue_id), stamp.queue_offset
        group_offset = progress.offsets.get((group, key), -1)
        queue = progress.queue(group, key)
        done = queue.done.within(group_offset, offset + 1) if queue is not None else []
        leases = queue.leases.within(offset, offset + 1) if queue is not None else []
        begin = group_offset if group_offset >= 0 else self._store.state.start_offsets.get(key, 0)
        is_retry = key.topic_id != topic.topic_id
        owner = visits.get(RETRY_QUEUE if is_retry else key.queue_id)
        return Delivery(
            "the retry queue" if is_retry else f"queue {key.queue_id}",
            offset,
            group_offset,
            offset < group_offset or any(run_begin <= offset < end for run_begin, end in done),
            leases[0].deadline - self._log_ahead_ms() if leases else 0,
            leases[0].tries if leases else 0,
            owner.client if owner is not None else "",
            max(0, offset - begin - sum(min(end, offset) - run_begin for run_begin, end in done)),
        )

    def _log_ahead_ms(self) -> int:
        """Return how far the log's clock, by which leases and retries end, is ahead."""
        log_ms: int = self._store.log_clock.wall_ms()
        return max(0, log_ms - self._clock.wall_ms())

    def _half(self, copies: list[Copy]) -> Half | None:
        """Return the half of a message that has only halves."""
        if not _are_halves(copies):
            return None
        name = copies[-1].stored.record.transaction_id
        known = self._store.state.parts.halves.get(name)
        if known is None:
            return Half(name, False, False)
        return Half(name, not known.decision_number, known.decision_number > 0)

    def _dead_letter(self, group: str, copies: list[Copy]) -> DeadLetterCause | None:
        """Return the cause of the message's latest dead letter for the group."""
        for copy in reversed(copies):
            if copy.stamp.kind is RecordKind.DEAD:
                history = history_from_properties(copy.stored.record.properties)
                if (
                    history.group in ("", group) or history.reason is DeadReason.UNDECIDED
                ):  # its group is that of the producers
                    there = copy.stamp.commitlog_offset in self._store.state.parts.dead_letters
                    return DeadLetterCause(
                        history.reason, history.error, history.dead_at, history.tries, history.fingerprint, there
                    )
        return None


def _are_halves(copies: list[Copy]) -> bool:
    return bool(copies) and all(copy.stamp.kind is RecordKind.HALF for copy in copies)


def _filtered(visits: dict[int, ConsumerVisit], last: Copy) -> tuple[str, bool]:
    """Return a filter of the group's consumers, and whether the message matches it."""
    texts = {(visit.filter, visit.filter_is_sql) for visit in visits.values() if visit.filter}
    if not texts or any(not visit.filter for visit in visits.values()):
        return "", True
    view = RecordView(encode_record(last.stored.record, last.stamp, limits=STORED_LIMITS))
    for text, is_sql in sorted(texts):
        wanted = parse_filter(text, is_sql=is_sql)
        if wanted is None or wanted.accepts(view):
            return text, True
    return min(texts)[0], False


def sent_at_from_id(message_id: str) -> int:
    """Return when a message was sent, in ms, from an id that the client made; 0 for other ids."""
    digits = message_id[:_ID_TIME_DIGITS]
    if len(message_id) < 2 * _ID_TIME_DIGITS or not all(digit in "0123456789abcdef" for digit in digits):
        return 0
    milliseconds = int(digits, 16)
    return milliseconds if _EARLIEST_MS < milliseconds < 2 * _EARLIEST_MS else 0
