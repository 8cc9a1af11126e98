"""What a group has left to do, exactly: in both ways of consuming, and whether or not anybody reads for it now."""

from __future__ import annotations

from collections.abc import Iterable

from litemq.broker.groups.coordinator import Groups, Place
from litemq.broker.groups.queue_lag import queue_statistics
from litemq.broker.topics.queue_ranges import range_of
from litemq.clock import Clock
from litemq.errors import LiteMQError
from litemq.proto.wire_pb2 import GroupAnswer, GroupMember, GroupQueueState, GroupReset
from litemq.storage.state import QueueKey, retry_topic
from litemq.storage.store import Store

__all__ = ["GroupState"]

AskAge = list[tuple[GroupQueueState, QueueKey, int]]


class GroupState:
    """Asked on the event loop, but for what may be on disk only."""

    def __init__(self, store: Store, clock: Clock, groups: Groups) -> None:
        self._store = store
        self._clock = clock
        self._groups = groups

    def describe(self, group: str) -> tuple[GroupAnswer, AskAge]:
        """Everything about a group; with the queues of which the age of the oldest message is still to be asked for."""
        state = self._store.state
        facts = state.delivery.groups
        answer = GroupAnswer(paused=facts.is_paused(group))
        keys = {key for name, key in state.group_offsets if name == group}
        for place in self._groups.places:
            membership = self._groups.members(place)
            if membership is None or place.group != group:
                continue
            keys.update(membership.queues)
            topic = state.topics[place.topic_id].name
            for member in membership.members.values():
                queues = len(membership.assigned(member.name))
                told = GroupMember(member=member.name, topic=topic, queues=queues, zone=member.zone, is_connected=member.is_connected)
                caller = self._groups.caller_of(member)
                told.peer = "" if caller is None else caller.peer
                answer.members.append(told)
        keys |= self.retry_queues(group, keys)
        ask_age: AskAge = []
        for key in sorted(keys):
            queue = self.of_queue(group, key)
            if queue is not None:
                answer.queues.append(queue)
                if queue.lag:
                    ask_age.append((answer.queues[-1], key, max(queue.committed, queue.range.least)))
        for reset in facts.resets(group):
            answer.resets.append(GroupReset(reset_id=reset.reset_id, undoes=reset.undoes, at=reset.at, queues=len(reset.after)))
        answer.waiting_tries = sum(name == group for _, name, _ in state.delivery.tries)
        answer.known = bool(keys or answer.members or group in facts.names or answer.waiting_tries)
        return answer, ask_age

    def retry_queues(self, group: str, keys: Iterable[QueueKey]) -> set[QueueKey]:
        """Those of the topics of some queues, also where the group has not read them yet."""
        state = self._store.state
        retries = state.topic(retry_topic(group))
        return set() if retries is None else {QueueKey(retries.topic_id, key.topic_id) for key in keys} & state.next.keys()

    def of_queue(self, group: str, key: QueueKey) -> GroupQueueState | None:
        """A group in one queue; nothing, where the topic is no more."""
        state = self._store.state
        topic = state.topics.get(key.topic_id)
        is_retry = topic is not None and topic.name == retry_topic(group)
        if is_retry:
            topic = state.topics.get(key.queue_id)  # the queue has the number of the topic that its messages belong to
        if topic is None or topic.deleted:
            return None
        told = range_of(self._store, key)
        if is_retry:
            told.queue_id = 0
        numbers = queue_statistics(state, group, key, self._clock.wall_ms())
        membership = self._groups.members(Place(group, topic.topic_id))
        owner = None if membership is None else membership.owners.get(key)
        return GroupQueueState(
            topic=topic.name,
            range=told,
            is_retry=is_retry,
            committed=numbers.offset,
            lag=numbers.lag,
            in_flight=numbers.in_flight,
            member="" if owner is None else owner.member,
        )

    def in_flight(self, group: str, key: QueueKey) -> int:
        """How many messages of a queue are leased now."""
        return queue_statistics(self._store.state, group, key, self._clock.wall_ms()).in_flight

    def stored_at(self, key: QueueKey, offset: int) -> int:
        """When a message was stored, in ms; 0, where that cannot be told. It may wait for the disk."""
        try:
            entries = self._store.read_entries(key, offset, 1)
        except LiteMQError:
            return 0
        return int(entries["store_timestamp"][0]) if len(entries) else 0
