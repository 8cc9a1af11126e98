"""Describes groups: members, and the exact lag of each queue in queue mode and lease mode."""

from __future__ import annotations

from collections.abc import Iterable

from litemq.broker.groups.coordinator import GroupCoordinator, GroupTopic
from litemq.broker.groups.queue_lag import queue_statistics
from litemq.broker.topics.queue_ranges import offset_range
from litemq.errors import LiteMQError
from litemq.proto.wire_pb2 import GroupAnswer, GroupMember, GroupQueueState, GroupReset
from litemq.storage.state import QueueKey, retry_topic
from litemq.storage.store import Store

__all__ = ["GroupState"]

AgeLookups = list[tuple[GroupQueueState, QueueKey, int]]


class GroupState:
    """Describes groups. Call it on the event loop, except ``stored_at``."""

    def __init__(self, store: Store, groups: GroupCoordinator) -> None:
        self._store = store
        self._groups = groups

    def describe(self, group: str) -> tuple[GroupAnswer, AgeLookups]:
        """Describe ``group``; also return the queues for which the caller must look up the age of
        the oldest message.
        """
        state = self._store.state
        facts = state.parts.groups
        answer = GroupAnswer(paused=facts.is_paused(group))
        keys = {key for name, key in state.group_offsets if name == group}
        for group_topic in self._groups.group_topics:
            membership = self._groups.membership(group_topic)
            if membership is None or group_topic.group != group:
                continue
            keys.update(membership.queues)
            topic = state.topics[group_topic.topic_id].name
            for member in membership.members.values():
                queues = len(membership.assigned(member.name))
                wire_member = GroupMember(
                    member=member.name, topic=topic, queues=queues, zone=member.zone, is_connected=member.is_connected
                )
                caller = self._groups.find_caller(member)
                wire_member.peer = "" if caller is None else caller.peer
                answer.members.append(wire_member)
        keys |= self.retry_queues(group, keys)
        age_lookups: AgeLookups = []
        for key in sorted(keys):
            queue = self.queue_state(group, key)
            if queue is not None:
                answer.queues.append(queue)
                if queue.lag:
                    age_lookups.append((answer.queues[-1], key, max(queue.committed, queue.range.least)))
        for reset in facts.resets(group):
            answer.resets.append(
                GroupReset(reset_id=reset.reset_id, undoes=reset.undoes, at=reset.at, queues=len(reset.after))
            )
        answer.waiting_tries = sum(name == group for _, name, _ in state.parts.tries)
        answer.known = bool(keys or answer.members or group in facts.names or answer.waiting_tries)
        return answer, age_lookups

    def retry_queues(self, group: str, keys: Iterable[QueueKey]) -> set[QueueKey]:
        """Return the group's retry queues of the topics of ``keys``, read or not."""
        state = self._store.state
        retries = state.topic(retry_topic(group))
        return (
            set()
            if retries is None
            else {QueueKey(retries.topic_id, key.topic_id) for key in keys} & state.end_offsets.keys()
        )

    def queue_state(self, group: str, key: QueueKey) -> GroupQueueState | None:
        """Describe the group in one queue; ``None`` if the topic is gone."""
        state = self._store.state
        topic = state.topics.get(key.topic_id)
        is_retry = topic is not None and topic.name == retry_topic(group)
        if is_retry:
            topic = state.topics.get(key.queue_id)  # the queue id of a retry queue is its topic's id
        if topic is None or topic.deleted:
            return None
        queue_range = offset_range(self._store, key)
        if is_retry:
            queue_range.queue_id = 0
        numbers = queue_statistics(state, group, key, self._store.log_clock.wall_ms())
        lost = state.parts.losses.of(group, key)
        membership = self._groups.membership(GroupTopic(group, topic.topic_id))
        owner = None if membership is None else membership.owners.get(key)
        return GroupQueueState(
            topic=topic.name,
            range=queue_range,
            is_retry=is_retry,
            committed=numbers.offset,
            lag=numbers.lag,
            in_flight=numbers.in_flight,
            member="" if owner is None else owner.member,
            lost=lost.messages,
            lost_at=lost.at,
        )

    def in_flight(self, group: str, key: QueueKey) -> int:
        """Return the number of messages of a queue that are leased now."""
        return queue_statistics(self._store.state, group, key, self._store.log_clock.wall_ms()).in_flight

    def stored_at(self, key: QueueKey, offset: int) -> int:
        """Return when a message was stored, in ms; 0 if it is unknown. It may wait for the disk."""
        try:
            entries = self._store.read_entries(key, offset, 1)
        except LiteMQError:
            return 0
        return int(entries["store_timestamp"][0]) if len(entries) else 0
