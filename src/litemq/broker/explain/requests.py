"""``WHY``: the request, and its answer in words."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final

from litemq.broker.explain.evidence import Gathered, Gatherer
from litemq.broker.explain.verdict import Facts, reason
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

_MOST_EVENTS: Final = 50


class WhyRequests:
    """``handlers`` are those of a broker."""

    def __init__(self, context: BrokerContext, recent_consumers: RecentConsumers) -> None:
        self._gatherer = Gatherer(context, recent_consumers)
        self._answers = context.answers
        self.handlers = (Handler(Opcode.WHY, Permission.GROUP_GET, self._why),)

    def _why(self, caller: Caller, frame: Frame) -> None:
        request = parse(WhyRequest, frame[3])
        check_name(request.group, "group")
        if not request.message_id or len(request.message_id.encode()) > MAX_MESSAGE_ID_BYTES:
            raise InvalidArgumentError(f"message_id={request.message_id[:80]!r}: 1 … {MAX_MESSAGE_ID_BYTES} bytes are an id")

        async def answer() -> tuple[bytes, bytes]:
            gathered = await self._gatherer.gather(request.topic, request.message_id, request.group)
            return _told(gathered).SerializeToString(), b""

        self._answers.later(caller, frame, answer())


def _told(gathered: Gathered) -> WhyAnswer:
    facts = gathered.facts
    verdict, sentence, advice = reason(facts)
    lines = [*_lines(facts), *map(_line, gathered.events[-_MOST_EVENTS:])]
    return WhyAnswer(verdict=verdict.value, topic=facts.topic if facts.is_found else "", sentence=sentence, advice=advice, facts=lines)


def _lines(facts: Facts) -> list[str]:
    """What is known besides, for people."""
    if not facts.is_found:
        return []
    lines = [f"topic: {facts.topic}"]
    if facts.stored_at:
        lines.append(f"stored: {_time(facts.stored_at)}")
    if facts.delivery is not None:
        place = facts.delivery
        begun = f"the group is at {place.group_offset}" if place.group_offset >= 0 else "the group has not begun there"
        lines.append(f"place: {place.queue}, offset {place.offset}; {begun}")
    if facts.expire_at:
        lines.append(f"lives until: {_time(facts.expire_at)}")
    if facts.filter:
        lines.append(f"filter of the group: {facts.filter}")
    lines.append(f"came for the group in the last 90 s: {facts.comes or 'nobody'}")
    return lines


def _line(event: TraceEvent) -> str:
    who = " ".join(
        word for word in (event.group and f"group {event.group}", event.client and f"client {event.client}", event.detail) if word
    )
    place = f" {event.topic}/{event.queue_id} at {event.offset}" if event.offset >= 0 else ""
    return f"trace: {_time(event.at)} {event.event}{place} {who}".rstrip()


def _time(milliseconds: int) -> str:
    return datetime.fromtimestamp(milliseconds / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
