"""Halves of producers: everything that arrives in one turn of the event loop for one topic becomes one append.

A half says which transaction it is of, and which number it has there. One that comes for the second time is answered as the first was; one
whose number is not the next, or whose transaction has ended, is refused alone, and the others of its request are stored.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from litemq.broker.admission.quotas import Quotas
from litemq.broker.admission.record_claims import check_halves, priorities_of
from litemq.broker.runtime.caller import Caller
from litemq.broker.runtime.context import BrokerContext
from litemq.broker.runtime.handlers import Handler, Permission
from litemq.broker.runtime.request_header import parse
from litemq.broker.transactions.capacity import HalfRoom
from litemq.broker.transactions.check_back import CheckBack
from litemq.errors import (
    BacklogFullError,
    InvalidArgumentError,
    LiteMQError,
    RecordFormatError,
    SequenceGapError,
    StoreFailedError,
    TransactionEndedError,
    TransactionRefusedError,
    UnsupportedFeatureError,
)
from litemq.format.batches.scan import ScanStop, scan
from litemq.format.columns.record_columns import RecordColumns
from litemq.format.limits import STORED_LIMITS
from litemq.format.transactions import check_transaction
from litemq.net.failures import encode_failure
from litemq.net.frame import Frame
from litemq.proto.wire_pb2 import Failure, HalfRefused, Opcode, SendHalfAnswer, SendHalfRequest
from litemq.storage.state import TopicFacts
from litemq.storage.state.transactions.halves import Halves
from litemq.types import Durability, is_system_name

__all__ = ["HalfSending"]

_DISK: Final = int(Durability.DISK)
_OWN_FAULTS: Final = (RecordFormatError, InvalidArgumentError, UnsupportedFeatureError, BacklogFullError)
_LOG = logging.getLogger(__name__)


class _Request(NamedTuple):
    caller: Caller
    frame: Frame
    queue_ids: list[int]  # one for all records, or one for each


class _Taken(NamedTuple):
    """Requests whose records are whole: where the records of each begin among all, and what they say."""

    columns: RecordColumns
    queue_ids: npt.NDArray[np.int64]
    bounds: list[int]
    names: list[str]


class HalfSending:
    """On the event loop that is running when it is made."""

    def __init__(self, context: BrokerContext, quotas: Quotas, room: HalfRoom, check_back: CheckBack) -> None:
        self._store = context.store
        self._limits = context.limits
        self._topics = context.topics
        self._quotas = quotas
        self._room = room
        self._check_back = check_back
        self._loop = asyncio.get_running_loop()
        self._gathered: dict[int, list[_Request]] = {}  # by topic
        self.handlers = (Handler(Opcode.SEND_HALF, Permission.TOPIC_PUB, self._take),)

    @property
    def _halves(self) -> Halves:
        return self._store.state.delivery.halves

    def _take(self, caller: Caller, frame: Frame) -> None:
        request = parse(SendHalfRequest, frame[3])
        topic = self._topics.find(request.topic)
        if is_system_name(topic.name):
            raise InvalidArgumentError(f"topic {topic.name!r} is the broker's own")
        queue_ids = list(request.queue_ids)
        if not queue_ids or max(queue_ids) >= topic.queues:
            raise InvalidArgumentError(f"queues {queue_ids[:8]}: topic {topic.name!r} has {topic.queues}")
        if not self._gathered:
            self._loop.call_soon(self._append_all)
        self._gathered.setdefault(topic.topic_id, []).append(_Request(caller, frame, queue_ids))

    def _append_all(self) -> None:
        gathered, self._gathered = self._gathered, {}
        for topic_id, requests in gathered.items():
            if self._quotas.is_on:  # whose is used up is a matter of each
                for request in requests:
                    self._append_of_topic(topic_id, [request])
            else:
                self._append_of_topic(topic_id, requests)

    def _append_of_topic(self, topic_id: int, requests: list[_Request]) -> None:
        try:
            self._append(self._store.state.topics[topic_id], requests)
        except _OWN_FAULTS as error:
            if len(requests) == 1:
                requests[0].caller.refuse(requests[0].frame, error)
            else:  # something of somebody's: each is looked at for itself
                for request in requests:
                    self._append_of_topic(topic_id, [request])
        except LiteMQError as error:  # nobody's fault, and so everybody's
            for request in requests:
                request.caller.refuse(request.frame, error)
        except Exception:  # noqa: BLE001  whoever sent waits for an answer
            _LOG.exception("an append failed")
            for request in requests:
                request.caller.refuse(
                    request.frame, StoreFailedError("the broker could not append this, or does not know; its log says why")
                )

    def _append(self, topic: TopicFacts, requests: list[_Request]) -> None:
        taken = self._look_at(topic, requests)
        numbers, refused, new = self._choose(taken)
        store_timestamp = 0
        if numbers:
            columns = taken.columns
            whole = bytearray(columns.buffer)
            if len(numbers) < len(columns):
                starts, sizes = columns.starts.tolist(), columns.sizes.tolist()
                whole = bytearray().join([columns.buffer[starts[n] : starts[n] + sizes[n]] for n in numbers])
            self._check_room(topic, taken, numbers, len(whole), len(new), requests)
            appended = self._store.append_producers_halves(whole, topic.topic_id, taken.queue_ids[numbers])
            store_timestamp = appended.store_timestamp
            self._check_back.watch(new)
        self._answer(requests, taken, refused, store_timestamp)

    def _look_at(self, topic: TopicFacts, requests: list[_Request]) -> _Taken:
        joined = b"".join([request.frame[4] for request in requests])
        found = scan(joined, limits=STORED_LIMITS)
        if found.stop is not ScanStop.END or not found.starts.size:
            raise RecordFormatError(
                "truncated" if found.stop is ScanStop.INCOMPLETE else "size", found.end, "a request holds whole records"
            )
        columns = RecordColumns(joined, found.starts)
        ends = np.cumsum([len(request.frame[4]) for request in requests])
        bounds = [0, *np.searchsorted(found.starts, ends).tolist()]
        queue_ids: list[int] = []
        for request, first, behind in zip(requests, bounds, bounds[1:], strict=False):
            count = behind - first
            if count == 0 or len(request.queue_ids) not in (1, count):
                raise InvalidArgumentError(f"{len(request.queue_ids)} queues for {count} records: name one for all, or one for each")
            queue_ids += request.queue_ids * count if len(request.queue_ids) == 1 else request.queue_ids
        queues = np.array(queue_ids, np.int64)
        check_halves(columns, queues, lambda queue_id: priorities_of(queue_id, has_priorities=topic.has_priorities))
        names = columns.part("transaction_id")
        places = zip(names.positions.tolist(), names.lengths.tolist(), strict=True)
        return _Taken(columns, queues, bounds, [str(joined[at : at + length], "utf-8", "replace") for at, length in places])

    def _choose(self, taken: _Taken) -> tuple[list[int], dict[int, LiteMQError], list[str]]:
        """The numbers of the records that are to be appended, why others are not, and which transactions begin with these."""
        halves, most = self._halves, self._limits.max_transaction_messages
        chosen: list[int] = []
        refused: dict[int, LiteMQError] = {}
        expected: dict[str, int] = {}
        new: list[str] = []
        for number, (name, sequence) in enumerate(zip(taken.names, taken.columns.header["sequence"].tolist(), strict=True)):
            following = expected.get(name)
            if following is None:
                known = halves.get(name)
                if known is None:
                    check_transaction(name)
                outcome = halves.outcomes.get(name)
                if outcome is not None or (known is not None and (known.number or known.dead)):
                    word = "committed" if outcome is None else outcome.name.lower().replace("_", " ")
                    refused[number] = TransactionEndedError(f"transaction {name!r} is {word}, and takes no more messages")
                    continue
                following = expected[name] = 0 if known is None else known.count
            if sequence < following:
                continue  # it came with an earlier try of the request
            if sequence > following:
                refused[number] = _missing(name, sequence, following)
            elif sequence >= most:
                refused[number] = InvalidArgumentError(
                    f"transaction {name!r} has {most} messages, and takes no more (max_transaction_messages)"
                )
            else:
                chosen.append(number)
                expected[name] = sequence + 1
                if not sequence:
                    new.append(name)
        return chosen, refused, new

    def _check_room(self, topic: TopicFacts, taken: _Taken, numbers: list[int], size: int, new: int, requests: list[_Request]) -> None:
        due = int(taken.columns.header["delay_time"].max())
        for queue_id in set(taken.queue_ids[numbers].tolist()):
            self._room.check(topic, queue_id, size, due, new)
        if self._quotas.is_on:
            for request, first, behind in zip(requests, taken.bounds, taken.bounds[1:], strict=False):
                self._quotas.take(request.caller.client_id, behind - first, len(request.frame[4]))

    def _answer(self, requests: list[_Request], taken: _Taken, refused: dict[int, LiteMQError], store_timestamp: int) -> None:
        """Those to whom memory is enough at once, the others when it is confirmed."""
        levels = taken.columns.header["reliability"]
        plain = SendHalfAnswer(store_timestamp=store_timestamp).SerializeToString()
        later: list[tuple[_Request, bytes]] = []
        for request, first, behind in zip(requests, taken.bounds, taken.bounds[1:], strict=False):
            answer = plain
            if refused:
                told = [_refusal(number - first, refused[number]) for number in range(first, behind) if number in refused]
                answer = SendHalfAnswer(store_timestamp=store_timestamp, refused=told).SerializeToString()
            if levels[first:behind].max() >= _DISK:
                later.append((request, answer))
            else:
                request.caller.answer(request.frame, answer)

        def confirmed(failure: LiteMQError | None) -> None:
            for request, answer in later:
                if failure is None:
                    request.caller.answer(request.frame, answer)
                else:
                    request.caller.refuse(request.frame, failure)

        if later:
            self._store.when_confirmed(self._store.log_end, confirmed)


def _missing(name: str, sequence: int, following: int) -> LiteMQError:
    if following:
        return SequenceGapError(f"message {sequence} of transaction {name!r}: {following} is the next", following)
    return TransactionRefusedError(
        f"transaction {name!r} has no messages here, though {sequence} were sent before: it has ended, or the broker lost what was not "
        f"stored safely. Begin another one"
    )


def _refusal(number: int, error: LiteMQError) -> HalfRefused:
    return HalfRefused(number=number, failure=Failure.FromString(encode_failure(error)))
