"""CREATE_TOPIC, ALTER_TOPIC, DELETE_TOPIC, DESCRIBE_TOPIC, LIST_TOPICS."""

from __future__ import annotations

from typing import Protocol

from google.protobuf.message import Message

from litemq.broker.runtime.caller import Caller
from litemq.broker.runtime.context import BrokerContext
from litemq.broker.runtime.deferred_answers import answer_when_safe
from litemq.broker.runtime.handlers import Handler, Permission
from litemq.broker.runtime.request_header import parse
from litemq.broker.topics.queue_ranges import full_offset_range
from litemq.broker.topics.settings import (
    altered,
    check_same,
    count_queue_ids,
    settings_from_wire,
    settings_record,
    settings_to_wire,
)
from litemq.errors import InvalidArgumentError, TopicNotFoundError, UnsupportedFeatureError
from litemq.net.frame import Frame
from litemq.proto.wire_pb2 import (
    AlterTopicRequest,
    CreateTopicRequest,
    Empty,
    ListTopicsRequest,
    Opcode,
    TopicAnswer,
    TopicQueues,
    TopicRequest,
    TopicsAnswer,
)
from litemq.storage.state import QueueKey, Topic
from litemq.types import ReplicaAck, check_name

__all__ = ["TopicAnnouncer", "TopicRequests"]


class TopicAnnouncer(Protocol):
    """Publishes the topics of a broker."""

    async def announce(self) -> None:
        """Publish the broker's topics to the NameServers and return once they have acknowledged."""
        ...


class TopicRequests:
    """Changes topics and describes them. A change is answered when it is durable and announced."""

    def __init__(self, context: BrokerContext, announcer: TopicAnnouncer | None) -> None:
        self._store = context.store
        self._limits = context.limits
        self._topics = context.topics
        self._events = context.events
        self._answers = context.answers
        self._announcer = announcer
        self.handlers = (
            Handler(Opcode.CREATE_TOPIC, Permission.TOPIC_CREATE, self._create),
            Handler(Opcode.ALTER_TOPIC, Permission.TOPIC_UPDATE, self._alter),
            Handler(Opcode.DELETE_TOPIC, Permission.TOPIC_DELETE, self._delete),
            Handler(Opcode.DESCRIBE_TOPIC, Permission.TOPIC_GET, self._describe),
            Handler(Opcode.LIST_TOPICS, Permission.LISTED, self._list),
        )

    def _create(self, caller: Caller, frame: Frame) -> None:
        request = parse(CreateTopicRequest, frame[3])
        check_name(request.topic)
        topic = self._store.state.topic(request.topic)
        if topic is None and request.automatic and not self._limits.auto_create_topics:
            raise TopicNotFoundError(
                f"topic {request.topic!r} does not exist: create it with `litemq topic create {request.topic}`, or set "
                "topics.auto_create (--auto-create-topics) on the broker"
            )
        if topic is None:
            settings = settings_from_wire(request.settings)
            self._check_replicas(settings.replica_ack, settings.min_in_sync)
            queue_ids = count_queue_ids(request.queues or self._limits.default_queues, settings)
            topic = self._store.create_topic(request.topic, queue_ids, settings)
            self._answer_change(caller, frame, self._description(topic))
            return
        check_same(topic, request)
        answer_when_safe(self._store, caller, frame, self._store.log_end, self._description(topic).SerializeToString())

    def _alter(self, caller: Caller, frame: Frame) -> None:
        request = parse(AlterTopicRequest, frame[3])
        check_name(request.topic)
        topic = altered(self._topics.find(request.topic), request)
        self._check_replicas(request.replica_ack, request.min_in_sync)
        self._store.append_control(settings_record(topic))
        self._answer_change(caller, frame, self._description(topic))

    def _check_replicas(self, replica_ack: int, min_in_sync: int) -> None:
        if not self._store.is_replicated and replica_ack == ReplicaAck.MEMORY:
            raise UnsupportedFeatureError(
                "replica_ack 'memory' is not supported, because this broker has no replicas: choose 'disk'"
            )
        if not self._store.is_replicated and min_in_sync > 1:
            raise UnsupportedFeatureError(
                f"min_in_sync {min_in_sync} is not supported, because this broker has no replicas: choose 0"
            )
        if self._store.is_replicated and min_in_sync > self._limits.replicas:
            raise InvalidArgumentError(
                f"min_in_sync={min_in_sync}: the group has {self._limits.replicas} replicas, choose at most as many"
            )

    def _delete(self, caller: Caller, frame: Frame) -> None:
        topic = self._topics.find(parse(TopicRequest, frame[3]).topic)
        check_name(topic.name)
        self._store.delete_topic(topic.name)
        self._answer_change(caller, frame, Empty())

    def _describe(self, caller: Caller, frame: Frame) -> None:
        topic = self._topics.find(parse(TopicRequest, frame[3]).topic)
        caller.answer(frame, self._description(topic).SerializeToString())

    def _list(self, caller: Caller, frame: Frame) -> None:
        shown = self._topics.readable if parse(ListTopicsRequest, frame[3]).include_system else self._topics.user_topics
        topics = [
            TopicQueues(topic=topic.name, queues=topic.queues, has_priorities=topic.has_priorities) for topic in shown
        ]
        caller.answer(frame, TopicsAnswer(topics=topics).SerializeToString())

    def _description(self, topic: Topic) -> TopicAnswer:
        ranges = []
        for queue_id in range(topic.queues):
            key = QueueKey(topic.topic_id, queue_id)
            ranges.append(full_offset_range(self._store, key))
            ranges[-1].confirmed = self._store.readable_end(key)
        return TopicAnswer(
            topic=topic.name,
            queues=ranges,
            settings=settings_to_wire(topic),
            topic_id=topic.topic_id,
            created_at=topic.created_at,
        )

    def _answer_change(self, caller: Caller, frame: Frame, answer: Message) -> None:
        """Answer once the change is durable, and NameServers know of it: a client that asks for the
        route next finds it.
        """
        self._events.on_topics_changed()
        end = self._store.log_end

        async def announce() -> None:
            if self._announcer is not None:
                await self._announcer.announce()
            answer_when_safe(self._store, caller, frame, end, answer.SerializeToString())

        self._answers.in_background(announce())
