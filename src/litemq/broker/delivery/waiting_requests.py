"""Lease requests that wait for messages, and the requests of a group in one tick."""

from __future__ import annotations

import asyncio

from litemq.broker.delivery.settling import LeaseChange
from litemq.broker.delivery.topic_availability import TopicAvailability
from litemq.broker.limits import BrokerLimits
from litemq.broker.runtime.caller import Caller
from litemq.errors import LiteMQError
from litemq.filters.filter import parse_filter
from litemq.net.frame import Frame
from litemq.proto.wire_pb2 import LeaseRequest

__all__ = ["GroupTick", "LeasedTopic", "WaitingLease"]


class WaitingLease:
    """A lease request that is not answered yet."""

    __slots__ = ("caller", "frame", "max_bytes", "max_messages", "request", "timer", "wait_ms", "wanted")

    def __init__(self, caller: Caller, frame: Frame, request: LeaseRequest, limits: BrokerLimits) -> None:
        self.caller = caller
        self.frame = frame
        self.request = request
        self.max_messages = min(request.max_messages, limits.max_pull_messages)
        self.max_bytes = min(request.max_bytes or limits.max_pull_bytes, limits.max_pull_bytes)
        self.wait_ms = min(request.wait_ms, limits.max_pull_wait_ms)
        self.wanted = parse_filter(request.filter, is_sql=request.filter_is_sql)
        self.timer: asyncio.TimerHandle | None = None


class LeasedTopic:
    """A topic that a group leases, and the requests that wait for its messages, in their order."""

    __slots__ = ("availability", "has_begun", "unreported", "waiting")

    def __init__(self, availability: TopicAvailability) -> None:
        self.availability = availability
        self.has_begun = False  # the group has an offset in each queue
        self.waiting: dict[WaitingLease, None] = {}
        self.unreported: list[LiteMQError] = []  # errors for the next request of the group


class GroupTick:
    """The settlements of a group in one event-loop tick, and the topics to serve."""

    __slots__ = ("settlements", "topics")

    def __init__(self) -> None:
        self.settlements: list[tuple[LeasedTopic, LeaseChange]] = []
        self.topics: dict[LeasedTopic, None] = {}
