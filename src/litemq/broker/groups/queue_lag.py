"""How a group stands in a queue: what is left for it to do, what it is doing, and which message has waited longest."""

from __future__ import annotations

from typing import NamedTuple

from litemq.storage.state import QueueKey, State
from litemq.storage.state.delivery.progress import QueueProgress

__all__ = ["QueueStatistics", "queue_statistics"]

_NOTHING = QueueProgress()


class QueueStatistics(NamedTuple):
    """One queue, exactly: ``lag`` messages are not done, of which ``in_flight`` are leased and ``ready`` can be had."""

    key: QueueKey
    offset: int  # everything below is done; -1: the group has never been here
    next: int
    lag: int
    in_flight: int
    ready: int
    oldest: int  # offset of the first message that is not done; the next one, if all are


def queue_statistics(state: State, group: str, key: QueueKey, now: int) -> QueueStatistics:
    """How a group stands in a queue at a time (ms)."""
    progress = state.delivery.progress
    committed = progress.offsets.get((group, key), -1)
    following = state.next.get(key, 0)
    # What retention took is no lag, unless an archive has it.
    begin = state.least.get(key, 0) if committed < 0 else max(committed, state.earliest(key))
    queue = progress.of_queue(group, key) or _NOTHING
    undone = queue.done.without(begin, following)
    lag = sum(end - first for first, end in undone)
    in_flight = sum(lease.end - lease.begin for lease in queue.leases.within(begin, following) if lease.deadline > now)
    return QueueStatistics(key, committed, following, lag, in_flight, lag - in_flight, undone[0][0] if undone else following)
