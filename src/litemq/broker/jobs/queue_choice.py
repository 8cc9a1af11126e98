"""The queue of a job's message."""

from __future__ import annotations

from litemq.errors import InvalidArgumentError
from litemq.format.crc import crc32c
from litemq.proto.jobs_pb2 import JobDefinition
from litemq.storage.state import QueueKey, State
from litemq.types import DEFAULT_PRIORITY, PRIORITY_CLASSES, priority_class

__all__ = ["QueueChoice"]


class QueueChoice:
    """Chooses the queue that a job names, the one of its ordering key, or the next in rotation."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._rotation = 0

    def queue_for(self, job: JobDefinition) -> QueueKey:
        """Return the queue of a job's next message.

        Raise ``InvalidArgumentError`` if there is none.
        """
        topic = self._state.topic(job.topic)
        if topic is None:
            raise InvalidArgumentError(f"topic {job.topic!r} does not exist: create it, or delete the job")
        if job.HasField("queue_id"):
            if not topic.has_queue(job.queue_id):
                raise InvalidArgumentError(
                    f"topic {job.topic!r} has no queue {job.queue_id}: it has {topic.queues}, numbered from 0"
                )
            return QueueKey(topic.topic_id, job.queue_id)
        width = PRIORITY_CLASSES if topic.has_priorities else 1
        if job.ordering_key:
            number = crc32c(job.ordering_key.encode())
        else:
            number = self._rotation = self._rotation + 1
        class_number = (
            priority_class(job.priority if job.HasField("priority") else DEFAULT_PRIORITY)
            if topic.has_priorities
            else 0
        )
        return QueueKey(topic.topic_id, number % (topic.queues // width) * width + class_number)
