"""Who came for a group lately, for which queue, and with which filter: what is known without asking anybody."""

from __future__ import annotations

from typing import Final, NamedTuple

from litemq.clock import Clock

__all__ = ["ANY_QUEUE", "RETRY_QUEUE", "Visit", "Visitors"]

ANY_QUEUE: Final = -1  # of the topic, as leases are asked for
RETRY_QUEUE: Final = -2  # the group's, of the topic

_LATELY_NS: Final = 90 * 1_000_000_000  # a request that finds nothing waits for a minute at most, and then comes another
_MOST: Final = 20_000  # places that are remembered


class Visit(NamedTuple):
    """One request for messages."""

    at_ns: int
    client: str
    filter: str
    filter_is_sql: bool


class Visitors:
    """The last visit to each place: (group, topic, queue)."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._visits: dict[tuple[str, int, int], Visit] = {}

    def came(self, group: str, topic_id: int, queue_id: int, client: str, text: str, *, is_sql: bool) -> None:
        """Somebody asked for messages."""
        place = group, topic_id, queue_id
        self._visits.pop(place, None)
        if len(self._visits) >= _MOST:
            del self._visits[next(iter(self._visits))]  # the one that is longest ago
        self._visits[place] = Visit(self._clock.elapsed_ns(), client, text, is_sql)

    def lately(self, group: str, topic_id: int) -> dict[int, Visit]:
        """The visits of the last minute and a half, by queue."""
        since = self._clock.elapsed_ns() - _LATELY_NS
        return {
            queue_id: visit
            for (of, topic, queue_id), visit in self._visits.items()
            if (of, topic) == (group, topic_id) and visit.at_ns >= since
        }
