"""The requests of operators about groups: describe, reset offsets, pause, delete."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Final

from litemq.broker.groups.coordinator import GroupCoordinator, GroupTopic
from litemq.broker.groups.group_lag import GroupState
from litemq.broker.groups.offset_resets import QueuePosition, Step, find_reset, plan, reset_record, undo_steps
from litemq.broker.runtime.caller import Caller
from litemq.broker.runtime.context import BrokerContext
from litemq.broker.runtime.deferred_answers import answer_when_safe
from litemq.broker.runtime.handlers import Handler, Permission
from litemq.broker.runtime.request_header import parse
from litemq.broker.runtime.topic_directory import check_queue
from litemq.errors import GroupBusyError, InvalidArgumentError
from litemq.net.frame import Frame
from litemq.proto.control_pb2 import Control, Group, GroupChanged
from litemq.proto.wire_pb2 import (
    GroupRequest,
    GroupsAnswer,
    GroupSummary,
    Opcode,
    PauseRequest,
    ResetAnswer,
    ResetRequest,
    ResetStep,
    UndoRequest,
)
from litemq.storage.state import QueueKey, Topic
from litemq.types import check_name

__all__ = ["GroupAdmin"]

_MAX_ID_CHARS: Final = 64


class GroupAdmin:
    """Describes groups, sets their offsets, pauses and deletes them."""

    def __init__(self, context: BrokerContext, groups: GroupCoordinator) -> None:
        self._store = context.store
        self._clock = context.clock
        self._groups = groups
        self._topics = context.topics
        self._answers = context.answers
        self._events = context.events
        self._state = GroupState(context.store, groups)
        self.handlers = (
            Handler(Opcode.DESCRIBE_GROUP, Permission.GROUP_GET, self._describe),
            Handler(Opcode.LIST_GROUPS, Permission.LISTED, self._list),
            Handler(Opcode.PLAN_RESET, Permission.GROUP_GET, self._plan),
            Handler(Opcode.RESET, Permission.GROUP_UPDATE, self._reset),
            Handler(Opcode.UNDO_RESET, Permission.GROUP_UPDATE, self._undo),
            Handler(Opcode.PAUSE_GROUP, Permission.GROUP_UPDATE, self._pause),
            Handler(Opcode.DELETE_GROUP, Permission.GROUP_DELETE, self._delete),
        )

    # Describing -----------------------------------------------------------------------------------

    def _describe(self, caller: Caller, frame: Frame) -> None:
        group = check_name(parse(GroupRequest, frame[3]).group, "group")
        answer, age_lookups = self._state.describe(group)

        def look() -> tuple[bytes, bytes]:
            for state, key, offset in age_lookups:
                state.oldest = self._state.stored_at(key, offset)
            return answer.SerializeToString(), b""

        self._answers.look_up(caller, frame, look)

    def _list(self, caller: Caller, frame: Frame) -> None:
        keys: dict[str, list[QueueKey]] = defaultdict(list)
        for group, key in self._store.state.group_offsets:
            keys[group].append(key)
        members: dict[str, int] = defaultdict(int)
        for group_topic in self._groups.group_topics:
            membership = self._groups.membership(group_topic)
            members[group_topic.group] += 0 if membership is None else len(membership.members)
        facts = self._store.state.parts.groups
        answer = GroupsAnswer()
        for group in sorted({*keys, *members, *facts.names}):
            group_keys = {*keys[group], *self._state.retry_queues(group, keys[group])}
            states = [state for key in group_keys if (state := self._state.queue_state(group, key)) is not None]
            topics = sorted({state.topic for state in states})
            lag = sum(state.lag for state in states)
            answer.groups.append(
                GroupSummary(group=group, paused=facts.is_paused(group), members=members[group], lag=lag, topics=topics)
            )
        caller.answer(frame, answer.SerializeToString())

    # Setting offsets ------------------------------------------------------------------------------

    def _plan(self, caller: Caller, frame: Frame) -> None:
        request = parse(ResetRequest, frame[3])
        topic = self._topics.find(request.topic)
        positions = self._positions(request.group, topic, request.queue_ids)
        members, in_flight = self._busy(request.group, topic)

        def look() -> tuple[bytes, bytes]:
            steps = plan(positions, request.to, request.value, self._store.offset_at_time)
            return _answer("", steps, members, in_flight).SerializeToString(), b""

        self._answers.look_up(caller, frame, look)

    def _reset(self, caller: Caller, frame: Frame) -> None:
        request = parse(ResetRequest, frame[3])
        topic = self._topics.find(request.topic)
        reset_id = _checked_id(request.reset_id)
        planned = {offset.queue_id: offset.offset for offset in request.planned}
        if not planned:
            raise InvalidArgumentError("a reset must name the offset of each queue: request a plan first (PLAN_RESET)")
        steps = [
            Step(key, before, min(max(planned[key.queue_id], start_offset), end_offset), start_offset, end_offset)
            for key, before, start_offset, end_offset in self._positions(request.group, topic, list(planned))
        ]
        self._set(caller, frame, request.group, topic, reset_id, steps, force=request.force)

    def _undo(self, caller: Caller, frame: Frame) -> None:
        request = parse(UndoRequest, frame[3])
        topic = self._topics.find(request.topic)
        group = check_name(request.group, "group")
        former = self._store.state.parts.groups.resets(group)
        again = next((reset.undoes for reset in former if reset.reset_id == request.undo_id), "")
        reset = find_reset(
            [reset for reset in former if not again or reset.reset_id != request.undo_id],
            again or request.reset_id,
            topic.topic_id,
        )
        current = {position[0]: position for position in self._positions(group, topic, ())}
        steps = undo_steps(reset, current)
        if request.dry_run:
            caller.answer(frame, _answer(reset.reset_id, steps, *self._busy(group, topic)).SerializeToString())
            return
        self._set(
            caller, frame, group, topic, _checked_id(request.undo_id), steps, force=request.force, undoes=reset.reset_id
        )

    def _set(
        self,
        caller: Caller,
        frame: Frame,
        group: str,
        topic: Topic,
        reset_id: str,
        steps: list[Step],
        *,
        force: bool,
        undoes: str = "",
    ) -> None:
        members, in_flight = self._busy(group, topic)
        answer = _answer(reset_id, steps, members, in_flight).SerializeToString()
        former = self._store.state.parts.groups.resets(group)
        if any(reset.reset_id == reset_id for reset in former):  # repeated, because the answer was lost
            answer_when_safe(self._store, caller, frame, self._store.log_end, answer)
            return
        if (members or in_flight) and not force:
            raise GroupBusyError(
                f"group {group!r} is active on topic {topic.name!r}: {members} members are connected, {in_flight} "
                "messages are leased. Stop its consumers first, or use --force (force=True): members then "
                "rejoin at the new offsets"
            )
        appended = self._store.append_control(
            reset_record(group, reset_id, steps, former, self._clock.wall_ms(), undoes)
        )
        self._groups.end_all(GroupTopic(group, topic.topic_id))  # their late commits are refused
        self._events.on_group_changed(group)
        answer_when_safe(self._store, caller, frame, appended.end, answer)

    def _positions(self, group: str, topic: Topic, queue_ids: Sequence[int]) -> list[QueuePosition]:
        check_name(group, "group")
        for queue_id in queue_ids:
            check_queue(topic, queue_id)
        state = self._store.state
        keys = [QueueKey(topic.topic_id, queue_id) for queue_id in sorted(set(queue_ids)) or range(topic.queues)]
        return [
            (key, self._groups.committed(group, key), state.earliest(key), state.end_offsets.get(key, 0))
            for key in keys
        ]

    def _busy(self, group: str, topic: Topic) -> tuple[int, int]:
        membership = self._groups.membership(GroupTopic(group, topic.topic_id))
        keys = [QueueKey(topic.topic_id, queue_id) for queue_id in range(topic.queues)]
        return 0 if membership is None else len(membership.members), sum(
            self._state.in_flight(group, key) for key in keys
        )

    # Pausing and deleting -------------------------------------------------------------------------

    def _pause(self, caller: Caller, frame: Frame) -> None:
        request = parse(PauseRequest, frame[3])
        group = check_name(request.group, "group")
        end = self._store.log_end
        if self._store.state.parts.groups.is_paused(group) != request.paused:
            changed = GroupChanged(group=Group(group=group, paused=request.paused))
            end = self._store.append_control(Control(group_changed=changed)).end
            self._events.on_group_changed(group)
        answer_when_safe(self._store, caller, frame, end)

    def _delete(self, caller: Caller, frame: Frame) -> None:
        group = check_name(parse(GroupRequest, frame[3]).group, "group")
        reading = sum(group_topic.group == group for group_topic in self._groups.group_topics)
        leased = sum(
            self._state.in_flight(group, key) for name, key in self._store.state.group_offsets if name == group
        )
        if reading or leased:
            raise GroupBusyError(
                f"group {group!r} is active: it reads {reading} topics, {leased} messages are leased. Stop its "
                "consumers first"
            )
        if self._store.state.topic(f"%RETRY%{group}") is not None:
            self._store.delete_topic(f"%RETRY%{group}")
        appended = self._store.append_control(Control(group_changed=GroupChanged(group=Group(group=group, gone=True))))
        self._events.on_group_changed(group)
        answer_when_safe(self._store, caller, frame, appended.end)


def _answer(reset_id: str, steps: list[Step], members: int = 0, in_flight: int = 0) -> ResetAnswer:
    wire_steps = [
        ResetStep(
            queue_id=step.key.queue_id,
            before=step.before,
            after=step.after,
            least=step.start_offset,
            next=step.end_offset,
        )
        for step in steps
    ]
    return ResetAnswer(reset_id=reset_id, steps=wire_steps, members=members, in_flight=in_flight)


def _checked_id(reset_id: str) -> str:
    if not 1 <= len(reset_id) <= _MAX_ID_CHARS or not reset_id.isascii() or not reset_id.isprintable():
        raise InvalidArgumentError(f"reset_id={reset_id[:80]!r}: use 1 … {_MAX_ID_CHARS} printable ASCII characters")
    return reset_id
