"""Group administration on a cluster: ask all brokers, and merge their answers."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Sequence

from google.protobuf.message import Message as WireMessage

from litemq.client.engine.groups import (
    GroupDescription,
    GroupQueue,
    GroupSummary,
    MemberInfo,
    ResetInfo,
    ResetPlan,
    ResetStep,
)
from litemq.client.engine.survey import Survey
from litemq.client.identity import new_suffix
from litemq.errors import InvalidArgumentError
from litemq.proto.wire_pb2 import (
    Empty,
    GroupAnswer,
    GroupRequest,
    GroupsAnswer,
    Opcode,
    PauseRequest,
    QueueOffset,
    ResetAnswer,
    ResetRequest,
    UndoRequest,
)

__all__ = ["ClusterGroups"]

Ask = Callable[[str, int, WireMessage], Awaitable[bytes]]


class ClusterGroups:
    """The groups of a cluster. ``ask`` sends a request to one broker."""

    def __init__(self, ask: Ask) -> None:
        self._ask = ask

    async def _ask_all(self, brokers: Sequence[str], opcode: int, request: WireMessage) -> list[tuple[str, bytes]]:
        answers = await asyncio.gather(*(self._ask(broker, opcode, request) for broker in brokers))
        return list(zip(brokers, answers, strict=True))

    async def summaries(self, survey: Survey) -> list[GroupSummary]:
        """List all groups.

        A consumer is a member on each broker, so a group's members are the largest count.
        """
        found: dict[str, GroupSummary] = {}
        for _, answer in await survey.ask(lambda broker: self._ask(broker, Opcode.LIST_GROUPS, Empty())):
            for each in GroupsAnswer.FromString(answer).groups:
                known = found.get(each.group, GroupSummary(each.group, False, 0, 0, ()))
                topics = tuple(sorted({*known.topics, *each.topics}))
                found[each.group] = GroupSummary(
                    each.group,
                    known.paused or each.paused,
                    max(known.members, each.members),
                    known.lag + each.lag,
                    topics,
                )
        return survey.complete([found[group] for group in sorted(found)])

    async def describe(self, survey: Survey, group: str) -> GroupDescription | None:
        """Describe one group; ``None`` if no broker knows it."""
        is_known = paused = False
        queues: list[GroupQueue] = []
        members: list[MemberInfo] = []
        resets: dict[str, ResetInfo] = {}
        tries = 0
        request = GroupRequest(group=group)
        for broker, header in await survey.ask(lambda broker: self._ask(broker, Opcode.DESCRIBE_GROUP, request)):
            answer = GroupAnswer.FromString(header)
            is_known, paused, tries = is_known or answer.known, paused or answer.paused, tries + answer.waiting_tries
            queues += [
                GroupQueue(
                    *(broker, each.topic, each.range.queue_id, each.is_retry, each.committed, each.range.next),
                    *(each.lag, each.in_flight, each.member, each.oldest, each.lost, each.lost_at),
                )
                for each in answer.queues
            ]
            members += [
                MemberInfo(broker, each.topic, each.member, each.peer, each.queues, each.zone, each.is_connected)
                for each in answer.members
            ]
            for reset in answer.resets:
                known = resets.get(reset.reset_id)
                resets[reset.reset_id] = ResetInfo(
                    reset.reset_id, reset.at, reset.undoes, reset.queues + (known.queues if known else 0)
                )
        if not is_known:
            survey.require_all(f"the others do not know group {group!r}")
            return None
        queues.sort(key=lambda queue: (queue.topic, queue.is_retry, queue.broker, queue.queue_id))
        by_time = tuple(sorted(resets.values(), key=lambda reset: (reset.at, reset.reset_id)))
        return survey.complete(GroupDescription(group, paused, tuple(queues), tuple(members), by_time, tries))

    async def plan(self, brokers: Sequence[str], topic: str, group: str, to: str, value: int) -> ResetPlan:
        """Plan a reset without doing it."""
        request = ResetRequest(group=group, topic=topic, to=to, value=value)
        return _plan(topic, group, "", await self._ask_all(brokers, Opcode.PLAN_RESET, request))

    async def reset(self, plan: ResetPlan, *, force: bool) -> ResetPlan:
        """Do a planned reset, one broker after another.

        If one refuses, the remaining brokers are not changed.
        """
        reset_id = plan.reset_id or f"r-{new_suffix()}"
        planned: dict[str, list[QueueOffset]] = defaultdict(list)
        for step in plan.steps:
            planned[step.broker].append(QueueOffset(queue_id=step.queue_id, offset=step.after))
        answers = []
        for broker, offsets in planned.items():
            request = ResetRequest(group=plan.group, topic=plan.topic, planned=offsets, reset_id=reset_id, force=force)
            answers.append((broker, await self._ask(broker, Opcode.RESET, request)))
        return _plan(plan.topic, plan.group, reset_id, answers)

    async def undo(
        self, brokers: Sequence[str], topic: str, group: str, reset_id: str, *, dry_run: bool, force: bool
    ) -> ResetPlan:
        """Undo a reset on the brokers that have it; raise if none does."""
        undo_id = f"u-{new_suffix()}"
        answers: list[tuple[str, bytes]] = []
        refused: InvalidArgumentError | None = None
        for broker in brokers:
            request = UndoRequest(
                group=group, topic=topic, reset_id=reset_id, undo_id=undo_id, dry_run=dry_run, force=force
            )
            try:
                answers.append((broker, await self._ask(broker, Opcode.UNDO_RESET, request)))
            except InvalidArgumentError as error:
                refused = error  # another broker may have this reset
                continue
            reset_id = reset_id or (ResetAnswer.FromString(answers[0][1]).reset_id if dry_run else "")
        if not answers and refused is not None:
            raise refused
        return _plan(topic, group, reset_id if dry_run else undo_id, answers)

    async def pause(self, survey: Survey, group: str, *, paused: bool) -> None:
        """Pause or resume delivery to a group, on the brokers that answer."""
        request = PauseRequest(group=group, paused=paused)
        await survey.ask(lambda broker: self._ask(broker, Opcode.PAUSE_GROUP, request))
        survey.complete(None)

    async def delete(self, brokers: Sequence[str], group: str) -> None:
        await self._ask_all(brokers, Opcode.DELETE_GROUP, GroupRequest(group=group))


def _plan(topic: str, group: str, reset_id: str, answers: list[tuple[str, bytes]]) -> ResetPlan:
    steps: list[ResetStep] = []
    members = in_flight = 0
    for broker, header in answers:
        answer = ResetAnswer.FromString(header)
        members, in_flight = max(members, answer.members), in_flight + answer.in_flight
        steps += [ResetStep(broker, step.queue_id, step.before, step.after, step.next) for step in answer.steps]
    return ResetPlan(topic, group, reset_id, tuple(steps), members, in_flight)
