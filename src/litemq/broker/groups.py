"""Groups: who reads a topic for a group, and how far the group has come.

For now one member of a group has all queues of a topic; a second one is refused. A member is a connection: when it ends, its place is free.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from litemq.broker.caller import Caller
from litemq.errors import NotGroupMemberError, UnsupportedFeatureError
from litemq.storage.state import QueueKey, TopicFacts
from litemq.storage.store import Appended, Store
from litemq.types import check_name

__all__ = ["Groups"]


class Groups:
    """The members that are connected now. Offsets are the store's: they outlive members and brokers."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._members: dict[tuple[str, int], Caller] = {}
        self._of_caller: dict[Caller, set[tuple[str, int]]] = defaultdict(set)

    def join(self, caller: Caller, group: str, topic: TopicFacts) -> list[tuple[QueueKey, int]]:
        """Make a caller the group's member for a topic; returns its queues with the offset committed in each, −1 where there is none."""
        check_name(group, "group")
        place = (group, topic.topic_id)
        member = self._members.get(place)
        if member is not None and member is not caller:
            if member.client_id != caller.client_id:
                raise UnsupportedFeatureError(
                    f"group {group!r} reads {topic.name!r} already, as client {member.client_id!r} from {member.peer}: "
                    "a group has one member for now. Stop the other one, or choose another group"
                )
            self._of_caller[member].discard(place)  # the same client, on a new connection before the old one was missed
        self._members[place] = caller
        self._of_caller[caller].add(place)
        keys = [QueueKey(topic.topic_id, queue_id) for queue_id in range(topic.queues)]
        return [(key, self._store.state.group_offsets.get((group, key), -1)) for key in keys]

    def check_member(self, caller: Caller, group: str, topic_id: int) -> None:
        """Raises unless this caller reads the topic for the group."""
        if self._members.get((group, topic_id)) is not caller:
            raise NotGroupMemberError(f"this connection has not joined group {group!r} for that topic, or has lost its place: join again")

    def commit(self, caller: Caller, group: str, topic_id: int, offsets: Iterable[tuple[int, int]]) -> Appended:
        """How far the group has come, as (queue, offset) pairs: everything below is done."""
        self.check_member(caller, group, topic_id)
        return self._store.commit_offsets(group, [(QueueKey(topic_id, queue_id), offset) for queue_id, offset in offsets])

    def leave(self, caller: Caller, group: str, topic_id: int) -> None:
        """Give the place back; nothing happens where there is none."""
        place = (group, topic_id)
        if self._members.get(place) is caller:
            del self._members[place]
            self._of_caller[caller].discard(place)

    def gone(self, caller: Caller) -> None:
        """A caller's connection has ended."""
        for place in self._of_caller.pop(caller, ()):
            if self._members.get(place) is caller:
                del self._members[place]
