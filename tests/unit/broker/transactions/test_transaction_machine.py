"""Sink transactions under any order of requests, repeats, stops and retention.

Each committed record is published once, and no other (I7).
"""

import asyncio

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, precondition, rule

from litemq.broker.transactions import publishing as copying
from litemq.errors import TransactionRefusedError
from litemq.format.record_encode import encode_record
from litemq.proto.wire_pb2 import Attempt
from litemq.storage.state.transactions.halves import sink_transaction
from litemq.types import Record
from support.broker_machine import BrokerMachine
from support.halves import Job

QUEUES = BrokerMachine.queues
Sent = tuple[str, int]  # an id, and the queue


class Transactions(BrokerMachine):
    """A broker, and a model of the records of each attempt and of the published ones."""

    @initialize()
    def begin(self) -> None:
        self.sent: dict[str, list[Sent]] = {}  # by try, in the order of the log; undecided
        self.requests: list[tuple[Attempt, int, int, int]] = []  # that may be repeated: try, first, count, queue
        self.committed = -1
        self.commits: list[tuple[int, list[tuple[int, int, int]]]] = []
        self.expected: list[list[str]] = [[] for _ in range(QUEUES)]
        self.read: list[list[str]] = [[] for _ in range(QUEUES)]
        self.open_first()
        self.ask(self.job.create(queues=QUEUES))

    def meet(self) -> None:
        self.job = Job(self.broker)

    # What tasks do --------------------------------------------------------------------------------

    @rule(
        ahead=st.integers(-1, 2),
        partition=st.integers(0, 1),
        number=st.integers(0, 1),
        queue_id=st.integers(0, QUEUES - 1),
        count=st.integers(1, 4),
    )
    def send(self, ahead: int, partition: int, number: int, queue_id: int, count: int) -> None:
        batch = max(0, self.committed + ahead)
        one = Attempt(query="q", batch=batch, partition=partition, attempt=number)
        name = _name(one)
        first = sum(queue == queue_id for _, queue in self.sent.get(name, []))
        if batch <= self.committed:
            with pytest.raises(TransactionRefusedError):
                self.ask(self._send(one, first, count, queue_id))
            return
        assert self.ask(self._send(one, first, count, queue_id)) == first + count
        self.sent.setdefault(name, []).extend((f"{name}:{queue_id}:{first + each}", queue_id) for each in range(count))
        self.requests.append((one, first, count, queue_id))

    async def _send(self, one: Attempt, first: int, count: int, queue_id: int) -> int:
        name = _name(one)
        ids = [f"{name}:{queue_id}:{number}" for number in range(first, first + count)]
        records = [encode_record(Record("orders", bytes(300), each, transaction_id=name)) for each in ids]
        return await self.job.send_halves(b"".join(records), one, first, queue_id)

    @precondition(lambda self: self.requests)
    @rule(data=st.data())
    def send_again(self, data: st.DataObject) -> None:
        one, first, count, queue_id = data.draw(st.sampled_from(self.requests))
        name = _name(one)
        if one.batch <= self.committed or (first and name not in self.sent):
            with pytest.raises(TransactionRefusedError):
                self.ask(self._send(one, first, count, queue_id))
            return
        there = sum(queue == queue_id for _, queue in self.sent.get(name, []))
        if first > there:
            return  # it was rolled back and begun again: a gap
        assert self.ask(self._send(one, first, count, queue_id)) == max(there, first + count)
        self.sent.setdefault(name, []).extend(
            (f"{name}:{queue_id}:{each}", queue_id) for each in range(there, first + count)
        )

    # What drivers do ------------------------------------------------------------------------------

    @rule(
        ahead=st.integers(1, 2),
        choice=st.tuples(st.integers(0, 2), st.integers(0, 2)),
        wrong=st.sampled_from([0, 0, 0, 1, -1]),
    )
    def commit(self, ahead: int, choice: tuple[int, int], wrong: int) -> None:
        batch = self.committed + ahead
        winners = []
        for partition, number in enumerate(choice):
            name = f"q/{batch}/{partition}/{number}"
            if number < 2 and name in self.sent:
                winners.append((partition, number, len(self.sent[name])))
        if wrong and winners:
            partition, number, count = winners[-1]
            with pytest.raises(TransactionRefusedError):
                self.ask(self.job.commit(batch, *winners[:-1], (partition, number, count + wrong)))
            return
        assert self.ask(self.job.commit(batch, *winners)).committed_batch == batch
        # In the order in which the tries were begun, since a dictionary keeps it.
        chosen = [f"q/{batch}/{partition}/{number}" for partition, number, _ in winners]
        for name, records in self.sent.items():
            if name in chosen:
                for message_id, queue_id in records:
                    self.expected[queue_id].append(message_id)
        self.committed = batch
        self.commits.append((batch, winners))
        self.sent = {name: records for name, records in self.sent.items() if int(name.split("/")[1]) > batch}

    @precondition(lambda self: self.commits)
    @rule(data=st.data())
    def commit_again(self, data: st.DataObject) -> None:
        batch, winners = data.draw(st.sampled_from(self.commits))
        assert self.ask(self.job.commit(batch, *winners)).committed_batch == self.committed

    @rule(ahead=st.integers(0, 2))
    def abort(self, ahead: int) -> None:
        batch = max(0, self.committed + ahead)
        self.ask(self.job.abort(batch))
        self.sent = {name: records for name, records in self.sent.items() if int(name.split("/")[1]) != batch}

    @rule()
    def a_day_passes(self) -> None:
        self.clock.advance(24 * 3600 + 1)
        self.ask(self._ring())
        self.sent.clear()

    async def _ring(self) -> None:
        self.broker.context.ring_due()

    # What brokers do ------------------------------------------------------------------------------

    @rule()
    def copy_some(self) -> None:
        self.ask(asyncio.sleep(0.001))

    @rule()
    def copy_the_rest(self) -> None:
        self.ask(self.broker._transactions.publish_decided())
        self.look()
        assert self.read == self.expected

    @precondition(lambda self: self.is_on_disk)
    @rule()
    def retain(self) -> None:
        """Run retention: it publishes decided halves, and rolls back undecided ones."""
        self.look()
        self.drop_all_but_the_end()
        self.sent.clear()

    # What must be so ------------------------------------------------------------------------------

    @invariant()
    def look(self) -> None:
        """Check that readers see a prefix of the committed records, in order, each once."""
        if not hasattr(self, "store"):
            return
        for queue_id in range(QUEUES):
            self.read[queue_id] += [stored.record.message_id for stored in self.read_on(queue_id)]
            assert self.read[queue_id] == self.expected[queue_id][: len(self.read[queue_id])]

    @invariant()
    def totals_are_right(self) -> None:
        if hasattr(self, "store"):
            halves = self.store.state.parts.halves
            undecided = {
                name: known.count for _, name, known in halves.query_transactions("q") if not known.decision_number
            }
            assert undecided == {name: len(records) for name, records in self.sent.items()}


def _name(one: Attempt) -> str:
    return sink_transaction(one.query, one.batch, one.partition, one.attempt)


class TransactionsOnDisk(Transactions):
    is_on_disk = True


@pytest.fixture(autouse=True)
def _small_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Publish in small steps, so that a stop comes in between."""
    monkeypatch.setattr(copying, "_BYTES_AT_ONCE", 1200)


TestTransactionsInMemory = Transactions.TestCase
TestTransactionsInMemory.settings = settings(max_examples=40, stateful_step_count=25, deadline=None)
TestTransactionsOnDisk = TransactionsOnDisk.TestCase
TestTransactionsOnDisk.settings = settings(max_examples=50, stateful_step_count=25, deadline=None)
