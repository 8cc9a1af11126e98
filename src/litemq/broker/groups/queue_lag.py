"""The lag of a group in one queue, to the message."""

from __future__ import annotations

from typing import NamedTuple

from litemq.storage.state import QueueKey, State
from litemq.storage.state.delivery.progress import QueueProgress

__all__ = ["QueueStatistics", "queue_statistics"]

_NOTHING = QueueProgress()


class QueueStatistics(NamedTuple):
    """One queue: ``lag`` messages are not done; of these, ``in_flight`` are leased and ``ready``
    are available.
    """

    key: QueueKey
    offset: int  # everything below is done; -1: the group has never read it
    end_offset: int
    lag: int
    in_flight: int
    ready: int
    oldest: int  # offset of the first message that is not done; the next one, if all are


def queue_statistics(state: State, group: str, key: QueueKey, now: int) -> QueueStatistics:
    """Return the statistics of ``group`` in the queue ``key`` at ``now`` (ms)."""
    progress = state.parts.progress
    committed = progress.offsets.get((group, key), -1)
    end_offset = state.end_offsets.get(key, 0)
    # Messages that retention took are no lag, unless an archive has them.
    begin = state.start_offsets.get(key, 0) if committed < 0 else max(committed, state.earliest(key))
    queue = progress.queue(group, key) or _NOTHING
    undone = queue.done.without(begin, end_offset)
    lag = sum(end - first for first, end in undone)
    in_flight = sum(lease.end - lease.begin for lease in queue.leases.within(begin, end_offset) if lease.deadline > now)
    return QueueStatistics(
        key, committed, end_offset, lag, in_flight, lag - in_flight, undone[0][0] if undone else end_offset
    )
