"""The ``DeadLetterEngine`` of a cluster: requests to its brokers."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

from litemq.client.engine.dead_letters import DeadLetterInfo, DeadLetterPage, RedriveProgress, StartedRedrive
from litemq.client.transport.channel import Answer
from litemq.format.dead_letters import DeadSelection
from litemq.proto import wire_pb2 as wire
from litemq.proto.wire_pb2 import (
    DeadLettersAnswer,
    DeadLettersRequest,
    DeadTopicsAnswer,
    FollowRedriveRequest,
    Opcode,
    RedriveAnswer,
    RedriveRecordsAnswer,
    RedriveRecordsRequest,
    RedriveRequest,
)
from litemq.types import DeadReason

__all__ = ["ClusterDeadLetters"]

# Broker, opcode, header, attachment, and the seconds to add to the request timeout.
Ask = Callable[[str, int, bytes, bytes, float], Awaitable[Answer]]


class ClusterDeadLetters:
    """A ``DeadLetterEngine``."""

    def __init__(self, ask: Ask) -> None:
        self._ask = ask

    async def topics(self, broker: str) -> dict[str, int]:
        answer = await self._ask(broker, Opcode.LIST_DEAD_TOPICS, b"", b"", 0)
        return {entry.topic: entry.letters for entry in DeadTopicsAnswer.FromString(answer.header).topics}

    async def page(
        self, broker: str, topic: str, selection: DeadSelection, *, after: int, limit: int, whole: bool
    ) -> DeadLetterPage:
        request = DeadLettersRequest(
            topic=topic, selection=_selection_to_wire(selection), after=after, most=limit, whole=whole
        )
        header, records = await self._ask(broker, Opcode.LIST_DEAD_LETTERS, request.SerializeToString(), b"", 0)
        answer = DeadLettersAnswer.FromString(header)
        return DeadLetterPage(
            tuple(map(_dead_letter_from_wire, answer.letters)), records, answer.next_after, answer.is_end
        )

    async def begin(
        self, broker: str, topic: str, selection: DeadSelection, *, messages_per_s: int, dry_run: bool, drop: bool
    ) -> StartedRedrive:
        wanted = _selection_to_wire(selection)
        request = RedriveRequest(
            topic=topic, selection=wanted, messages_per_s=messages_per_s, dry_run=dry_run, drop=drop
        )
        answer = RedriveAnswer.FromString(
            (await self._ask(broker, Opcode.REDRIVE, request.SerializeToString(), b"", 0)).header
        )
        return StartedRedrive(answer.redrive_id, _progress_from_wire(answer))

    async def follow(self, broker: str, redrive_id: int, wait_ms: int) -> RedriveProgress:
        request = FollowRedriveRequest(redrive_id=redrive_id, wait_ms=wait_ms)
        answer = await self._ask(broker, Opcode.FOLLOW_REDRIVE, request.SerializeToString(), b"", wait_ms / 1000)
        return _progress_from_wire(RedriveAnswer.FromString(answer.header))

    async def cancel(self, broker: str, redrive_id: int) -> RedriveProgress:
        request = FollowRedriveRequest(redrive_id=redrive_id)
        answer = await self._ask(broker, Opcode.CANCEL_REDRIVE, request.SerializeToString(), b"", 0)
        return _progress_from_wire(RedriveAnswer.FromString(answer.header))

    async def redrive_records(self, broker: str, topic: str, log_offsets: Sequence[int], records: bytes) -> list[bool]:
        request = RedriveRecordsRequest(topic=topic, log_offsets=log_offsets)
        answer = await self._ask(broker, Opcode.REDRIVE_RECORDS, request.SerializeToString(), records, 0)
        return list(RedriveRecordsAnswer.FromString(answer.header).done)


def _selection_to_wire(selection: DeadSelection) -> wire.DeadSelection:
    wanted = wire.DeadSelection(
        message_ids=sorted(selection.message_ids),
        since=selection.since,
        until=selection.until,
        reasons=sorted(selection.reasons),
        group=selection.group,
        fingerprint=selection.fingerprint,
    )
    if selection.undecodable is not None:
        wanted.undecodable = selection.undecodable
    return wanted


def _dead_letter_from_wire(facts: wire.DeadLetterFacts) -> DeadLetterInfo:
    try:
        reason = DeadReason(facts.reason)
    except ValueError:
        reason = DeadReason.CONSUME_ERROR  # a reason of a later version
    return DeadLetterInfo(
        facts.log_offset,
        facts.queue_offset,
        facts.message_id,
        tuple(facts.keys),
        reason,
        facts.detail,
        facts.group,
        facts.consumer,
        facts.error,
        facts.tries,
        facts.dead_at,
        facts.fingerprint,
        facts.size,
    )


def _progress_from_wire(answer: RedriveAnswer) -> RedriveProgress:
    return RedriveProgress(
        answer.state,
        answer.letters,
        answer.examined,
        answer.selected,
        answer.done,
        answer.gone,
        answer.expired,
        answer.damaged,
        problem=answer.problem,
    )
