"""PULL: reads by offset."""

from __future__ import annotations

from litemq.broker.groups.coordinator import GroupCoordinator
from litemq.broker.groups.recent_consumers import RETRY_QUEUE, RecentConsumers
from litemq.broker.reading.long_polls import LongPolls
from litemq.broker.runtime.caller import Caller
from litemq.broker.runtime.context import BrokerContext
from litemq.broker.runtime.handlers import Handler, Permission
from litemq.broker.runtime.request_header import parse
from litemq.net.frame import Frame
from litemq.proto.wire_pb2 import Opcode, PullRequest

__all__ = ["ReadRequests"]


class ReadRequests:
    """Passes pulls on to the long polls."""

    def __init__(
        self, context: BrokerContext, long_polls: LongPolls, groups: GroupCoordinator, recent_consumers: RecentConsumers
    ) -> None:
        self._topics = context.topics
        self._long_polls = long_polls
        self._groups = groups
        self._recent_consumers = recent_consumers
        self.handlers = (
            # With a group, the permissions are those of JOIN_GROUP.
            Handler(Opcode.PULL, Permission.TOPIC_READ, self._pull),
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
