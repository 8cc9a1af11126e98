"""The check schedule: when and how often the broker asks a producer for the outcome of a
transaction.

The settings are those of the first message, or else of its topic, or else of the broker's limits.
"""

from __future__ import annotations

from litemq.broker.limits import BrokerLimits
from litemq.storage.state import Topic
from litemq.storage.state.transactions.transaction import Transaction
from litemq.storage.store import Store

__all__ = ["CheckSchedule"]


class CheckSchedule:
    """Computed from the state of a transaction, so the times are the same after a restart."""

    def __init__(self, store: Store, limits: BrokerLimits) -> None:
        self._store = store
        self._limits = limits

    def next_at(self, known: Transaction) -> int:
        """Return when the broker asks next, or gives up (ms)."""
        if known.dead:
            return 0  # giving up has begun: finish it at once
        if known.history:
            return known.history[-1].at + self.every(known)
        return known.first_at + (
            known.check_after_ms or self._chosen(known, "check_after_ms") or self._limits.check_after_ms
        )

    def every(self, known: Transaction) -> int:
        """Return the time between two checks (ms)."""
        return self._chosen(known, "check_every_ms") or self._limits.check_every_ms

    def max_checks(self, known: Transaction) -> int:
        """Return the number of checks before the broker gives up."""
        return known.max_checks or self._chosen(known, "max_checks") or self._limits.max_checks

    def _chosen(self, known: Transaction, setting: str) -> int:
        """Return a setting of the first message's topic; 0 if it has none."""
        topic = self._store.state.topics.get(known.runs[0].topic_id)
        return 0 if topic is None else getattr(topic, setting)

    def topics(self, known: Transaction) -> list[Topic]:
        """Return the destination topics of the transaction."""
        topics = self._store.state.topics
        return [
            topics[topic_id] for topic_id in dict.fromkeys(run.topic_id for run in known.runs) if topic_id in topics
        ]
