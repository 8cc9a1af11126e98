"""The requests of lease mode: LEASE, SETTLE and EXTEND."""

from __future__ import annotations

from litemq.broker.delivery.lessor import Lessor
from litemq.broker.delivery.settling import Extension, Settlement
from litemq.broker.groups.coordinator import GroupCoordinator
from litemq.broker.groups.recent_consumers import ANY_QUEUE, RecentConsumers
from litemq.broker.runtime.caller import Caller
from litemq.broker.runtime.context import BrokerContext
from litemq.broker.runtime.handlers import Handler, Permission
from litemq.broker.runtime.header_cache import HeaderCache
from litemq.broker.runtime.request_header import parse
from litemq.errors import InvalidArgumentError
from litemq.net.frame import Frame
from litemq.proto.wire_pb2 import ExtendRequest, LeaseRequest, Opcode, SettleRequest

__all__ = ["LeaseRequests"]


class LeaseRequests:
    """Checks the requests of lease mode, and passes them on to the lessor."""

    def __init__(
        self, context: BrokerContext, lessor: Lessor, groups: GroupCoordinator, recent_consumers: RecentConsumers
    ) -> None:
        self._recent_consumers = recent_consumers
        self._lessor = lessor
        self._groups = groups
        self._limits = context.limits
        self._topics = context.topics
        self._parsed: HeaderCache[LeaseRequest] = HeaderCache()
        self.handlers = (
            Handler(Opcode.LEASE, Permission.TOPIC_SUB, self._lease),
            Handler(Opcode.SETTLE, Permission.TOPIC_SUB, self._settle),
            Handler(Opcode.EXTEND, Permission.TOPIC_SUB, self._extend),
        )

    def _lease(self, caller: Caller, frame: Frame) -> None:
        request = self._parsed.get(frame[3])
        if request is None:
            request = parse(LeaseRequest, frame[3])
            self._parsed.remember(frame[3], request)
        topic = self._topics.find(request.topic)
        self._recent_consumers.record_visit(
            request.group, topic.topic_id, ANY_QUEUE, caller.client_id, request.filter, is_sql=request.filter_is_sql
        )
        self._lessor.lease(caller, frame, request, topic)

    def _settle(self, caller: Caller, frame: Frame) -> None:
        request = parse(SettleRequest, frame[3])
        topic = self._topics.find(request.topic)
        settled = Settlement(caller, frame, request)
        for queue_id, is_retry in settled.assigned:
            key = self._groups.queue_key(request.group, topic, queue_id, is_retry=is_retry)
            self._groups.check_owner(caller, request.group, topic.topic_id, key)
        self._lessor.settle(settled, topic)

    def _extend(self, caller: Caller, frame: Frame) -> None:
        request = parse(ExtendRequest, frame[3])
        limits = self._limits
        if not limits.min_lease_ms <= request.lease_ms <= limits.max_lease_ms:
            raise InvalidArgumentError(
                f"lease_ms={request.lease_ms}: choose {limits.min_lease_ms} … {limits.max_lease_ms}"
            )
        self._lessor.settle(Extension(caller, frame, request), self._topics.find(request.topic))
