"""Producers' transactions under any order of requests, repeats, silence, stops and retention: each ends once, and is invisible before (I7)."""

import asyncio
import shutil
import tempfile
from collections import Counter
from collections.abc import Coroutine
from pathlib import Path
from typing import TypeVar

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from litemq.broker import copying, endings
from litemq.broker.config import BrokerLimits
from litemq.broker.core import Broker
from litemq.clock import FakeClock
from litemq.errors import TransactionEndedError
from litemq.format.limits import STORED_LIMITS
from litemq.format.record import decode_record, encode_record
from litemq.proto.wire_pb2 import TX_COMMITTED, TX_DEAD, TX_INCOMPLETE, TX_NOT_KNOWN, TX_ROLLED_BACK, TX_UNDECIDED
from litemq.storage.config import StoreConfig
from litemq.storage.disk_store import DiskStore
from litemq.storage.memory_store import MemoryStore
from litemq.storage.state import QueueKey
from litemq.types import Record
from support.quick_disk import QuickDisk
from support.transactions import Producer, half, name_of

T = TypeVar("T")
SMALL = StoreConfig(segment_bytes=69_632, max_record_bytes=4096, index_slots=9, index_entries=99, checkpoint_interval_ms=0)
LIMITS = BrokerLimits(check_after_ms=60_000, check_every_ms=60_000, max_checks=2)
QUEUES = 2
MOST = 8  # transactions of one history


