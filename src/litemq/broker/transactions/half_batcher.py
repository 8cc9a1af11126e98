"""The half batcher: halves of producers that arrive in one event-loop tick for one topic are one
append.

A half names its transaction and its number there. A repeated half is answered like the first. A
half whose number is not the next, or whose transaction has ended, is refused alone; the others of
its request are stored.
"""

from __future__ import annotations

import asyncio
import logging
from functools import partial
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from litemq.broker.admission.durability_wait import when_held
from litemq.broker.admission.quotas import Quotas
from litemq.broker.admission.record_claims import check_halves, queue_priorities
from litemq.broker.admission.replicas import check_enough_replicas, check_replicated
from litemq.broker.runtime.caller import Caller
from litemq.broker.runtime.context import BrokerContext
from litemq.broker.runtime.handlers import Handler, Permission
from litemq.broker.runtime.request_header import parse
from litemq.broker.transactions.capacity import HalfCapacity
from litemq.broker.transactions.check_back import CheckBack
from litemq.errors import (
    BacklogFullError,
    InvalidArgumentError,
    LiteMQError,
    NotEnoughReplicasError,
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
from litemq.storage.state import Topic
from litemq.storage.state.transactions.halves import Halves
from litemq.types import is_system_name

__all__ = ["HalfBatcher"]

_OWN_FAULTS: Final = (
    RecordFormatError,
    InvalidArgumentError,
    UnsupportedFeatureError,
    BacklogFullError,
    NotEnoughReplicasError,
)
_LOG = logging.getLogger(__name__)


class _Request(NamedTuple):
    caller: Caller
    frame: Frame
    queue_ids: list[int]  # one for all records, or one for each


class _ParsedHalves(NamedTuple):
    """The records of valid requests: where those of each request begin, and the transaction of each
    record.
    """

    columns: RecordColumns
    queue_ids: npt.NDArray[np.int64]
    bounds: list[int]
    names: list[str]


class HalfBatcher:
    """Takes SEND_HALF, on the event loop that is running when it is created."""

    def __init__(self, context: BrokerContext, quotas: Quotas, capacity: HalfCapacity, check_back: CheckBack) -> None:
        self._store = context.store
        self._limits = context.limits
        self._topics = context.topics
        self._quotas = quotas
        self._capacity = capacity
        self._check_back = check_back
        self._loop = asyncio.get_running_loop()
        self._gathered: dict[int, list[_Request]] = {}  # by topic
        self.handlers = (Handler(Opcode.SEND_HALF, Permission.TOPIC_PUB, self._take),)

    @property
    def _halves(self) -> Halves:
        return self._store.state.parts.halves

    def _take(self, caller: Caller, frame: Frame) -> None:
        request = parse(SendHalfRequest, frame[3])
        topic = self._topics.find(request.topic)
        if is_system_name(topic.name):
            raise InvalidArgumentError(f"topic {topic.name!r} is reserved for the broker: send to another topic")
        queue_ids = list(request.queue_ids)
        if not queue_ids or max(queue_ids) >= topic.queues:
            raise InvalidArgumentError(
                f"queues {queue_ids[:8]}: topic {topic.name!r} has {topic.queues}, numbered from 0"
            )
        if not self._gathered:
            self._loop.call_soon(self._append_all)
        self._gathered.setdefault(topic.topic_id, []).append(_Request(caller, frame, queue_ids))

    def _append_all(self) -> None:
        gathered, self._gathered = self._gathered, {}
        for topic_id, requests in gathered.items():
            if self._quotas.is_on:  # a quota may refuse one request only
                for request in requests:
                    self._append_topic(topic_id, [request])
            else:
                self._append_topic(topic_id, requests)

    def _append_topic(self, topic_id: int, requests: list[_Request]) -> None:
        try:
            self._append(self._store.state.topics[topic_id], requests)
        except _OWN_FAULTS as error:
            if len(requests) == 1:
                requests[0].caller.refuse(requests[0].frame, error)
            else:  # one request is invalid: append each alone
                for request in requests:
                    self._append_topic(topic_id, [request])
        except LiteMQError as error:  # no request caused it, so all of them fail
            for request in requests:
                request.caller.refuse(request.frame, error)
        except Exception:  # noqa: BLE001  every caller waits for an answer
            _LOG.exception("an append failed")
            for request in requests:
                request.caller.refuse(
                    request.frame,
                    StoreFailedError("the append failed, or its outcome is unknown: see the broker's log"),
                )

    def _append(self, topic: Topic, requests: list[_Request]) -> None:
        parsed = self._parse_records(topic, requests)
        numbers, refused, new = self._choose(parsed)
        store_timestamp = 0
        if numbers:
            columns = parsed.columns
            check_enough_replicas(self._store, topic, int(columns.header["reliability"][numbers].max()))
            whole = bytearray(columns.buffer)
            if len(numbers) < len(columns):
                starts, sizes = columns.starts.tolist(), columns.sizes.tolist()
                whole = bytearray().join([columns.buffer[starts[n] : starts[n] + sizes[n]] for n in numbers])
            self._check_capacity(topic, parsed, numbers, len(whole), len(new), requests)
            appended = self._store.append_producers_halves(whole, topic.topic_id, parsed.queue_ids[numbers])
            store_timestamp = appended.store_timestamp
            self._check_back.watch(new)
        self._answer(topic.topic_id, requests, parsed, refused, store_timestamp)

    def _parse_records(self, topic: Topic, requests: list[_Request]) -> _ParsedHalves:
        joined = b"".join([request.frame[4] for request in requests])
        found = scan(joined, limits=STORED_LIMITS)
        if found.stop is not ScanStop.END or not found.starts.size:
            raise RecordFormatError(
                "truncated" if found.stop is ScanStop.INCOMPLETE else "size",
                found.end,
                "a request must contain complete records",
            )
        columns = RecordColumns(joined, found.starts)
        ends = np.cumsum([len(request.frame[4]) for request in requests])
        bounds = [0, *np.searchsorted(found.starts, ends).tolist()]
        queue_ids: list[int] = []
        for request, first, end in zip(requests, bounds, bounds[1:], strict=False):
            count = end - first
            if count == 0 or len(request.queue_ids) not in (1, count):
                raise InvalidArgumentError(
                    f"{len(request.queue_ids)} queues for {count} records: name one for all, or one for each"
                )
            queue_ids += request.queue_ids * count if len(request.queue_ids) == 1 else request.queue_ids
        queues = np.array(queue_ids, np.int64)
        check_halves(columns, queues, lambda queue_id: queue_priorities(queue_id, has_priorities=topic.has_priorities))
        check_replicated(self._store, int(columns.header["reliability"].max()))
        names = columns.part("transaction_id")
        spans = zip(names.positions.tolist(), names.lengths.tolist(), strict=True)
        return _ParsedHalves(
            columns, queues, bounds, [str(joined[at : at + length], "utf-8", "replace") for at, length in spans]
        )

    def _choose(self, parsed: _ParsedHalves) -> tuple[list[int], dict[int, LiteMQError], list[str]]:
        """Return the numbers of the records to append, the errors of refused ones, and the
        transactions that begin.
        """
        halves, limit = self._halves, self._limits.max_transaction_messages
        chosen: list[int] = []
        refused: dict[int, LiteMQError] = {}
        expected: dict[str, int] = {}
        new: list[str] = []
        for number, (name, sequence) in enumerate(
            zip(parsed.names, parsed.columns.header["sequence"].tolist(), strict=True)
        ):
            next_number = expected.get(name)
            if next_number is None:
                known = halves.get(name)
                if known is None:
                    check_transaction(name)
                outcome = halves.outcomes.get(name)
                if outcome is not None or (known is not None and (known.decision_number or known.dead)):
                    word = "committed" if outcome is None else outcome.name.lower().replace("_", " ")
                    refused[number] = TransactionEndedError(
                        f"transaction {name!r} is {word}: begin another transaction"
                    )
                    continue
                next_number = expected[name] = 0 if known is None else known.count
            if sequence < next_number:
                continue  # an earlier try of the request stored it
            if sequence > next_number:
                refused[number] = _missing(name, sequence, next_number)
            elif sequence >= limit:
                refused[number] = InvalidArgumentError(
                    f"transaction {name!r} has {limit} messages, the maximum: begin another transaction"
                )
            else:
                chosen.append(number)
                expected[name] = sequence + 1
                if not sequence:
                    new.append(name)
        return chosen, refused, new

    def _check_capacity(
        self, topic: Topic, parsed: _ParsedHalves, numbers: list[int], size: int, new: int, requests: list[_Request]
    ) -> None:
        due = int(parsed.columns.header["delay_time"].max())
        for queue_id in set(parsed.queue_ids[numbers].tolist()):
            self._capacity.check(topic, queue_id, size, due, new)
        if self._quotas.is_on:
            for request, first, end in zip(requests, parsed.bounds, parsed.bounds[1:], strict=False):
                self._quotas.take(request.caller.client_id, end - first, len(request.frame[4]))

    def _answer(
        self,
        topic_id: int,
        requests: list[_Request],
        parsed: _ParsedHalves,
        refused: dict[int, LiteMQError],
        store_timestamp: int,
    ) -> None:
        """Answer each request once its highest level holds; known halves are in the log, too."""
        levels = parsed.columns.header["reliability"]
        plain = SendHalfAnswer(store_timestamp=store_timestamp).SerializeToString()
        answers: dict[int, list[tuple[_Request, bytes]]] = {}  # by level
        for request, first, end in zip(requests, parsed.bounds, parsed.bounds[1:], strict=False):
            answer = plain
            if refused:
                refusals = [
                    _refusal(number - first, refused[number]) for number in range(first, end) if number in refused
                ]
                answer = SendHalfAnswer(store_timestamp=store_timestamp, refused=refusals).SerializeToString()
            answers.setdefault(int(levels[first:end].max()), []).append((request, answer))
        for level, some in answers.items():
            answer_all = partial(_answer_all, some)
            when_held(self._store, topic_id, level, self._store.log_end, answer_all, uses_replica_ack=False)


def _answer_all(answers: list[tuple[_Request, bytes]], failure: LiteMQError | None) -> None:
    for request, answer in answers:
        if failure is None:
            request.caller.answer(request.frame, answer)
        else:
            request.caller.refuse(request.frame, failure)


def _missing(name: str, sequence: int, next_number: int) -> LiteMQError:
    if next_number:
        return SequenceGapError(
            f"message {sequence} of transaction {name!r} leaves a gap: send message {next_number} first", next_number
        )
    return TransactionRefusedError(
        f"transaction {name!r} has no messages, but message {sequence} was sent: the transaction has ended, or the "
        "broker lost unconfirmed messages in a crash. Begin another transaction"
    )


def _refusal(number: int, error: LiteMQError) -> HalfRefused:
    return HalfRefused(number=number, failure=Failure.FromString(encode_failure(error)))
