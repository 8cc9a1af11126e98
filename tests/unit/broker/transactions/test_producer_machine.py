"""Transactions of producers under any order of requests, repeats, silence, stops and retention.

Each transaction ends once, and is invisible before (I7).
"""

import asyncio
from collections import Counter

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, precondition, rule

from litemq.broker.limits import BrokerLimits
from litemq.broker.transactions import decisions as endings
from litemq.broker.transactions import publishing as copying
from litemq.broker.transactions.describe import transaction_state
from litemq.errors import TransactionEndedError
from litemq.format.limits import STORED_LIMITS
from litemq.format.record_decode import decode_record
from litemq.proto.wire_pb2 import TX_COMMITTED, TX_DEAD, TX_INCOMPLETE, TX_NOT_KNOWN, TX_ROLLED_BACK, TX_UNDECIDED
from support.broker_machine import BrokerMachine
from support.transactions import Producer, half, name_of

LIMITS = BrokerLimits(check_after_ms=60_000, check_every_ms=60_000, max_checks=2)
QUEUES = BrokerMachine.queues
MOST = 8  # transactions of one history


class Transactions(BrokerMachine):
    """A broker, and a model of the halves and the outcome of each transaction."""

    limits = LIMITS

    @initialize()
    def begin(self) -> None:
        self.sent: dict[str, list[tuple[str, int]]] = {}  # message ids and queues
        self.states: dict[str, int] = {}
        self.checks: dict[str, int] = {}
        self.read: Counter[str] = Counter()
        self.open_first()
        self.ask(self.producer.create(queues=QUEUES))

    def meet(self) -> None:
        self.producer = Producer(self.broker)

    def _undecided(self) -> list[str]:
        return [name for name, state in self.states.items() if state == TX_UNDECIDED]

    # What producers do ----------------------------------------------------------------------------

    @rule(
        number=st.integers(0, MOST - 1),
        queues=st.lists(st.integers(0, QUEUES - 1), min_size=1, max_size=3),
        again=st.booleans(),
    )
    def send(self, number: int, queues: list[int], again: bool) -> None:
        name = name_of(number)
        first = len(self.sent.get(name, []))
        records = b"".join(half(name, first + each, body=bytes(300)) for each in range(len(queues)))
        if self.states.get(name, TX_UNDECIDED) != TX_UNDECIDED:
            with pytest.raises(TransactionEndedError):
                self.ask(self.producer.send_halves(records, *queues))
            return
        for _ in range(1 + again):
            self.ask(self.producer.send_halves(records, *queues))
        self.states.setdefault(name, TX_UNDECIDED)
        self.checks.setdefault(name, 0)
        self.sent.setdefault(name, []).extend((f"{name}#{first + each}", queue) for each, queue in enumerate(queues))

    @rule(
        numbers=st.lists(st.integers(0, MOST - 1), min_size=1, max_size=4),
        outcome=st.sampled_from([TX_COMMITTED, TX_COMMITTED, TX_ROLLED_BACK, TX_UNDECIDED]),
        wrong=st.sampled_from([0, 0, 0, 1]),
    )
    def end(self, numbers: list[int], outcome: int, wrong: int) -> None:
        names = [name_of(number) for number in numbers]
        count = len(self.sent.get(names[0], [])) + 1 if wrong else 0
        states = self.ask(self.producer.end(outcome, *names, count=count))
        for name, state in zip(names, states, strict=True):
            before = self.states.get(name, TX_NOT_KNOWN)
            if before != TX_UNDECIDED:
                assert state == before
            elif outcome == TX_COMMITTED and count not in (0, len(self.sent[name])):
                assert state == TX_INCOMPLETE
            else:
                assert state == outcome
                self.states[name] = outcome

    @rule(outcome=st.sampled_from([TX_COMMITTED, TX_ROLLED_BACK, TX_UNDECIDED]), most=st.integers(1, 4))
    def a_producer_answers(self, outcome: int, most: int) -> None:
        asked, records = self.ask(self.producer.poll(most=most))
        assert len(asked) <= most
        at = 0
        for facts in asked:
            assert self.states[facts.transaction] == TX_UNDECIDED
            assert (facts.group, facts.checks) == ("shop", self.checks[facts.transaction])
            for message_id, _ in self.sent[facts.transaction]:
                stored = decode_record(records, at, limits=STORED_LIMITS)
                at += stored.size
                assert stored.record.message_id == message_id
        if asked:
            assert self.ask(self.producer.end(outcome, *(facts.transaction for facts in asked))) == [outcome] * len(
                asked
            )
            self.states.update(dict.fromkeys((facts.transaction for facts in asked), outcome))

    @rule()
    def a_minute_passes(self) -> None:
        self.clock.advance(61)
        self.ask(self._ring())
        for name in self._undecided():
            if self.checks[name] == LIMITS.max_checks:
                self.states[name] = TX_DEAD
            else:
                self.checks[name] += 1

    async def _ring(self) -> None:
        self.broker.context.ring_due()
        await asyncio.gather(*self.broker.context.answers._tasks)

    # What brokers do ------------------------------------------------------------------------------

    @rule()
    def copy_the_rest(self) -> None:
        self.ask(self.broker._transactions.publish_decided())
        self.look()
        committed = [name for name, state in self.states.items() if state == TX_COMMITTED]
        assert self.read == Counter(message_id for name in committed for message_id, _ in self.sent[name])

    @precondition(lambda self: self.is_on_disk)
    @rule()
    def retain(self) -> None:
        """Run retention: it deletes everything but undecided halves, which it carries forward."""
        self.copy_the_rest()
        self.drop_all_but_the_end()

    # What must be so ------------------------------------------------------------------------------

    @invariant()
    def look(self) -> None:
        """Check that readers see a prefix of the committed messages, in order, each once."""
        if not hasattr(self, "store"):
            return
        for queue_id in range(QUEUES):
            begin, found = self.offsets[queue_id], self.read_on(queue_id)
            assert self.offsets[queue_id] == begin + len(found)  # nothing went before it was read
            for stored in found:
                name, _, number = stored.record.message_id.partition("#")
                assert self.states[name] == TX_COMMITTED
                before = [message_id for message_id, queue in self.sent[name][: int(number)] if queue == queue_id]
                assert all(self.read[message_id] == 1 for message_id in before)
                self.read[stored.record.message_id] += 1
                assert self.read[stored.record.message_id] == 1

    @invariant()
    def states_are_known(self) -> None:
        if not hasattr(self, "store"):
            return
        halves = self.store.state.parts.halves
        for name, state in self.states.items():
            known = halves.get(name)
            if state == TX_UNDECIDED:
                assert known is not None
                assert (known.count, known.checks) == (len(self.sent[name]), self.checks[name])
            assert transaction_state(halves, name) == state
        dead = [name for name, state in self.states.items() if state == TX_DEAD]
        assert len(self.store.state.parts.dead_letters) == sum(len(self.sent[name]) for name in dead)


class TransactionsOnDisk(Transactions):
    is_on_disk = True


@pytest.fixture(autouse=True)
def _small_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make some transactions too large to be committed in one append."""
    monkeypatch.setattr(copying, "_BYTES_AT_ONCE", 1200)
    monkeypatch.setattr(endings, "_BYTES_AT_ONCE", 1600)


TestProducersInMemory = Transactions.TestCase
TestProducersInMemory.settings = settings(max_examples=40, stateful_step_count=25, deadline=None)
TestProducersOnDisk = TransactionsOnDisk.TestCase
TestProducersOnDisk.settings = settings(max_examples=50, stateful_step_count=25, deadline=None)
