"""The context that all capabilities of one broker share."""

from __future__ import annotations

from dataclasses import dataclass

from litemq.broker.limits import BrokerLimits
from litemq.broker.runtime.alarms import Alarms
from litemq.broker.runtime.deferred_answers import DeferredAnswers
from litemq.broker.runtime.queue_events import QueueEvents
from litemq.broker.runtime.topic_directory import TopicDirectory
from litemq.clock import Clock
from litemq.storage.store import Store

__all__ = ["BrokerContext"]


@dataclass(frozen=True, slots=True)
class BrokerContext:
    """Passed to each capability when the broker starts. It belongs to the broker's event loop."""

    store: Store
    clock: Clock
    limits: BrokerLimits
    alarms: Alarms
    topics: TopicDirectory
    events: QueueEvents
    answers: DeferredAnswers

    @classmethod
    def create(cls, store: Store, clock: Clock, limits: BrokerLimits) -> BrokerContext:
        """Make the context of a broker over ``store``, with no listeners yet."""
        return cls(store, clock, limits, Alarms(clock), TopicDirectory(store), QueueEvents(), DeferredAnswers())
