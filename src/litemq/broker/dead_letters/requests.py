"""The requests of operators about dead letters."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final

from litemq.broker.dead_letters.reading import DeadLetter, DeadLetterReader, selection_from_wire
from litemq.broker.dead_letters.redrive import Redrive, Redrives
from litemq.broker.runtime.caller import Caller
from litemq.broker.runtime.context import BrokerContext
from litemq.broker.runtime.handlers import Handler, Permission
from litemq.broker.runtime.request_header import parse
from litemq.errors import InvalidArgumentError, OverloadedError
from litemq.format.dead_letters import DeadSelection
from litemq.net.frame import Frame
from litemq.proto.wire_pb2 import (
    DeadLetterFacts,
    DeadLettersAnswer,
    DeadLettersRequest,
    DeadTopic,
    DeadTopicsAnswer,
    FollowRedriveRequest,
    Opcode,
    RedriveRecordsAnswer,
    RedriveRecordsRequest,
    RedriveRequest,
)
from litemq.types import check_name

__all__ = ["DeadLetterRequests"]

_LOOKED_AT: Final = 2_000  # dead letters for one answer; the client asks again for more
_FACT_BYTES: Final = 4 << 10  # at most, about
_MAX_FOLLOWERS: Final = 1_000
_RETRY_AFTER_MS: Final = 1_000
_STOPS_WITHIN: Final = 5.0  # seconds, enough for one batch


class DeadLetterRequests:
    """Lists dead letters and redrives them."""

    def __init__(self, context: BrokerContext, reader: DeadLetterReader, redrives: Redrives) -> None:
        self._reader = reader
        self._redrives = redrives
        self._limits = context.limits
        self._answers = context.answers
        self._following = 0
        self.handlers = (
            Handler(Opcode.LIST_DEAD_TOPICS, Permission.LISTED, self._list_topics),
            Handler(Opcode.LIST_DEAD_LETTERS, Permission.TOPIC_READ, self._list),
            Handler(Opcode.REDRIVE, Permission.TOPIC_UPDATE, self._redrive),
            Handler(Opcode.REDRIVE_RECORDS, Permission.TOPIC_UPDATE, self._redrive_records),
            Handler(Opcode.FOLLOW_REDRIVE, Permission.TOPIC_GET, self._follow),
            Handler(Opcode.CANCEL_REDRIVE, Permission.TOPIC_UPDATE, self._cancel),
        )

    def _list_topics(self, caller: Caller, frame: Frame) -> None:
        topics = [DeadTopic(topic=topic, letters=count) for topic, count in self._reader.topics().items()]
        caller.answer(frame, DeadTopicsAnswer(topics=topics).SerializeToString())

    def _list(self, caller: Caller, frame: Frame) -> None:
        request = parse(DeadLettersRequest, frame[3])
        check_name(request.topic)
        if request.most < 1:
            raise InvalidArgumentError("limit=0: choose at least 1")
        selection = selection_from_wire(request.selection)
        offsets = self._reader.after(request.topic, request.after, _LOOKED_AT)

        self._answers.look_up(caller, frame, lambda: self._page(request, selection, offsets))

    def _page(
        self, request: DeadLettersRequest, selection: DeadSelection, offsets: Sequence[int]
    ) -> tuple[bytes, bytes]:
        """Return the next selected dead letters of ``offsets``.

        In a thread: it may wait for the disk.
        """
        facts: list[DeadLetterFacts] = []
        records: list[bytes] = []
        size, seen = 0, request.after
        is_end = len(offsets) < _LOOKED_AT
        for log_offset in offsets:
            dead_letter = self._reader.read(log_offset)
            if isinstance(dead_letter, DeadLetter) and selection.matches(
                dead_letter.record.message_id, dead_letter.history
            ):
                size += len(dead_letter.raw) if request.whole else min(len(dead_letter.raw), _FACT_BYTES)
                if len(facts) >= request.most or (facts and size > self._limits.max_pull_bytes):
                    is_end = False
                    break
                facts.append(dead_letter.to_wire())
                if request.whole:
                    records.append(dead_letter.raw)
            seen = log_offset
        return DeadLettersAnswer(letters=facts, is_end=is_end, next_after=seen).SerializeToString(), b"".join(records)

    def _redrive(self, caller: Caller, frame: Frame) -> None:
        request = parse(RedriveRequest, frame[3])
        redrive = self._redrives.begin(
            check_name(request.topic),
            selection_from_wire(request.selection),
            messages_per_s=request.messages_per_s,
            dry_run=request.dry_run,
            drop=request.drop,
        )
        caller.answer(frame, redrive.to_wire().SerializeToString())

    def _redrive_records(self, caller: Caller, frame: Frame) -> None:
        request = parse(RedriveRecordsRequest, frame[3])

        async def answer() -> tuple[bytes, bytes]:
            done = await self._redrives.send_edited(check_name(request.topic), list(request.log_offsets), frame[4])
            return RedriveRecordsAnswer(done=done).SerializeToString(), b""

        self._answers.later(caller, frame, answer())

    def _follow(self, caller: Caller, frame: Frame) -> None:
        request = parse(FollowRedriveRequest, frame[3])
        redrive = self._redrives.get(request.redrive_id)
        if self._following >= _MAX_FOLLOWERS:
            raise OverloadedError(f"{_MAX_FOLLOWERS} clients already follow redrives: retry later", _RETRY_AFTER_MS)
        self._answers.later(
            caller, frame, self._wait_for_end(redrive, min(request.wait_ms, self._limits.max_pull_wait_ms) / 1000)
        )

    def _cancel(self, caller: Caller, frame: Frame) -> None:
        redrive = self._redrives.cancel(parse(FollowRedriveRequest, frame[3]).redrive_id)
        self._answers.later(caller, frame, self._wait_for_end(redrive, _STOPS_WITHIN))

    async def _wait_for_end(self, redrive: Redrive, seconds: float) -> tuple[bytes, bytes]:
        """Return the progress of a redrive when it ends, or after ``seconds``."""
        self._following += 1
        try:
            async with asyncio.timeout(seconds):
                await redrive.ended.wait()
        except TimeoutError:
            pass  # it still runs: the answer is its progress
        finally:
            self._following -= 1
        return redrive.to_wire().SerializeToString(), b""
