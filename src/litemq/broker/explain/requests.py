"""The request WHY, and its answer in words."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final

from litemq.broker.explain.evidence import CollectedEvidence, EvidenceCollector
from litemq.broker.explain.verdict import Evidence, reason
from litemq.broker.groups.recent_consumers import RecentConsumers
from litemq.broker.runtime.caller import Caller
from litemq.broker.runtime.context import BrokerContext
from litemq.broker.runtime.handlers import Handler, Permission
from litemq.broker.runtime.request_header import parse
from litemq.broker.tracing.events import TraceEvent
from litemq.errors import InvalidArgumentError
from litemq.format.limits import MAX_MESSAGE_ID_BYTES
from litemq.net.frame import Frame
from litemq.proto.wire_pb2 import Opcode, WhyAnswer, WhyRequest
from litemq.types import check_name

__all__ = ["WhyRequests"]

_MAX_EVENTS: Final = 50


class WhyRequests:
    """Answers why a group has not consumed a message."""

    def __init__(self, context: BrokerContext, recent_consumers: RecentConsumers) -> None:
        self._collector = EvidenceCollector(context, recent_consumers)
        self._answers = context.answers
        self.handlers = (Handler(Opcode.WHY, Permission.GROUP_GET, self._why),)

    def _why(self, caller: Caller, frame: Frame) -> None:
        request = parse(WhyRequest, frame[3])
        check_name(request.group, "group")
        if not request.message_id or len(request.message_id.encode()) > MAX_MESSAGE_ID_BYTES:
            raise InvalidArgumentError(f"message_id={request.message_id[:80]!r}: use 1 … {MAX_MESSAGE_ID_BYTES} bytes")

        async def answer() -> tuple[bytes, bytes]:
            collected = await self._collector.collect(request.topic, request.message_id, request.group)
            return _to_wire(collected).SerializeToString(), b""

        self._answers.later(caller, frame, answer())


def _to_wire(collected: CollectedEvidence) -> WhyAnswer:
    evidence = collected.evidence
    verdict, sentence, advice = reason(evidence)
    lines = [*_lines(evidence), *map(_line, collected.events[-_MAX_EVENTS:])]
    return WhyAnswer(
        verdict=verdict.value,
        topic=evidence.topic if evidence.is_found else "",
        sentence=sentence,
        advice=advice,
        facts=lines,
    )


def _lines(evidence: Evidence) -> list[str]:
    """Return the evidence as lines, for people."""
    if not evidence.is_found:
        return []
    lines = [f"topic: {evidence.topic}"]
    if evidence.stored_at:
        lines.append(f"stored: {_time(evidence.stored_at)}")
    if evidence.delivery is not None:
        delivery = evidence.delivery
        progress = (
            f"the group is at {delivery.group_offset}" if delivery.group_offset >= 0 else "the group has no offset"
        )
        lines.append(f"position: {delivery.queue}, offset {delivery.offset}; {progress}")
    if evidence.expire_at:
        lines.append(f"expires: {_time(evidence.expire_at)}")
    if evidence.filter:
        lines.append(f"filter of the group: {evidence.filter}")
    lines.append(f"active consumers in the last 90 s: {evidence.consumers or 'none'}")
    return lines


def _line(event: TraceEvent) -> str:
    who = " ".join(
        word
        for word in (event.group and f"group {event.group}", event.client and f"client {event.client}", event.detail)
        if word
    )
    position = f" {event.topic}/{event.queue_id} at {event.offset}" if event.offset >= 0 else ""
    return f"trace: {_time(event.at)} {event.event}{position} {who}".rstrip()


def _time(milliseconds: int) -> str:
    return datetime.fromtimestamp(milliseconds / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
