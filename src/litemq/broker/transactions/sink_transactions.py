"""Sink transactions: how Spark jobs write exactly once.

Each attempt of a task is a transaction of its own. The job's driver names the attempts that count,
and the decision is one record. The broker then publishes the halves, a MiB at a time. After a
restart it continues where it stopped, because the message of each half names the half.
"""

from __future__ import annotations

import logging
from typing import Final

from google.protobuf.message import Message

from litemq.broker.admission.quotas import Quotas
from litemq.broker.admission.record_claims import queue_priorities, read_half_claims
from litemq.broker.admission.replicas import check_enough_replicas, check_replicated
from litemq.broker.runtime.caller import Caller
from litemq.broker.runtime.context import BrokerContext
from litemq.broker.runtime.deferred_answers import answer_when_safe
from litemq.broker.runtime.handlers import Handler, Permission
from litemq.broker.runtime.request_header import parse
from litemq.broker.runtime.topic_directory import check_queue
from litemq.broker.transactions.capacity import HalfCapacity
from litemq.broker.transactions.publishing import HalfPublisher
from litemq.errors import InvalidArgumentError, TransactionRefusedError
from litemq.net.frame import Frame
from litemq.proto.wire_pb2 import (
    AbortSinkRequest,
    Attempt,
    CommitSinkRequest,
    DescribeSinkRequest,
    Empty,
    Opcode,
    SendHalvesAnswer,
    SendHalvesRequest,
    SinkAnswer,
)
from litemq.storage.batches.half_batches import check_half_sequence, rollback_controls
from litemq.storage.state import QueueKey, State
from litemq.storage.state.transactions.halves import Halves, sink_transaction
from litemq.types import is_system_name

__all__ = ["SinkTransactions"]

_MAX_BATCH: Final = (1 << 63) - 1
_LOG = logging.getLogger(__name__)


