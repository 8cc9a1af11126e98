"""Topics and queues of a log, as their names for each other."""

from __future__ import annotations

from typing import Final, NamedTuple

from litemq.errors import InvalidArgumentError
from litemq.proto.control_pb2 import Topic
from litemq.types import Archived

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
    "TopicFacts",
    "TopicSettings",
    "dead_letter_topic",
    "queues_of_system_topic",
    "retry_topic",
]

CONTROL_TOPIC: Final = "LITEMQ_SYS_CONTROL"
CONTROL_TOPIC_ID: Final = 1
TIMER_TOPIC_ID: Final = 2
HALF_TOPIC_ID: Final = 3
ROLLBACK_TOPIC: Final = "RMQ_SYS_TRANS_OP_HALF_TOPIC"
ROLLBACK_TOPIC_ID: Final = 4
TRACE_TOPIC_ID: Final = 5
FIRST_FREE_TOPIC_ID: Final = 16  # those below are the broker's own, the same in every log


class TopicSettings(NamedTuple):
    """What can be chosen for a topic. Zeros: as the broker has it for all."""

    has_priorities: bool = False  # each queue is 8 queue ids: queue x 8 + priority // 32. For as long as the topic is there
    ttl_ms: int = 0  # of messages that name none
    max_backlog: int = 0  # entries of a queue behind the slowest group
    backlog_dead_letters: bool = False  # what is over it goes to the dead letters instead of being refused
    weighted_priorities: bool = False  # under leases, each class gets a share; else the higher one first
    archived: int = Archived.NO  # whether retention waits for its archive
    archive_wait_ms: int = 0  # how old what is not archived gets, at least
    check_after_ms: int = 0  # when producers are asked for a transaction's outcome, first
    check_every_ms: int = 0  # and then again
    max_checks: int = 0  # so often at most


NO_SETTINGS: Final = TopicSettings()


class TopicFacts(NamedTuple):
    """A topic, how many queues it has, and its settings. 0 queues: any number may be one, as the broker needs them."""

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

    @classmethod
    def of(cls, topic: Topic) -> TopicFacts:
        """As a record tells them."""
        return cls(*(getattr(topic, name) for name in cls._fields))

    def told(self) -> Topic:
        """As a record tells them."""
        return Topic(**self._asdict())

    @property
    def settings(self) -> TopicSettings:
        """What was chosen for it."""
        return TopicSettings(*(getattr(self, name) for name in TopicSettings._fields))

    def has_queue(self, queue_id: int) -> bool:
        """Whether a number is that of one of its queues."""
        return 0 <= queue_id < (self.queues or 1 << 32)


class QueueKey(NamedTuple):
    """A queue of this log."""

    topic_id: int
    queue_id: int


SYSTEM_TOPICS: Final = (
    TopicFacts(CONTROL_TOPIC_ID, CONTROL_TOPIC, 1),
    TopicFacts(TIMER_TOPIC_ID, "LITEMQ_SYS_TIMER", 0),
    TopicFacts(HALF_TOPIC_ID, "RMQ_SYS_TRANS_HALF_TOPIC", 0),
    TopicFacts(ROLLBACK_TOPIC_ID, ROLLBACK_TOPIC, 1),
    TopicFacts(TRACE_TOPIC_ID, "LITEMQ_SYS_TRACE", 1),
    TopicFacts(6, "LITEMQ_SYS_AUDIT", 1),
)


_RETRY: Final = "%RETRY%"
_DEAD_LETTERS: Final = "%DLQ%"


def retry_topic(group: str) -> str:
    """Where the messages stand that a group tries again; the number of the queue is that of their topic."""
    return _RETRY + group


def dead_letter_topic(topic: str) -> str:
    """Where the dead letters of a topic stand."""
    return _DEAD_LETTERS + topic


def queues_of_system_topic(name: str) -> int:
    """How many queues a topic for the broker's own use has; 0: as it needs them."""
    if name.startswith(_RETRY):
        return 0
    if name.startswith(_DEAD_LETTERS):
        return 1
    raise InvalidArgumentError(f"topic {name!r} is not the broker's own")
