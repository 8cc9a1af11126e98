"""When a transaction's producer is asked for its outcome, and how often: as its first message says, else its topic, else the broker."""

from __future__ import annotations

from litemq.broker.limits import BrokerLimits
from litemq.storage.state import TopicFacts
from litemq.storage.state.transactions.half_runs import Transaction
from litemq.storage.store import Store

__all__ = ["CheckTimes"]


class CheckTimes:
    """A function of what is known of a transaction: after a restart, the times are the same."""

    def __init__(self, store: Store, limits: BrokerLimits) -> None:
        self._store = store
        self._limits = limits

    def next_at(self, known: Transaction) -> int:
        """When it is asked for next, or given up (ms)."""
        if known.dead:
            return 0  # what has begun is finished at once
        if known.story:
            return known.story[-1].at + self.every(known)
        return known.first_at + (known.check_after_ms or self._chosen(known, "check_after_ms") or self._limits.check_after_ms)

    def every(self, known: Transaction) -> int:
        """How long it takes until it is asked for again (ms)."""
        return self._chosen(known, "check_every_ms") or self._limits.check_every_ms

    def most(self, known: Transaction) -> int:
        """How often it is asked for before it is given up."""
        return known.max_checks or self._chosen(known, "max_checks") or self._limits.max_checks

    def _chosen(self, known: Transaction, setting: str) -> int:
        """What the topic of its first message says; 0: nothing."""
        topic = self._store.state.topics.get(known.runs[0].topic_id)
        return 0 if topic is None else getattr(topic, setting)

    def topics(self, known: Transaction) -> list[TopicFacts]:
        """The topics that its messages are meant for."""
        topics = self._store.state.topics
        return [topics[topic_id] for topic_id in dict.fromkeys(run.topic_id for run in known.runs) if topic_id in topics]
