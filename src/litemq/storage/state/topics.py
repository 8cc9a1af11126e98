"""Topics, their settings and the keys of their queues, with the ids and names of system topics."""

from __future__ import annotations

from typing import Final, NamedTuple

from litemq.errors import InvalidArgumentError
from litemq.proto.control_pb2 import Topic as WireTopic
from litemq.types import Archived, Compatibility, ReplicaAck, Visibility

__all__ = [
    "CONTROL_TOPIC",
    "CONTROL_TOPIC_ID",
    "FIRST_FREE_TOPIC_ID",
    "HALF_TOPIC_ID",
    "NO_SETTINGS",
    "ROLLBACK_TOPIC",
    "ROLLBACK_TOPIC_ID",
    "SYSTEM_TOPICS",
    "TIMER_TOPIC_ID",
    "TRACE_TOPIC_ID",
    "QueueKey",
    "Topic",
    "TopicSettings",
    "dead_letter_topic",
    "retry_topic",
    "system_topic_queues",
]

CONTROL_TOPIC: Final = "LITEMQ_SYS_CONTROL"
CONTROL_TOPIC_ID: Final = 1
TIMER_TOPIC_ID: Final = 2
HALF_TOPIC_ID: Final = 3
ROLLBACK_TOPIC: Final = "RMQ_SYS_TRANS_OP_HALF_TOPIC"
ROLLBACK_TOPIC_ID: Final = 4
TRACE_TOPIC_ID: Final = 5
FIRST_FREE_TOPIC_ID: Final = 16  # lower ids are system topics, the same in every log


class TopicSettings(NamedTuple):
    """The settings of a topic. If a setting is 0, the broker's default applies."""

    has_priorities: bool = False  # a queue has 8 queue ids: queue x 8 + priority // 32. Fixed at creation
    ttl_ms: int = 0  # of messages without their own
    max_backlog: int = 0  # messages of a queue that the slowest group has not consumed
    backlog_dead_letters: bool = False  # dead-letter messages over the limit instead of refusing them
    weighted_priorities: bool = False  # leases give each priority class a share instead of the highest first
    archived: int = Archived.NO  # whether retention waits for the archive
    archive_wait_ms: int = 0  # the minimum age of an unarchived message that retention may drop
    check_after_ms: int = 0  # the time until the first check of a transaction's outcome
    check_every_ms: int = 0  # the time between further checks
    max_checks: int = 0
    retention_ms: int = 0  # the maximum age of messages
    schemas: tuple[str, ...] = ()  # JSON schemas of the bodies, oldest first
    compatibility: int = Compatibility.BACKWARD  # of a new schema with the earlier ones
    visibility: int = Visibility.CONFIRMED  # of messages to consumers
    replica_ack: int = ReplicaAck.DISK  # of durability ``replicas``
    min_in_sync: int = 0  # replicas that durability ``replicas`` needs, if more than the group's setting


NO_SETTINGS: Final = TopicSettings()


class Topic(NamedTuple):
    """A topic with its number of queues and its settings.

    A system topic with 0 queues has a queue for every id.
    """

    topic_id: int
    name: str
    queues: int
    deleted: bool = False
    has_priorities: bool = False
    ttl_ms: int = 0
    max_backlog: int = 0
    backlog_dead_letters: bool = False
    weighted_priorities: bool = False
    archived: int = Archived.NO
    archive_wait_ms: int = 0
    check_after_ms: int = 0
    check_every_ms: int = 0
    max_checks: int = 0
    created_at: int = 0  # ms
    retention_ms: int = 0
    schemas: tuple[str, ...] = ()
    compatibility: int = Compatibility.BACKWARD
    visibility: int = Visibility.CONFIRMED
    replica_ack: int = ReplicaAck.DISK
    min_in_sync: int = 0

    @classmethod
    def from_wire(cls, topic: WireTopic) -> Topic:
        """Convert a topic of a control record."""
        fields = {name: getattr(topic, name) for name in cls._fields}
        return cls(**{**fields, "schemas": tuple(topic.schemas)})

    def to_wire(self) -> WireTopic:
        """Convert to a topic of a control record."""
        return WireTopic(**self._asdict())

    @property
    def settings(self) -> TopicSettings:
        return TopicSettings(*(getattr(self, name) for name in TopicSettings._fields))

    def has_queue(self, queue_id: int) -> bool:
        return 0 <= queue_id < (self.queues or 1 << 32)


class QueueKey(NamedTuple):
    """The topic and the queue id of one queue."""

    topic_id: int
    queue_id: int


SYSTEM_TOPICS: Final = (
    Topic(CONTROL_TOPIC_ID, CONTROL_TOPIC, 1),
    Topic(TIMER_TOPIC_ID, "LITEMQ_SYS_TIMER", 0),
    Topic(HALF_TOPIC_ID, "RMQ_SYS_TRANS_HALF_TOPIC", 0),
    Topic(ROLLBACK_TOPIC_ID, ROLLBACK_TOPIC, 1),
    Topic(TRACE_TOPIC_ID, "LITEMQ_SYS_TRACE", 1),
    Topic(6, "LITEMQ_SYS_AUDIT", 1),
)


_RETRY: Final = "%RETRY%"
_DEAD_LETTERS: Final = "%DLQ%"


def retry_topic(group: str) -> str:
    """Return the retry topic of ``group``; its queue ids are the topic ids of the messages."""
    return _RETRY + group


def dead_letter_topic(topic: str) -> str:
    """Return the topic for the dead letters of ``topic``."""
    return _DEAD_LETTERS + topic


def system_topic_queues(name: str) -> int:
    """Return the number of queues of a retry or dead-letter topic; 0: a queue for every id.

    Raise ``InvalidArgumentError`` for any other name.
    """
    if name.startswith(_RETRY):
        return 0
    if name.startswith(_DEAD_LETTERS):
        return 1
    raise InvalidArgumentError(f"topic {name!r} is not a system topic")
