"""Unread messages: the groups of each topic, and the first message that each has not read."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Container, Iterator, Mapping
from typing import NamedTuple

from litemq.storage.state import QueueKey, State

__all__ = ["Unread", "count_unread", "describe_counts", "unread"]


class Unread(NamedTuple):
    """A queue in which a group has unread messages, from ``begin`` on."""

    group: str
    key: QueueKey
    begin: int


def unread(state: State, topic_ids: Container[int] | None = None) -> Iterator[Unread]:
    """Yield the queues with unread messages of every group, of all topics or of some.

    No other thread may change the state.

    A group that has an offset in one queue of a topic reads all its queues. Archived messages are
    not at risk, so they do not count.
    """
    begun: dict[tuple[int, str], list[QueueKey]] = defaultdict(list)
    for group, key in state.group_offsets:
        if topic_ids is not None and key.topic_id not in topic_ids:
            continue
        begun[key.topic_id, group].append(key)
    for topic_id, group in sorted(begun):
        topic = state.topics.get(topic_id)
        if topic is not None and not topic.deleted:
            keys = [QueueKey(topic_id, queue_id) for queue_id in range(topic.queues)]
            # The queues of a retry topic are not numbered from 0.
            for key in keys or sorted(begun[topic_id, group]):
                begin = _first_unread(state, group, key)
                if begin < state.end_offsets.get(key, 0):
                    yield Unread(group, key, begin)


def _first_unread(state: State, group: str, key: QueueKey) -> int:
    begin = max(state.group_offsets.get((group, key), 0), state.start_offsets.get(key, 0))
    archived = state.parts.archives.queue(key)
    if archived is not None and archived.begin <= begin:
        begin = max(begin, archived.end)
    progress = state.parts.progress.queue(group, key)
    if progress is not None:
        undone = progress.done.without(begin, state.end_offsets.get(key, 0))
        begin = undone[0][0] if undone else state.end_offsets.get(key, 0)
    return begin


def count_unread(state: State, each: Unread, end: int) -> int:
    """Return the number of unread messages of a queue below the offset ``end``."""
    progress = state.parts.progress.queue(each.group, each.key)
    if progress is None:
        return max(0, end - each.begin)
    return sum(stop - first for first, stop in progress.done.without(each.begin, end)) if end > each.begin else 0


def describe_counts(counts: Mapping[str, int]) -> str:
    """Return numbers of messages by group as a phrase."""
    return ", ".join(f"group {group}: {count}" for group, count in sorted(counts.items()))