class SinkTransactions:
    """The sinks of all jobs, on the event loop that is running when it is created."""

    def __init__(
        self, context: BrokerContext, quotas: Quotas, capacity: HalfCapacity, publisher: HalfPublisher
    ) -> None:
        self._store = context.store
        self._clock = context.store.log_clock
        self._limits = context.limits
        self._alarms = context.log_alarms
        self._topics = context.topics
        self._quotas = quotas
        self._capacity = capacity
        self._publisher = publisher
        self._watched: set[tuple[str, int]] = set()  # batches for which an alarm is set
        for query, batch in self._halves.batches():
            self._watch(query, batch)
        self.handlers = (
            Handler(Opcode.SEND_HALVES, Permission.TOPIC_PUB, self._send),
            Handler(Opcode.COMMIT_SINK, Permission.QUERY_OWNER, self._commit),
            Handler(Opcode.ABORT_SINK, Permission.QUERY_OWNER, self._abort),
            Handler(Opcode.DESCRIBE_SINK, Permission.QUERY_OWNER, self._describe),
        )

    @property
    def _halves(self) -> Halves:
        return self._store.state.parts.halves

    # Halves ---------------------------------------------------------------------------------------

    def _send(self, caller: Caller, frame: Frame) -> None:
        request = parse(SendHalvesRequest, frame[3])
        attempt, first = request.attempt, request.first
        self._check_batch(attempt.query, attempt.batch)
        topic = self._topics.find(request.topic)
        if is_system_name(topic.name):
            raise InvalidArgumentError(f"topic {topic.name!r} is reserved for the broker: write to another topic")
        check_queue(topic, request.queue_id)
        self._check_open(attempt)
        records = memoryview(frame[4])
        claims = read_half_claims(records, queue_priorities(request.queue_id, has_priorities=topic.has_priorities))
        check_replicated(self._store, claims.level)
        key = QueueKey(topic.topic_id, request.queue_id)
        transaction = sink_transaction(attempt.query, attempt.batch, attempt.partition, attempt.attempt)
        sent = self._halves.sent(transaction, key)
        if first > sent:
            check_half_sequence(self._store.state, transaction, key, first)
        count = int(claims.starts.size)
        if first + count > sent:
            check_enough_replicas(self._store, topic, claims.level)
            records = records[int(claims.starts[sent - first]) :]  # an earlier try of the request stored the first ones
            self._capacity.check(
                topic, key.queue_id, len(records), claims.due, 1 if self._halves.get(transaction) is None else 0
            )
            if self._quotas.is_on:
                self._quotas.take(caller.client_id, first + count - sent, len(records))
            self._store.append_halves(bytearray(records), topic.topic_id, request.queue_id, transaction, sent)
            self._watch(attempt.query, attempt.batch)
        self._answer(caller, frame, SendHalvesAnswer(next=self._halves.sent(transaction, key)))

    def _check_open(self, attempt: Attempt) -> None:
        """Raise if the batch, or a later one, is decided."""
        committed = self._store.state.parts.sinks.committed(attempt.query)
        if attempt.batch <= committed:
            raise TransactionRefusedError(
                f"batch {attempt.batch} of query {attempt.query!r} is closed, because batch {committed} is decided: "
                "drop this task attempt"
            )

    # Decisions ------------------------------------------------------------------------------------

    def _commit(self, caller: Caller, frame: Frame) -> None:
        request = parse(CommitSinkRequest, frame[3])
        query, batch, winners = request.query, request.batch, request.winners
        self._check_batch(query, batch)
        if len(winners) > self._limits.max_winners:
            raise InvalidArgumentError(
                f"{len(winners)} tasks in one batch: write with at most {self._limits.max_winners}"
            )
        if len(request.plan) > self._limits.max_plan_bytes:
            raise InvalidArgumentError(
                f"the plan has {len(request.plan)} bytes, more than {self._limits.max_plan_bytes}: "
                "write with fewer tasks"
            )
        if len({winner.partition for winner in winners}) != len(winners):
            raise InvalidArgumentError("a partition is named twice: name one attempt of each")

        def decide(state: State) -> dict[tuple[int, int], str]:
            names: dict[tuple[int, int], str] = {}
            for winner in winners:
                name = sink_transaction(query, batch, winner.partition, winner.attempt)
                known = state.parts.halves.get(name)
                count = 0 if known is None else known.count
                if count != winner.count:
                    raise TransactionRefusedError(
                        f"transaction {name!r} has {count} records instead of {winner.count}: nothing is committed. If "
                        "records are missing, they were rolled back, because the batch was aborted, was "
                        "undecided for too long, or retention deleted them. Write the batch again"
                    )
                names[winner.partition, winner.attempt] = name
            return names

        if batch > self._store.state.parts.sinks.committed(query):
            self._store.commit_sink(query, batch, decide, request.plan)
            self._publisher.begin()
        self._answer(caller, frame, self._describe_query(query))

    def _abort(self, caller: Caller, frame: Frame) -> None:
        request = parse(AbortSinkRequest, frame[3])
        self._check_batch(request.query, request.batch)
        self._roll_back(request.query, request.batch, f"batch {request.batch} of query {request.query!r} was aborted")
        self._answer(caller, frame, Empty())

    def _roll_back(self, query: str, batch: int, reason: str) -> None:
        for control in rollback_controls(self._halves.undecided(query, batch, first=batch), reason):
            self._store.append_control(control)

    def _describe(self, caller: Caller, frame: Frame) -> None:
        self._answer(caller, frame, self._describe_query(parse(DescribeSinkRequest, frame[3]).query))

    def _describe_query(self, query: str) -> SinkAnswer:
        sinks = self._store.state.parts.sinks
        answer = SinkAnswer(committed_batch=sinks.committed(query), plan=sinks.plan(query))
        for _, _, known in self._halves.query_transactions(query):
            if known.decision_number:
                answer.waiting += known.count - known.copied
            else:
                answer.undecided += known.count
        return answer

    def _check_batch(self, query: str, batch: int) -> None:
        size = len(query.encode())
        if not 1 <= size <= self._limits.max_query_bytes or not query.isprintable():
            raise InvalidArgumentError(
                f"the query name has {size} bytes: use 1 … {self._limits.max_query_bytes}, all printable"
            )
        if not 0 <= batch < _MAX_BATCH:
            raise InvalidArgumentError(f"batch {batch}: choose 0 or more")

    # Undecided batches ----------------------------------------------------------------------------

    def _watch(self, query: str, batch: int) -> None:
        if (query, batch) in self._watched:
            return
        latest = self._latest(query, batch)
        if latest is not None:
            self._watched.add((query, batch))
            self._alarms.at(latest + self._limits.half_lifetime_ms, self._ring, (query, batch))

    def _latest(self, query: str, batch: int) -> int | None:
        """Return when the latest undecided half of a batch was stored."""
        return max(
            (
                known.latest_at
                for number, _, known in self._halves.query_transactions(query)
                if number == batch and not known.decision_number
            ),
            default=None,
        )

    def _ring(self, batches: list[tuple[str, int]]) -> None:
        self._watched.difference_update(batches)
        for query, batch in batches:
            latest = self._latest(query, batch)
            if latest is None:
                continue
            if latest + self._limits.half_lifetime_ms <= self._clock.wall_ms():
                hours = self._limits.half_lifetime_ms / 3_600_000
                _LOG.warning("batch %d of query %r was undecided for %g hours: rolled back", batch, query, hours)
                self._roll_back(query, batch, f"batch {batch} of query {query!r} was undecided for {hours:g} hours")
            else:
                self._watch(query, batch)

    def _answer(self, caller: Caller, frame: Frame, answer: Message) -> None:
        """Answer when the log is confirmed up to its present end."""
        answer_when_safe(self._store, caller, frame, self._store.log_end, answer.SerializeToString())
