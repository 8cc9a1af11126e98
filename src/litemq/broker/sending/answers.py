"""The answers to sends: each request is answered once the durability level of its records holds."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import accumulate, groupby
from typing import Final

from litemq.broker.admission.durability_wait import when_held
from litemq.broker.runtime.caller import Caller
from litemq.broker.sending.send_tick import Earlier, Known, Request, SendTick
from litemq.errors import LiteMQError
from litemq.net.frame import Frame
from litemq.net.sent_answers import pack_sent_answer
from litemq.proto.wire_pb2 import SendAnswer, SentEarlier
from litemq.storage.store import Sent, Store
from litemq.types import Durability

__all__ = ["SendAnswers", "list_held_offsets", "refuse_all"]

_NO_OFFSET: Final = -1  # of a timer, which has no offset yet, and of durability NONE
_DISK: Final = int(Durability.DISK)


class SendAnswers:
    """Answers the requests of ticks. See ``when_held``."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._is_replicated = store.is_replicated

    def answer(self, topic_id: int, tick: SendTick, offsets: list[int], sent: Sent) -> None:
        """Answer the new requests of ``tick``, whose first records have ``offsets``."""
        levels = set(tick.levels)
        if 0 in levels:
            offsets = [offset if level else _NO_OFFSET for offset, level in zip(offsets, tick.levels, strict=True)]
        everything = range(len(offsets))
        for level in sorted(levels):
            indexes: Sequence[int] = everything
            if len(levels) > 1:
                indexes = [index for index in everything if tick.levels[index] == level]
            answer = partial(_answer_some, tick, offsets, sent.store_timestamp, indexes)
            when_held(self._store, topic_id, level, sent.end, answer)

    def answer_one(self, topic_id: int, caller: Caller, frame: Frame, level: int, sent: Sent) -> None:
        """Answer the only request of a tick, whose records are ``sent``."""
        header = pack_sent_answer(sent.queue_offsets[0] if level else _NO_OFFSET, sent.store_timestamp)
        if level < _DISK and not self._is_replicated:
            caller.answer(frame, header)
        else:
            when_held(self._store, topic_id, level, sent.end, partial(_answer_one, caller, frame, header))

    def answer_known(self, topic_id: int, known: Known) -> None:
        """Answer a request that an earlier try appended with its first receipts.

        The earlier try may have had a lower level, or another master. It is in the log, so the
        level holds once it holds for the whole log.
        """
        caller, frame, earlier, level = known
        header = _pack_earlier(earlier, _NO_OFFSET, 0)
        when_held(self._store, topic_id, level, self._store.log_end, partial(_answer_one, caller, frame, header))


def refuse_all(requests: list[Request], error: LiteMQError) -> None:
    """Refuse all of ``requests`` with ``error``."""
    for caller, frame, _ in requests:
        caller.refuse(frame, error)


def list_held_offsets(tick: SendTick, offsets: list[int], all_offsets: list[int], store_timestamp: int) -> list[int]:
    """Move the offsets of requests that mix timers and plain records to ``tick.earlier``; return
    the other ``offsets``.

    A timer has no offset yet, so the answer to such a request has each of its ``all_offsets``. If
    all records of a request are timers, as is usual, the short answer is enough.
    """
    offsets = offsets.copy()
    firsts = list(accumulate(tick.counts, initial=0))
    for index in tick.delayed:
        request_offsets = all_offsets[firsts[index] : firsts[index + 1]]
        if index not in tick.earlier and max(request_offsets) == _NO_OFFSET:
            continue
        if _NO_OFFSET in request_offsets and tick.levels[index]:
            tick.earlier.setdefault(index, []).extend((offset, store_timestamp) for offset in request_offsets)
            offsets[index] = _NO_OFFSET
    return offsets


def _answer_some(
    tick: SendTick, offsets: list[int], store_timestamp: int, indexes: Sequence[int], failure: LiteMQError | None
) -> None:
    """Answer the requests at ``indexes``.

    Neighbours of one caller share one call of ``answer_sent``.
    """
    callers, frames = tick.callers, tick.frames
    if failure is not None:
        for index in indexes:
            callers[index].refuse(frames[index], failure)
        return
    if tick.earlier:
        for index in tick.earlier.keys() & set(indexes):
            callers[index].answer(frames[index], _pack_earlier(tick.earlier[index], offsets[index], store_timestamp))
        indexes = [index for index in indexes if index not in tick.earlier]
    for caller, group in groupby(indexes, callers.__getitem__):
        neighbours = list(group)
        caller.answer_sent(
            [frames[index][0] for index in neighbours], [offsets[index] for index in neighbours], store_timestamp
        )


def _answer_one(caller: Caller, frame: Frame, header: bytes, failure: LiteMQError | None) -> None:
    if failure is None:
        caller.answer(frame, header)
    else:
        caller.refuse(frame, failure)


def _pack_earlier(earlier: Earlier, queue_offset: int, store_timestamp: int) -> bytes:
    receipts = [SentEarlier(queue_offset=offset, store_timestamp=time) for offset, time in earlier]
    answer = SendAnswer(queue_offset=queue_offset, store_timestamp=store_timestamp, earlier=receipts)
    return answer.SerializeToString()
