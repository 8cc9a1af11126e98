"""A broker: what each request leads to.

No socket is known here. Requests come as frames from a ``Caller``, which takes the answers; where it sits, in another process or in this
one, makes no difference.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterable
from typing import Final

from google.protobuf.message import Message

from litemq.broker.admission.backlog import Backlog
from litemq.broker.admission.quotas import Quotas
from litemq.broker.dead_letters.reading import Letters
from litemq.broker.dead_letters.redrive import Redriving
from litemq.broker.dead_letters.requests import DeadLetterRequests
from litemq.broker.delivery.lessor import Leasing
from litemq.broker.delivery.requests import LeaseRequests
from litemq.broker.delivery.retry_scheduler import Retries
from litemq.broker.explain.evidence import Gatherer
from litemq.broker.explain.requests import WhyRequests
from litemq.broker.groups.admin_requests import GroupAdmin
from litemq.broker.groups.coordinator import Groups
from litemq.broker.groups.member_requests import GroupRequests
from litemq.broker.groups.recent_consumers import RETRY_QUEUE, Visitors
from litemq.broker.jobs.requests import JobRequests
from litemq.broker.jobs.scheduler import Cron
from litemq.broker.limits import BrokerLimits
from litemq.broker.reading.long_polls import Pulling
from litemq.broker.runtime.alarms import Alarms
from litemq.broker.runtime.caller import Caller
from litemq.broker.runtime.deferred_answers import Answering, answer_when_safe
from litemq.broker.runtime.request_header import parse as _parse
from litemq.broker.sending.tick_batcher import Request, Sending
from litemq.broker.timers.firing import Timers
from litemq.broker.timers.requests import TimerRequests
from litemq.broker.topics.archive_requests import ArchiveRequests
from litemq.broker.topics.queue_ranges import full_range_of
from litemq.broker.topics.settings import altered, change_of, check_same, queue_ids_of, settings_of, told_settings
from litemq.broker.tracing.recorder import Trace
from litemq.broker.tracing.traced_caller import TracedCallers
from litemq.broker.transactions.transactions import Transactions
from litemq.clock import Clock
from litemq.errors import InvalidArgumentError, LiteMQError, ProtocolError, StorageError, TopicNotFoundError
from litemq.format.limits import STORED_LIMITS
from litemq.format.record import encode_record
from litemq.net.frame import Flag, Frame
from litemq.proto.wire_pb2 import (
    AlterTopicRequest,
    CreateTopicRequest,
    Empty,
    FindRequest,
    ListTopicsRequest,
    OffsetAnswer,
    OffsetAtTimeRequest,
    Opcode,
    PullRequest,
    SendRequest,
    TopicAnswer,
    TopicQueues,
    TopicRequest,
    TopicsAnswer,
)
from litemq.storage.state import QueueKey, TopicFacts
from litemq.storage.store import Store
from litemq.types import StoredRecord, check_name, is_system_name

__all__ = ["Broker"]

_SEND: Final = int(Opcode.SEND)
_FOR_NAMES: Final = range(Opcode.REGISTER_BROKER, Opcode.LIST_BROKERS + 1)
_KNOWN_HEADERS: Final = 10_000
_LOG = logging.getLogger(__name__)


class Broker:
    """Services over a store, for everybody who is connected; made on the event loop that it runs on."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        limits: BrokerLimits | None = None,
        *,
        announce: Callable[[], Awaitable[None]] | None = None,
        name: str = "",
        zone: str = "",
        session_clock: Clock | None = None,
    ) -> None:
        """``announce`` tells the world which topics there are, and returns when it knows.

        ``session_clock`` measures the silence of members: in a test whose clock stands still, they breathe all the same.
        """
        self._store = store
        self._limits = limits or BrokerLimits()
        self._announce = announce
        self._pulling = Pulling(store, self._limits, clock)
        quotas = Quotas(clock, self._limits.quota_messages_per_s, self._limits.quota_bytes_per_s)
        self.alarms = Alarms(clock)
        self._timers = Timers(store, clock, self.alarms, self._grown)
        backlog = Backlog(store, clock, self._limits.max_backlog)
        self._sending = Sending(store, clock, self._limits, quotas, self._grown, self._timers.held, backlog)
        self.groups = Groups(store, session_clock or clock, self._limits, self._pulling.withdraw, broker=name, zone=zone)
        self._group_requests = GroupRequests(store, self.groups, self._topic)
        self._retries = Retries(store, clock, self.alarms, self._tried_again)
        self._leasing = Leasing(store, self._limits, clock, self.alarms, self._retries.wait)
        self._answering = Answering()
        self._transactions = Transactions(
            store,
            clock,
            self._limits,
            quotas,
            backlog,
            self.alarms,
            self._topic,
            self._grown,
            self._timers.held,
            self._answering,
        )
        letters = Letters(store)
        self._redriving = Redriving(store, letters, clock, self._answering.lookups, self._grown)
        dead_letter_requests = DeadLetterRequests(letters, self._redriving, self._limits, self._answering)
        self._cron = Cron(store, clock, self.alarms, self._grown)
        job_requests = JobRequests(store, clock, self._cron, self._limits, self._answering, self._grown)
        timer_requests = TimerRequests(store, clock, self._limits, self._answering, self._topic, self._timers.held)
        self._visitors = Visitors(clock)
        is_paused = store.state.delivery.groups.is_paused
        why_requests = WhyRequests(Gatherer(store, clock, self._visitors, self._answering.lookups, is_paused), self._answering)
        self._trace = Trace(store, clock, self._limits.trace, self._limits.trace_one_in)
        self._traced = TracedCallers(self._trace, store) if self._trace.is_on else None
        # Headers of sends repeat: few producers, few queues, always the same bytes.
        self._destinations: dict[bytes, tuple[int, int]] = {}
        self._handlers: dict[int, Callable[[Caller, Frame], None]] = {
            Opcode.PULL: self._pull,
            **self._group_requests.handlers,
            Opcode.OFFSET_AT_TIME: self._offset_at_time,
            Opcode.FIND: self._find,
            Opcode.CREATE_TOPIC: self._create_topic,
            Opcode.DELETE_TOPIC: self._delete_topic,
            Opcode.DESCRIBE_TOPIC: self._describe_topic,
            Opcode.LIST_TOPICS: self._list_topics,
            **dead_letter_requests.handlers,
            **why_requests.handlers,
            **job_requests.handlers,
            **timer_requests.handlers,
            **GroupAdmin(store, clock, self.groups, self._topic, self._answering, self._group_changed).handlers,
            Opcode.ALTER_TOPIC: self._alter_topic,
            **ArchiveRequests(store, clock, self._topic).handlers,
            **self._transactions.handlers,
            **LeaseRequests(self._leasing, self.groups, self._limits, self._topic, self._visitors).handlers,
        }

    @property
    def topics(self) -> list[TopicFacts]:
        """The users' topics, by name."""
        facts = [facts for facts in self._store.state.topics.values() if not facts.deleted and not is_system_name(facts.name)]
        return sorted(facts, key=lambda topic: topic.name)

    def handle(self, caller: Caller, frames: Iterable[Frame]) -> None:
        """Take the requests of one caller that arrived together."""
        if self._traced is not None:
            caller = self._traced.of(caller)
        destinations = self._destinations
        sends: list[Request] = []
        topic_id = -1
        for frame in frames:
            if frame[1] == _SEND and not frame[2]:
                destination = destinations.get(frame[3])
                if destination is not None:
                    if destination[0] != topic_id:
                        topic_id = destination[0]
                        sends = self._sending.of_topic(topic_id)
                    sends.append((caller, frame, destination[1]))
                    continue
            try:
                self._handle(caller, frame)
            except LiteMQError as error:
                caller.refuse(frame, error)
            except Exception:  # noqa: BLE001  whoever asked waits for an answer, and the others are served on
                _LOG.exception("a request with opcode %d from %s failed", frame[1], caller.peer)
                caller.refuse(frame, StorageError("the broker could not do this; its log says why"))

    def _handle(self, caller: Caller, frame: Frame) -> None:
        if frame[2] & (Flag.ANSWER | Flag.ERROR):
            raise ProtocolError(f"a request with flags {frame[2]}: those are for answers")
        if frame[1] == _SEND:
            topic_id, queue_id = self._destination(frame[3])
            self._sending.of_topic(topic_id).append((caller, frame, queue_id))
            return
        handler = self._handlers.get(frame[1])
        if handler is None:
            hint = ": this is a broker, and that is a question for a NameServer, by default at port 9876" if frame[1] in _FOR_NAMES else ""
            raise ProtocolError(f"a broker does not know opcode {frame[1]}{hint}")
        handler(caller, frame)

    def _grown(self, keys: list[QueueKey], end: int) -> None:
        self._pulling.grown(keys, end)
        self._leasing.grown(keys, end)
        self._trace.grown(keys, end)

    def _group_changed(self, group: str) -> None:
        self._pulling.resumed(group)
        self._leasing.changed(group)

    def _tried_again(self, group: str, key: QueueKey, end: int) -> None:
        self.groups.add_retry_queue(group, key)
        self._pulling.grown([key], end)
        self._trace.grown([key], end)
        self._leasing.tried_again(group, key.queue_id, end)

    def gone(self, caller: Caller) -> None:
        """A caller's connection has ended."""
        if self._traced is not None:
            caller = self._traced.gone(caller)
        self._sending.gone(caller)
        self._pulling.gone(caller)
        self._leasing.gone(caller)
        self._transactions.gone(caller)
        self.groups.gone(caller)

    async def fire_due(self) -> int:
        """Do at once what is due by now, instead of within some milliseconds: for tests that move a clock. Returns how much that was."""
        return (
            self.alarms.ring_due() + await self._transactions.copy_decided() + await self._timers.fire_due() + await self._cron.fire_due()
        )

    def close(self) -> None:
        """Answer those who wait; the store is its owner's to close."""
        self._trace.close()
        self._timers.close()
        self._cron.close()
        self._transactions.close()
        self.alarms.close()
        self._sending.close()
        self._pulling.close()
        self._redriving.close()
        self._leasing.close()
        self._retries.close()
        self.groups.close()
        self._answering.close()

    # Sending and reading ------------------------------------------------------------------------------------------------------

    def _destination(self, header: bytes) -> tuple[int, int]:
        request = _parse(SendRequest, header)
        topic = self._topic(request.topic)
        if request.queue_id >= topic.queues:
            raise InvalidArgumentError(f"queue {request.queue_id}: topic {topic.name!r} has {topic.queues}")
        if is_system_name(topic.name):
            raise InvalidArgumentError(f"topic {topic.name!r} is the broker's own")
        if len(self._destinations) >= _KNOWN_HEADERS:
            self._destinations.clear()
        destination = self._destinations[header] = (topic.topic_id, request.queue_id)
        return destination

    def _pull(self, caller: Caller, frame: Frame) -> None:
        request = _parse(PullRequest, frame[3])
        topic = self._topic(request.topic)
        if request.queue_id >= topic.queues:
            raise InvalidArgumentError(f"queue {request.queue_id}: topic {topic.name!r} has {topic.queues}")
        key = self.groups.key_of(request.group, topic, request.queue_id, is_retry=request.is_retry)
        if request.group:
            self.groups.check_owner(caller, request.group, topic.topic_id, key, request.generation)
            queue_id = RETRY_QUEUE if request.is_retry else request.queue_id
            self._visitors.came(request.group, topic.topic_id, queue_id, caller.client_id, request.filter, is_sql=request.filter_is_sql)
        self._pulling.offer(caller, frame, request, key)

    # Looking things up: from disk, and so not on the event loop ------------------------------------------------------------------

    def _offset_at_time(self, caller: Caller, frame: Frame) -> None:
        request = _parse(OffsetAtTimeRequest, frame[3])
        key = QueueKey(self._topic(request.topic).topic_id, request.queue_id)

        def look() -> tuple[bytes, bytes]:
            return OffsetAnswer(offset=self._store.offset_at_time(key, request.store_timestamp)).SerializeToString(), b""

        self._answering.look_up(caller, frame, look)

    def _find(self, caller: Caller, frame: Frame) -> None:
        request = _parse(FindRequest, frame[3])
        topic = self._topic(request.topic)
        most = min(request.most or self._limits.max_found, self._limits.max_found)

        def look() -> tuple[bytes, bytes]:
            return b"", b"".join(map(_raw, _fitting(self._store.find(topic.name, request.key, most), self._limits.max_pull_bytes)))

        self._answering.look_up(caller, frame, look)

    # Topics -------------------------------------------------------------------------------------------------------------------

    def _topic(self, name: str) -> TopicFacts:
        topic = self._store.state.topic(name)
        if topic is None:
            raise TopicNotFoundError(f"there is no topic {name!r}: create it with `litemq topic create {name}`")
        return topic

    def _create_topic(self, caller: Caller, frame: Frame) -> None:
        request = _parse(CreateTopicRequest, frame[3])
        check_name(request.topic)
        topic = self._store.state.topic(request.topic)
        if topic is None and request.automatic and not self._limits.auto_create_topics:
            raise TopicNotFoundError(
                f"there is no topic {request.topic!r}, and this broker does not create topics by itself (auto_create_topics): "
                f"create it with `litemq topic create {request.topic}`"
            )
        if topic is None:
            settings = settings_of(request.settings)
            queue_ids = queue_ids_of(request.queues or self._limits.default_queues, settings)
            topic = self._store.create_topic(request.topic, queue_ids, settings)
            self._topics_changed(caller, frame, self._describe(topic))
            return
        check_same(topic, request)
        answer_when_safe(self._store, caller, frame, self._store.log_end, self._describe(topic).SerializeToString())

    def _alter_topic(self, caller: Caller, frame: Frame) -> None:
        request = _parse(AlterTopicRequest, frame[3])
        check_name(request.topic)
        topic = altered(self._topic(request.topic), request)
        self._store.append_control(change_of(topic))
        self._topics_changed(caller, frame, self._describe(topic))

    def _delete_topic(self, caller: Caller, frame: Frame) -> None:
        topic = self._topic(_parse(TopicRequest, frame[3]).topic)
        check_name(topic.name)
        self._store.delete_topic(topic.name)
        self._topics_changed(caller, frame, Empty())

    def _describe_topic(self, caller: Caller, frame: Frame) -> None:
        topic = self._topic(_parse(TopicRequest, frame[3]).topic)
        caller.answer(frame, self._describe(topic).SerializeToString())

    def _list_topics(self, caller: Caller, frame: Frame) -> None:
        shown = self.topics
        if _parse(ListTopicsRequest, frame[3]).include_system:
            # Those that have queues of any number are read by nobody but the broker.
            shown = [topic for topic in self._store.state.topics.values() if not topic.deleted and topic.queues]
        topics = [TopicQueues(topic=topic.name, queues=topic.queues, has_priorities=topic.has_priorities) for topic in shown]
        caller.answer(frame, TopicsAnswer(topics=topics).SerializeToString())

    def _describe(self, topic: TopicFacts) -> TopicAnswer:
        ranges = []
        for queue_id in range(topic.queues):
            key = QueueKey(topic.topic_id, queue_id)
            ranges.append(full_range_of(self._store, key))
            ranges[-1].confirmed = self._store.confirmed_next(key)
        return TopicAnswer(
            topic=topic.name, queues=ranges, settings=told_settings(topic), topic_id=topic.topic_id, created_at=topic.created_at
        )

    def _topics_changed(self, caller: Caller, frame: Frame, answer: Message) -> None:
        """Answer once the change is safe, and known to whoever is asked for the topic next."""
        self._destinations.clear()
        end = self._store.log_end

        async def tell() -> None:
            if self._announce is not None:
                await self._announce()
            answer_when_safe(self._store, caller, frame, end, answer.SerializeToString())

        self._answering.in_background(tell())


def _raw(found: StoredRecord) -> bytes:
    return encode_record(found.record, found.stamp, limits=STORED_LIMITS)


def _fitting(found: list[StoredRecord], max_bytes: int) -> list[StoredRecord]:
    """The first ones that fit into one answer: at least one if there is one."""
    size = 0
    for count, record in enumerate(found):
        size += record.size
        if count and size > max_bytes:
            return found[:count]
    return found
