"""The consumers that have asked for messages recently, by group and queue, with their filters."""

from __future__ import annotations

from typing import Final, NamedTuple

from litemq.clock import Clock

__all__ = ["ANY_QUEUE", "RETRY_QUEUE", "ConsumerVisit", "RecentConsumers"]

ANY_QUEUE: Final = -1  # the queue id of a lease request
RETRY_QUEUE: Final = -2  # the queue id of the group's retry queue

_RECENT_NS: Final = 90 * 1_000_000_000  # a long poll waits for up to a minute, and the next one follows
_MAX_VISITS: Final = 20_000


class ConsumerVisit(NamedTuple):
    """The last request of a consumer for messages of a queue."""

    at_ns: int
    client: str
    filter: str
    filter_is_sql: bool


class RecentConsumers:
    """The last visit of each group, topic and queue."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._visits: dict[tuple[str, int, int], ConsumerVisit] = {}

    def record_visit(self, group: str, topic_id: int, queue_id: int, client: str, text: str, *, is_sql: bool) -> None:
        """Record that ``client`` has asked for messages, with the filter ``text``."""
        source = group, topic_id, queue_id
        self._visits.pop(source, None)
        if len(self._visits) >= _MAX_VISITS:
            del self._visits[next(iter(self._visits))]  # the oldest
        self._visits[source] = ConsumerVisit(self._clock.elapsed_ns(), client, text, is_sql)

    def recent(self, group: str, topic_id: int) -> dict[int, ConsumerVisit]:
        """Return the visits of the last 90 seconds, by queue id."""
        since = self._clock.elapsed_ns() - _RECENT_NS
        return {
            queue_id: visit
            for (visit_group, visit_topic_id, queue_id), visit in self._visits.items()
            if (visit_group, visit_topic_id) == (group, topic_id) and visit.at_ns >= since
        }
