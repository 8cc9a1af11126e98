"""Dead letters of a cluster's brokers, asked over the wire."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

from litemq.client.engine.dead_letters import DeadLetterFact, DeadLetterPage, RedriveProgress, RedriveStarted
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

# Broker, opcode, header, attachment, how many seconds more than usual the answer may take.
Ask = Callable[[str, int, bytes, bytes, float], Awaitable[Answer]]


class ClusterDeadLetters:
    """A ``DeadLetterBackend``."""

    def __init__(self, ask: Ask, brokers: Callable[[], Awaitable[list[str]]]) -> None:
        self._ask = ask
        self._brokers = brokers  # those that are alive

    async def topics(self) -> dict[str, dict[str, int]]:
        found = {}
        for broker in await self._brokers():
            answer = await self._ask(broker, Opcode.LIST_DEAD_TOPICS, b"", b"", 0)
            found[broker] = {entry.topic: entry.letters for entry in DeadTopicsAnswer.FromString(answer.header).topics}
        return found

    async def page(self, broker: str, topic: str, selection: DeadSelection, *, after: int, most: int, whole: bool) -> DeadLetterPage:
        request = DeadLettersRequest(topic=topic, selection=_told(selection), after=after, most=most, whole=whole)
        header, records = await self._ask(broker, Opcode.LIST_DEAD_LETTERS, request.SerializeToString(), b"", 0)
        answer = DeadLettersAnswer.FromString(header)
        return DeadLetterPage(tuple(map(_fact, answer.letters)), records, answer.next_after, answer.is_end)

    async def begin(
        self, broker: str, topic: str, selection: DeadSelection, *, messages_per_s: int, dry_run: bool, drop: bool
    ) -> RedriveStarted:
        request = RedriveRequest(topic=topic, selection=_told(selection), messages_per_s=messages_per_s, dry_run=dry_run, drop=drop)
        answer = RedriveAnswer.FromString((await self._ask(broker, Opcode.REDRIVE, request.SerializeToString(), b"", 0)).header)
        return RedriveStarted(answer.redrive_id, _progress(answer))

    async def follow(self, broker: str, redrive_id: int, wait_ms: int) -> RedriveProgress:
        request = FollowRedriveRequest(redrive_id=redrive_id, wait_ms=wait_ms)
        answer = await self._ask(broker, Opcode.FOLLOW_REDRIVE, request.SerializeToString(), b"", wait_ms / 1000)
        return _progress(RedriveAnswer.FromString(answer.header))

    async def cancel(self, broker: str, redrive_id: int) -> RedriveProgress:
        request = FollowRedriveRequest(redrive_id=redrive_id)
        return _progress(
            RedriveAnswer.FromString((await self._ask(broker, Opcode.CANCEL_REDRIVE, request.SerializeToString(), b"", 0)).header)
        )

    async def send_on(self, broker: str, topic: str, log_offsets: Sequence[int], records: bytes) -> list[bool]:
        request = RedriveRecordsRequest(topic=topic, log_offsets=log_offsets)
        answer = await self._ask(broker, Opcode.REDRIVE_RECORDS, request.SerializeToString(), records, 0)
        return list(RedriveRecordsAnswer.FromString(answer.header).done)


def _told(selection: DeadSelection) -> wire.DeadSelection:
    return wire.DeadSelection(
        message_ids=sorted(selection.message_ids),
        since=selection.since,
        until=selection.until,
        reasons=sorted(selection.reasons),
        group=selection.group,
        fingerprint=selection.fingerprint,
        undecodable=selection.undecodable,
    )


def _fact(told: wire.DeadLetterFacts) -> DeadLetterFact:
    try:
        reason = DeadReason(told.reason)
    except ValueError:
        reason = DeadReason.CONSUME_ERROR  # a later version may know more
    return DeadLetterFact(
        told.log_offset,
        told.queue_offset,
        told.message_id,
        tuple(told.keys),
        reason,
        told.detail,
        told.group,
        told.consumer,
        told.error,
        told.tries,
        told.dead_at,
        told.fingerprint,
        told.size,
    )


def _progress(told: RedriveAnswer) -> RedriveProgress:
    return RedriveProgress(
        told.state,
        told.letters,
        told.examined,
        told.selected,
        told.done,
        told.gone,
        told.expired,
        told.damaged,
        problem=told.problem,
    )