class Transactions(RuleBasedStateMachine):
    """A broker, beside what each transaction has sent and how it ended."""

    is_on_disk = False

    @initialize()
    def begin(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="litemq-producers-"))
        self.runner = asyncio.Runner()
        self.clock = FakeClock()
        self.sent: dict[str, list[tuple[str, int]]] = {}  # message ids and queues
        self.states: dict[str, int] = {}
        self.checks: dict[str, int] = {}
        self.read: Counter[str] = Counter()
        self.offsets = [0] * QUEUES
        self._open()
        self._ask(self.producer.create(queues=QUEUES))

    def _open(self) -> None:
        store = DiskStore(self.folder, SMALL, self.clock, disk=QuickDisk(), host="here") if self.is_on_disk else MemoryStore(self.clock)
        self.store: DiskStore | MemoryStore = store
        self.runner.run(self._start())

    async def _start(self) -> None:
        self.broker = Broker(self.store, self.clock, LIMITS)
        self.producer = Producer(self.broker)

    def _ask(self, request: Coroutine[None, None, T]) -> T:
        return self.runner.run(request)

    def teardown(self) -> None:
        if hasattr(self, "store"):
            self.copy_the_rest()
            self._stop()
            if isinstance(self.store, DiskStore):
                self.store.abandon()
            self.runner.close()
            shutil.rmtree(self.folder)

    def _stop(self) -> None:
        self.runner.run(self._close())

    async def _close(self) -> None:
        self.broker.close()
        await asyncio.gather(*self.broker._answering._tasks, return_exceptions=True)

    def _undecided(self) -> list[str]:
        return [name for name, state in self.states.items() if state == TX_UNDECIDED]

    # What producers do ----------------------------------------------------------------------------------------------------------

    @rule(number=st.integers(0, MOST - 1), queues=st.lists(st.integers(0, QUEUES - 1), min_size=1, max_size=3), again=st.booleans())
    def send(self, number: int, queues: list[int], again: bool) -> None:
        name = name_of(number)
        first = len(self.sent.get(name, []))
        records = b"".join(half(name, first + each, body=bytes(300)) for each in range(len(queues)))
        if self.states.get(name, TX_UNDECIDED) != TX_UNDECIDED:
            with pytest.raises(TransactionEndedError):
                self._ask(self.producer.send_halves(records, *queues))
            return
        for _ in range(1 + again):
            self._ask(self.producer.send_halves(records, *queues))
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
        told = self._ask(self.producer.end(outcome, *names, count=count))
        for name, state in zip(names, told, strict=True):
            before = self.states.get(name, TX_NOT_KNOWN)
            if before != TX_UNDECIDED:
                assert state == before
            elif outcome == TX_COMMITTED and count not in (0, len(self.sent[name])):
                assert state == TX_INCOMPLETE
            else:
                assert state == outcome
                self.states[name] = outcome

    @rule(outcome=st.sampled_from([TX_COMMITTED, TX_ROLLED_BACK, TX_UNDECIDED]), most=st.integers(1, 4))
    def somebody_answers(self, outcome: int, most: int) -> None:
        asked, records = self._ask(self.producer.poll(most=most))
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
            assert self._ask(self.producer.end(outcome, *(facts.transaction for facts in asked))) == [outcome] * len(asked)
            self.states.update(dict.fromkeys((facts.transaction for facts in asked), outcome))

    @rule()
    def a_minute_passes(self) -> None:
        self.clock.advance(61)
        self._ask(self._ring())
        for name in self._undecided():
            if self.checks[name] == LIMITS.max_checks:
                self.states[name] = TX_DEAD
            else:
                self.checks[name] += 1

    async def _ring(self) -> None:
        self.broker.alarms.ring_due()
        await asyncio.gather(*self.broker._answering._tasks)

    # What brokers do ------------------------------------------------------------------------------------------------------------

    @rule()
    def copy_the_rest(self) -> None:
        self._ask(self.broker._transactions.copy_decided())
        self.look()
        committed = [name for name, state in self.states.items() if state == TX_COMMITTED]
        assert self.read == Counter(message_id for name in committed for message_id, _ in self.sent[name])

    @precondition(lambda self: self.is_on_disk)
    @rule(lost=st.sampled_from(["nothing", "state.db", "consumequeue"]))
    def crash(self, lost: str) -> None:
        assert isinstance(self.store, DiskStore)
        self.store.wait_confirmed(self.store.log_end)
        self._stop()
        before = self._rows()
        self.store.abandon()
        if lost == "state.db":
            for path in self.folder.glob("state.db*"):
                path.unlink()
        elif lost == "consumequeue":
            shutil.rmtree(self.folder / "consumequeue")
            (self.folder / "checkpoint").unlink()
        self.store = DiskStore(self.folder, SMALL, self.clock, disk=QuickDisk(), host="here")
        assert self._rows() == before
        self.runner.run(self._start())

    @precondition(lambda self: self.is_on_disk)
    @rule()
    def restart(self) -> None:
        self._stop()
        self.store.close()
        self._open()

    @precondition(lambda self: self.is_on_disk)
    @rule()
    def checkpoint(self) -> None:
        assert isinstance(self.store, DiskStore)
        self.store.checkpoint()

    @precondition(lambda self: self.is_on_disk)
    @rule()
    def retain(self) -> None:
        """What was there goes, but for what is not decided: that is carried forward."""
        assert isinstance(self.store, DiskStore)
        filler = encode_record(Record("filler", bytes(3500)))
        topic = self.store.create_topic("filler", 1)
        self.copy_the_rest()
        for _ in range(5):
            self.store.wait_confirmed(self.store.append(bytearray(filler * 8), topic.topic_id, 0).end)
        self.store.retain(max_bytes=70_000)

    def _rows(self) -> list[bytes]:
        return [row.SerializeToString(deterministic=True) for row in self.store.state.rows()]

    # What must be so ------------------------------------------------------------------------------------------------------------

    @invariant()
    def look(self) -> None:
        """Whoever reads sees messages of committed transactions, in their order, each once; perhaps not all of them yet."""
        topic = self.store.state.topic("orders") if hasattr(self, "store") else None
        if topic is None:
            return
        self.store.wait_confirmed(self.store.log_end)
        for queue_id in range(QUEUES):
            key = QueueKey(topic.topic_id, queue_id)
            assert self.offsets[queue_id] >= self.store.state.least.get(key, 0)
            data = self.store.read_queue(key, self.offsets[queue_id], 10_000, 1 << 30)
            at = 0
            while at < len(data):
                stored = decode_record(data, at, limits=STORED_LIMITS)
                at += stored.size
                self.offsets[queue_id] += 1
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
        halves = self.store.state.delivery.halves
        for name, state in self.states.items():
            known = halves.get(name)
            if state == TX_UNDECIDED:
                assert known is not None
                assert (known.count, known.checks) == (len(self.sent[name]), self.checks[name])
            assert endings.state_of(halves, name) == state
        dead = [name for name, state in self.states.items() if state == TX_DEAD]
        assert len(self.store.state.delivery.dead_letters) == sum(len(self.sent[name]) for name in dead)


class TransactionsOnDisk(Transactions):
    is_on_disk = True


@pytest.fixture(autouse=True)
def _small_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that some transactions are too large to be committed in one step."""
    monkeypatch.setattr(copying, "_BYTES_AT_ONCE", 1200)
    monkeypatch.setattr(endings, "_BYTES_AT_ONCE", 1600)


TestProducersInMemory = Transactions.TestCase
TestProducersInMemory.settings = settings(max_examples=40, stateful_step_count=25, deadline=None)
TestProducersOnDisk = TransactionsOnDisk.TestCase
TestProducersOnDisk.settings = settings(max_examples=50, stateful_step_count=25, deadline=None)
