"""OFFSET_AT_TIME and FIND: reads by time and by key."""

from __future__ import annotations

from litemq.broker.runtime.caller import Caller
from litemq.broker.runtime.context import BrokerContext
from litemq.broker.runtime.handlers import Handler, Permission
from litemq.broker.runtime.request_header import parse
from litemq.format.limits import STORED_LIMITS
from litemq.format.record_encode import encode_record
from litemq.net.frame import Frame
from litemq.proto.wire_pb2 import FindRequest, OffsetAnswer, OffsetAtTimeRequest, Opcode
from litemq.storage.state import QueueKey
from litemq.types import StoredRecord

__all__ = ["LookUpRequests"]


class LookUpRequests:
    """Looks messages up by time and key in a thread."""

    def __init__(self, context: BrokerContext) -> None:
        self._store = context.store
        self._limits = context.limits
        self._topics = context.topics
        self._answers = context.answers
        self.handlers = (
            Handler(Opcode.OFFSET_AT_TIME, Permission.TOPIC_GET, self._offset_at_time),
            Handler(Opcode.FIND, Permission.TOPIC_READ, self._find),
        )

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
