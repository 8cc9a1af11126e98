"""The requests of group members: join, heartbeat, release, leave, commit."""

from __future__ import annotations

from litemq.broker.groups.coordinator import GroupCoordinator, GroupTopic
from litemq.broker.groups.membership import Member, Membership
from litemq.broker.runtime.caller import Caller
from litemq.broker.runtime.context import BrokerContext
from litemq.broker.runtime.deferred_answers import answer_when_safe
from litemq.broker.runtime.handlers import Handler, Permission
from litemq.broker.runtime.request_header import parse
from litemq.broker.topics.queue_ranges import full_offset_range
from litemq.errors import InvalidArgumentError, LiteMQError
from litemq.net.frame import Frame
from litemq.proto.wire_pb2 import (
    CommitRequest,
    GroupAssignment,
    GroupHeartbeat,
    GroupQueue,
    JoinRequest,
    LeaveRequest,
    Opcode,
    ReleaseRequest,
)
from litemq.storage.state import QueueKey, Topic
from litemq.types import Visibility

__all__ = ["MemberRequests"]


class _Heartbeat:
    """A heartbeat as it came: answered at once, or when the member's assignment changes."""

    def __init__(
        self, requests: MemberRequests, caller: Caller, frame: Frame, request: GroupHeartbeat, topic: Topic
    ) -> None:
        self._requests = requests
        self._frame = frame
        self.caller = caller
        self.topic = topic
        self.group_topic = GroupTopic(request.group, topic.topic_id)
        self.member = request.member or caller.client_id
        self.session = request.session
        self.version = request.version
        self.wait_ms = request.wait_ms

    def answer(self) -> None:
        self.caller.answer(self._frame, self._requests.answer_heartbeat(self).SerializeToString())

    def refuse(self, error: LiteMQError) -> None:
        self.caller.refuse(self._frame, error)


class MemberRequests:
    """Passes the requests of members on to the coordinator."""

    def __init__(self, context: BrokerContext, groups: GroupCoordinator) -> None:
        self._store = context.store
        self._groups = groups
        self._topics = context.topics
        self.handlers = (
            Handler(Opcode.JOIN_GROUP, Permission.TOPIC_SUB, self._join),
            Handler(Opcode.GROUP_HEARTBEAT, Permission.TOPIC_SUB, self._heartbeat),
            Handler(Opcode.RELEASE_QUEUES, Permission.TOPIC_SUB, self._release),
            Handler(Opcode.LEAVE_GROUP, Permission.TOPIC_SUB, self._leave),
            Handler(Opcode.COMMIT_OFFSETS, Permission.TOPIC_SUB, self._commit),
        )

    def _join(self, caller: Caller, frame: Frame) -> None:
        request = parse(JoinRequest, frame[3])
        topic = self._topics.find(request.topic)
        # The topic may have had more queues when the member joined before.
        held = [QueueKey(topic.topic_id, queue_id) for queue_id in request.held[: topic.queues]]
        retry = self._groups.retry_key(request.group, topic.topic_id) if request.held_retry else None
        membership, member = self._groups.join(
            caller,
            request.group,
            topic,
            request.member,
            request.session_timeout_ms,
            request.strategy,
            request.zone,
            held if retry is None else [*held, retry],
        )
        caller.answer(frame, self._assignment(request.group, topic, membership, member).SerializeToString())

    def _heartbeat(self, caller: Caller, frame: Frame) -> None:
        request = parse(GroupHeartbeat, frame[3])
        self._groups.heartbeat(_Heartbeat(self, caller, frame, request, self._topics.find(request.topic)))

    def answer_heartbeat(self, heartbeat: _Heartbeat) -> GroupAssignment:
        """Return the member's assignment, or that it is unchanged."""
        membership = self._groups.membership(heartbeat.group_topic)
        member = None if membership is None else membership.members.get(heartbeat.member)
        if membership is None or member is None or member.version == heartbeat.version:
            return GroupAssignment(session=heartbeat.session, version=heartbeat.version, unchanged=True)
        return self._assignment(heartbeat.group_topic.group, heartbeat.topic, membership, member)

    def _assignment(self, group: str, topic: Topic, membership: Membership, member: Member) -> GroupAssignment:
        queues = []
        for key, generation in membership.assigned(member.name):
            is_retry = key.topic_id != topic.topic_id
            queue_range = full_offset_range(self._store, key)
            if is_retry:
                queue_range.queue_id = 0
            queues.append(
                GroupQueue(
                    range=queue_range,
                    committed=self._groups.committed(group, key),
                    is_retry=is_retry,
                    generation=generation,
                )
            )
        return GroupAssignment(
            session=member.session,
            version=member.version,
            queues=queues,
            release=membership.unwanted(member.name),
            reset_id=self._reset_id(group, topic),
            session_timeout_ms=member.timeout_ns // 1_000_000,
        )

    def _reset_id(self, group: str, topic: Topic) -> str:
        """Return an id that changes whenever members must read again from the group's offsets.

        A power cut takes received messages back, and other messages get their offsets. So a member
        that has read them does not continue where it was.
        """
        reset_id = self._store.state.parts.groups.reset_id(group)
        return f"{reset_id}@{self._store.epoch}" if topic.visibility == Visibility.RECEIVED else reset_id

    def _release(self, caller: Caller, frame: Frame) -> None:
        request = parse(ReleaseRequest, frame[3])
        topic = self._topics.find(request.topic)
        _check_count(len(request.generations), topic.queues + 1)  # one more: the retry queue
        group_topic = GroupTopic(request.group, topic.topic_id)
        self._groups.release(caller, group_topic, request.member, request.session, request.generations)
        caller.answer(frame, b"")

    def _leave(self, caller: Caller, frame: Frame) -> None:
        request = parse(LeaveRequest, frame[3])
        self._groups.leave(caller, GroupTopic(request.group, self._topics.find(request.topic).topic_id), request.member)
        caller.answer(frame, b"")

    def _commit(self, caller: Caller, frame: Frame) -> None:
        request = parse(CommitRequest, frame[3])
        topic = self._topics.find(request.topic)
        _check_count(len(request.offsets), topic.queues + 1)
        offsets = [
            (
                self._groups.queue_key(request.group, topic, each.queue_id, is_retry=each.is_retry),
                each.offset,
                each.generation,
            )
            for each in request.offsets
        ]
        appended = self._groups.commit(caller, request.group, topic.topic_id, offsets)
        answer_when_safe(self._store, caller, frame, appended.end)


def _check_count(count: int, limit: int) -> None:
    """Raise if a request names more queues than there are: each costs time on the event loop."""
    if count > limit:
        raise InvalidArgumentError(f"the request names {count} queues, but the topic has only {limit}")
