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
    log_alarms: Alarms  # by the store's ``log_clock``: leases, retries and checks
    topics: TopicDirectory
    events: QueueEvents
    answers: DeferredAnswers

    @classmethod
    def create(cls, store: Store, clock: Clock, limits: BrokerLimits) -> BrokerContext:
        """Make the context of a broker over ``store``, with no listeners yet."""
        return cls(
            store,
            clock,
            limits,
            Alarms(clock),
            Alarms(store.log_clock),
            TopicDirectory(store),
            QueueEvents(),
            DeferredAnswers(),
        )

    def ring_due(self) -> int:
        """Ring all due alarms now. See ``Alarms``."""
        return self.alarms.ring_due() + self.log_alarms.ring_due()

    def close(self) -> None:
        """Drop all alarms and answers."""
        self.alarms.close()
        self.log_alarms.close()
        self.answers.close()
