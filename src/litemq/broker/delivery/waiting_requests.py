"""Who waits for messages of a topic, and what a group asks for in one turn of the event loop."""

from __future__ import annotations

import asyncio

from litemq.broker.delivery.settling import Settlement
from litemq.broker.delivery.topic_availability import TopicStock
from litemq.broker.limits import BrokerLimits
from litemq.broker.runtime.caller import Caller
from litemq.errors import LiteMQError
from litemq.filters.filter import parse_filter
from litemq.net.frame import Frame
from litemq.proto.wire_pb2 import LeaseRequest

__all__ = ["LeasedTopic", "Turn", "Want"]


class Want:
    """One request for messages that has not been answered yet."""

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
    """A topic that a group leases, and those who wait for its messages, the first first."""

    __slots__ = ("has_begun", "stock", "untold", "waiting")

    def __init__(self, stock: TopicStock) -> None:
        self.stock = stock
        self.has_begun = False  # the group has an offset in each queue
        self.waiting: dict[Want, None] = {}
        self.untold: list[LiteMQError] = []  # what the group lost, and whoever asks next is told


class Turn:
    """What a group asks for in one turn of the event loop."""

    __slots__ = ("settlements", "topics")

    def __init__(self) -> None:
        self.settlements: list[tuple[LeasedTopic, Settlement]] = []
        self.topics: dict[LeasedTopic, None] = {}
