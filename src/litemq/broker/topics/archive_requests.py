"""The requests of archives: how far an archive has come, and where it is."""

from __future__ import annotations

from typing import Final
from urllib.parse import urlsplit

from litemq.broker.runtime.caller import Caller
from litemq.broker.runtime.context import BrokerContext
from litemq.broker.runtime.deferred_answers import answer_when_safe
from litemq.broker.runtime.handlers import Handler, Permission
from litemq.broker.runtime.request_header import parse
from litemq.errors import InvalidArgumentError
from litemq.net.frame import Frame
from litemq.proto.control_pb2 import ArchivedThrough, Control, Queue
from litemq.proto.wire_pb2 import ArchiveAnswer, ArchivedQueue, ArchivedThroughRequest, Opcode, TopicRequest
from litemq.storage.state import QueueKey, Topic
from litemq.storage.state.archives import Archive
from litemq.types import check_name

__all__ = ["ArchiveRequests"]

_MAX_LOCATION_CHARS: Final = 1024


class ArchiveRequests:
    """Records the progress of archives, and describes them."""

    def __init__(self, context: BrokerContext) -> None:
        self._store = context.store
        self._clock = context.clock
        self._topics = context.topics
        self.handlers = (
            Handler(Opcode.ARCHIVED_THROUGH, Permission.TOPIC_UPDATE, self._archived_through),
            Handler(Opcode.DESCRIBE_ARCHIVE, Permission.TOPIC_GET, self._describe),
        )

    def _describe(self, caller: Caller, frame: Frame) -> None:
        topic = self._topics.find(parse(TopicRequest, frame[3]).topic)
        archive = self._store.state.parts.archives.topic(topic.topic_id)
        answer = ArchiveAnswer(topic_id=topic.topic_id, ttl_ms=topic.ttl_ms)
        if archive is not None:
            answer.location, answer.reported_at = archive.location, archive.at
            for queue_id, (begin, end_offset) in sorted(archive.queues.items()):
                kept = self._store.state.start_offsets.get(QueueKey(topic.topic_id, queue_id), 0)
                answer.queues.append(ArchivedQueue(queue_id=queue_id, begin=begin, next=end_offset, kept=kept))
        caller.answer(frame, answer.SerializeToString())

    def _archived_through(self, caller: Caller, frame: Frame) -> None:
        """Record that queues are archived.

        Retention may delete their messages once the record is durable.
        """
        request = parse(ArchivedThroughRequest, frame[3])
        check_name(request.topic)
        topic = self._topics.find(request.topic)
        _check_location(request.location)
        known = self._store.state.parts.archives.topic(topic.topic_id)
        if known is not None and known.location != request.location and not request.replaces:
            raise InvalidArgumentError(
                f"topic {topic.name!r} is already archived in {known.location}, not in {request.location}. If the "
                f"table was moved, run `litemq topic archive {topic.name} --moved-to {request.location}`; to "
                "replace the archive, call `archived_through(…, replace=True)`"
            )
        queues = self._checked(topic, request)
        end = self._store.log_end
        if known is None or request.replaces or _is_new(known, queues):
            archived = ArchivedThrough(
                topic_id=topic.topic_id,
                location=request.location,
                queues=queues,
                at=self._clock.wall_ms(),
                replaces=request.replaces,
            )
            end = self._store.append_control(Control(archived_through=archived)).end
        answer_when_safe(self._store, caller, frame, end)

    def _checked(self, topic: Topic, request: ArchivedThroughRequest) -> list[Queue]:
        state = self._store.state
        queues: dict[int, Queue] = {}
        for queue in request.queues:
            key = QueueKey(topic.topic_id, queue.queue_id)
            if queue.queue_id >= topic.queues or queue.queue_id in queues:
                raise InvalidArgumentError(
                    f"queue {queue.queue_id}: name each of the {topic.queues} queues of topic {topic.name!r} at most "
                    "once"
                )
            end_offset = state.end_offsets.get(key, 0)
            begin = queue.begin if queue.HasField("begin") else min(state.start_offsets.get(key, 0), queue.next)
            if not 0 <= begin <= queue.next <= end_offset:
                raise InvalidArgumentError(
                    f"archived offsets {begin} … {queue.next} of queue {queue.queue_id} of topic {topic.name!r} are "
                    f"out of range: the queue ends at {end_offset}. Is this the archive of another cluster?"
                )
            queues[queue.queue_id] = Queue(
                topic_id=topic.topic_id, queue_id=queue.queue_id, least=begin, next=queue.next
            )
        return list(queues.values())


def _is_new(known: Archive, queues: list[Queue]) -> bool:
    return any(queue.queue_id not in known.queues or queue.next > known.queues[queue.queue_id].end for queue in queues)


def _check_location(location: str) -> None:
    if not 1 <= len(location) <= _MAX_LOCATION_CHARS or not location.isprintable():
        raise InvalidArgumentError(
            f"location={location[:80]!r}: use a path or URL of 1 … {_MAX_LOCATION_CHARS} printable characters"
        )
    try:
        has_secret = urlsplit(location).password is not None
    except ValueError:
        has_secret = False  # no URL
    if has_secret:
        raise InvalidArgumentError(
            "the location contains a password, and all clients can read it: pass the password in the environment of "
            "the readers"
        )
