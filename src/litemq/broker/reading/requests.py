"""PULL, OFFSET_AT_TIME and FIND: reads by offset, by time and by key."""

from __future__ import annotations

from litemq.broker.groups.coordinator import GroupCoordinator
from litemq.broker.groups.recent_consumers import RETRY_QUEUE, RecentConsumers
from litemq.broker.reading.long_polls import LongPolls
from litemq.broker.runtime.caller import Caller
from litemq.broker.runtime.context import BrokerContext
from litemq.broker.runtime.handlers import Handler, Permission
from litemq.broker.runtime.request_header import parse
from litemq.format.limits import STORED_LIMITS
from litemq.format.record_encode import encode_record
from litemq.net.frame import Frame
from litemq.proto.wire_pb2 import FindRequest, OffsetAnswer, OffsetAtTimeRequest, Opcode, PullRequest
from litemq.storage.state import QueueKey
from litemq.types import StoredRecord

__all__ = ["ReadRequests"]


class ReadRequests:
    """Passes pulls on to the long polls, and looks messages up by time and key in a thread."""

    def __init__(
        self, context: BrokerContext, long_polls: LongPolls, groups: GroupCoordinator, recent_consumers: RecentConsumers
    ) -> None:
        self._store = context.store
        self._limits = context.limits
        self._topics = context.topics
        self._answers = context.answers
        self._long_polls = long_polls
        self._groups = groups
        self._recent_consumers = recent_consumers
        self.handlers = (
            # With a group, the permissions are those of JOIN_GROUP.
            Handler(Opcode.PULL, Permission.TOPIC_READ, self._pull),
            Handler(Opcode.OFFSET_AT_TIME, Permission.TOPIC_GET, self._offset_at_time),
            Handler(Opcode.FIND, Permission.TOPIC_READ, self._find),
        )

    def _pull(self, caller: Caller, frame: Frame) -> None:
        request = parse(PullRequest, frame[3])
        topic = self._topics.find_with_queue(request.topic, request.queue_id)
        key = self._groups.queue_key(request.group, topic, request.queue_id, is_retry=request.is_retry)
        if request.group:
            self._groups.check_owner(caller, request.group, topic.topic_id, key, request.generation)
            queue_id = RETRY_QUEUE if request.is_retry else request.queue_id
            self._recent_consumers.record_visit(
                request.group, topic.topic_id, queue_id, caller.client_id, request.filter, is_sql=request.filter_is_sql
            )
        self._long_polls.offer(caller, frame, request, key)

    def _offset_at_time(self, caller: Caller, frame: Frame) -> None:
        request = parse(OffsetAtTimeRequest, frame[3])
        key = QueueKey(self._topics.find(request.topic).topic_id, request.queue_id)

        def look() -> tuple[bytes, bytes]:
            return OffsetAnswer(
                offset=self._store.offset_at_time(key, request.store_timestamp)
            ).SerializeToString(), b""

        self._answers.look_up(caller, frame, look)

    def _find(self, caller: Caller, frame: Frame) -> None:
        request = parse(FindRequest, frame[3])
        topic = self._topics.find(request.topic)
        limit = min(request.most or self._limits.max_found, self._limits.max_found)

        def look() -> tuple[bytes, bytes]:
            return b"", b"".join(
                map(_raw, _fitting(self._store.find(topic.name, request.key, limit), self._limits.max_pull_bytes))
            )

        self._answers.look_up(caller, frame, look)


def _raw(found: StoredRecord) -> bytes:
    return encode_record(found.record, found.stamp, limits=STORED_LIMITS)


def _fitting(found: list[StoredRecord], max_bytes: int) -> list[StoredRecord]:
    """Return the first records that fit into ``max_bytes``, at least one."""
    size = 0
    for count, record in enumerate(found):
        size += record.size
        if count and size > max_bytes:
            return found[:count]
    return found
