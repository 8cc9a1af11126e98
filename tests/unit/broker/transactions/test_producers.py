"""Transactions of producers: halves, decisions, check-back, dead dead_letters, lists."""

import asyncio
import random
from collections import Counter
from collections.abc import AsyncIterator, Coroutine
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from litemq.broker.broker import Broker
from litemq.broker.limits import BrokerLimits
from litemq.broker.transactions import decisions as endings
from litemq.broker.transactions.undecided import UndecidedHalves
from litemq.clock import Clock, FakeClock
from litemq.errors import (
    ConnectionLostError,
    CorruptStoreError,
    InvalidArgumentError,
    LiteMQError,
    OverloadedError,
    RemoteError,
    SequenceGapError,
    TransactionEndedError,
    TransactionRefusedError,
    UnsupportedFeatureError,
)
from litemq.format.dead_letters import history_from_properties, original_record
from litemq.format.limits import STORED_LIMITS
from litemq.format.record_decode import decode_record
from litemq.format.record_encode import encode_record
from litemq.format.transactions import CHECK_AFTER, MAX_CHECKS
from litemq.proto.wire_pb2 import (
    TX_COMMITTED,
    TX_DEAD,
    TX_INCOMPLETE,
    TX_NOT_KNOWN,
    TX_ROLLED_BACK,
    TX_UNDECIDED,
    AlterTopicRequest,
    CreateTopicRequest,
    FindRequest,
    FollowRedriveRequest,
    Opcode,
    RedriveAnswer,
    RedriveRequest,
    TopicSettings,
)
from litemq.storage.config import StoreConfig
from litemq.storage.disk_store import DiskStore
from litemq.storage.state import QueueKey
from litemq.storage.state.topics import HALF_TOPIC_ID, ROLLBACK_TOPIC_ID, TIMER_TOPIC_ID
from litemq.storage.store_parts import StoreParts
from litemq.types import DeadReason, Durability, MessageType, Record, RecordKind, StoredRecord
from support.callers import Kind, running_broker
from support.damaged_record import damaged
from support.halves import Job, attempt
from support.quick_disk import QuickDisk
from support.transactions import Producer, half, name_of
from support.waiting import eventually

KINDS = pytest.mark.parametrize("kind", ["memory", "disk"])
ONE, TWO, THREE = (name_of(number) for number in range(3))
LIMITS = BrokerLimits(max_checks=2)


def _run(test: Coroutine[Any, Any, None]) -> None:
    asyncio.run(test)


@asynccontextmanager
async def _producer(
    kind: Kind, directory: Path, limits: BrokerLimits = LIMITS, clock: Clock | None = None
) -> AsyncIterator[tuple[Producer, Broker]]:
    async with running_broker(kind, directory, limits, clock or FakeClock()) as broker:
        producer = Producer(broker)
        await producer.create()
        yield producer, broker
        await asyncio.gather(*broker.context.answers._tasks)


def _records(data: bytes | memoryview) -> list[StoredRecord]:
    found: list[StoredRecord] = []
    at = 0
    while at < len(data):
        found.append(decode_record(data, at, limits=STORED_LIMITS))
        at += found[-1].size
    return found


async def _read(broker: Broker, queue_id: int = 0, topic_id: int = 16) -> list[StoredRecord]:
    store = broker.context.store
    await broker._transactions.publish_decided()
    await store.confirmed(store.log_end)
    return _records(await store.pull(QueueKey(topic_id, queue_id), 0, 20_000, 1 << 30))


async def _ids(broker: Broker, queue_id: int = 0) -> list[str]:
    return [stored.record.message_id for stored in await _read(broker, queue_id)]


async def _pass(broker: Broker, clock: FakeClock, seconds: float) -> None:
    clock.advance(seconds)
    broker.context.ring_due()
    await asyncio.gather(*broker.context.answers._tasks)


@KINDS
def test_a_half_is_invisible_until_it_is_committed(kind: Kind, tmp_path: Path) -> None:
    async def main() -> None:
        async with _producer(kind, tmp_path) as (producer, broker):
            await producer.send_halves(half(ONE, keys=("k",)), 2)  # type: ignore[arg-type]
            await producer.send_halves(half(TWO), 2)
            for key in ("k", f"{ONE}#0"):
                found = await producer.channel.ask(
                    Opcode.FIND, FindRequest(topic="orders", key=key).SerializeToString()
                )
                assert found.attachment == b""
            assert await _read(broker, 2) == []
            assert await producer.commit(ONE) == [TX_COMMITTED]
            assert await producer.roll_back(TWO) == [TX_ROLLED_BACK]
            (message,) = await _read(broker, 2)
            assert message.stamp is not None
            assert (message.record.message_id, message.stamp.kind) == (f"{ONE}#0", RecordKind.COMMITTED)
            before = broker.context.store.read_record(message.stamp.origin)
            assert before.stamp is not None
            assert (before.record, before.stamp.kind, before.stamp.topic_id) == (
                message.record,
                RecordKind.HALF,
                HALF_TOPIC_ID,
            )
            assert len(await _read(broker, topic_id=ROLLBACK_TOPIC_ID)) == 1
            assert len(broker.context.store.state.parts.halves) == broker.context.store.state.parts.halves.bytes == 0

    _run(main())


@KINDS
def test_halves_and_commits_of_a_tick_are_one_append_each(kind: Kind, tmp_path: Path) -> None:
    async def main() -> None:
        async with _producer(kind, tmp_path) as (producer, broker):
            appends: list[int] = []
            store = broker.context.store
            write = store._write  # type: ignore[attr-defined]

            def counted(batch: Any, **more: Any) -> Any:
                appends.append(len(batch.columns))
                return write(batch, **more)

            store._write = counted  # type: ignore[attr-defined]
            names = [name_of(number) for number in range(20)]
            await asyncio.gather(*(producer.send_halves(half(name), number % 4) for number, name in enumerate(names)))
            assert appends == [20]
            assert await asyncio.gather(*(producer.commit(name) for name in names)) == [[TX_COMMITTED]] * 20
            assert appends == [20, 20]
            assert sorted([each for queue_id in range(4) for each in await _ids(broker, queue_id)]) == sorted(
                f"{n}#0" for n in names
            )

    _run(main())


@KINDS
def test_a_repeated_request_is_stored_once(kind: Kind, tmp_path: Path) -> None:
    async def main() -> None:
        async with _producer(kind, tmp_path) as (producer, broker):
            both = half(ONE, 0) + half(ONE, 1)
            await asyncio.gather(producer.send_halves(both), producer.send_halves(both))
            await producer.send_halves(both + half(ONE, 2), 0, 0, 1)
            assert await producer.commit(ONE, count=3) == [TX_COMMITTED]
            assert await producer.commit(ONE, count=3) == [TX_COMMITTED]
            assert [await _ids(broker, queue_id) for queue_id in (0, 1)] == [[f"{ONE}#0", f"{ONE}#1"], [f"{ONE}#2"]]
            with pytest.raises(TransactionEndedError, match="is committed"):
                await producer.send_halves(both)
            assert await _ids(broker, 0) == [f"{ONE}#0", f"{ONE}#1"]

    _run(main())


@KINDS
def test_the_first_decision_counts(kind: Kind, tmp_path: Path) -> None:
    async def main() -> None:
        async with _producer(kind, tmp_path) as (producer, broker):
            await producer.send_halves(half(ONE) + half(TWO) + half(THREE))
            assert await producer.commit(THREE, count=2) == [TX_INCOMPLETE]
            said = list(await asyncio.gather(producer.commit(ONE), producer.roll_back(ONE, TWO), producer.commit(TWO)))
            assert said == [[TX_COMMITTED], [TX_COMMITTED, TX_ROLLED_BACK], [TX_ROLLED_BACK]]
            assert await producer.say_unknown(ONE, TWO, THREE, name_of(9)) == [
                TX_COMMITTED,
                TX_ROLLED_BACK,
                TX_UNDECIDED,
                TX_NOT_KNOWN,
            ]
            assert await _ids(broker) == [f"{ONE}#0"]

    _run(main())


@KINDS
def test_a_refused_half_does_not_affect_the_others_of_its_request(kind: Kind, tmp_path: Path) -> None:
    async def main() -> None:
        async with _producer(kind, tmp_path) as (producer, broker):
            with pytest.raises(SequenceGapError) as gap:
                await producer.send_halves(half(ONE, 0) + half(ONE, 2) + half(TWO, 0))
            assert gap.value.expected == 1
            with pytest.raises(TransactionRefusedError, match="Begin another"):
                await producer.send_halves(half(THREE, 1))
            await producer.commit(ONE, TWO, count=1)
            assert await _ids(broker) == [f"{ONE}#0", f"{TWO}#0"]

    _run(main())


@KINDS
def test_invalid_halves_are_refused(kind: Kind, tmp_path: Path) -> None:
    async def main() -> None:
        limits = BrokerLimits(max_transactions=2, max_transaction_messages=2)
        async with _producer(kind, tmp_path, limits) as (producer, broker):
            wrong: list[tuple[bytes, list[int], type[LiteMQError]]] = [
                (half("q/0/0/0"), [0], InvalidArgumentError),
                (half("tx:shop:1"), [0], InvalidArgumentError),
                (half("tx:%shop:1@here"), [0], InvalidArgumentError),
                (half(ONE, kind=MessageType.NORMAL), [0], InvalidArgumentError),
                (half(ONE, producer_id=7), [0], InvalidArgumentError),
                (half(ONE, level=Durability.NONE), [0], InvalidArgumentError),
                (half(ONE, level=Durability.REPLICAS), [0], UnsupportedFeatureError),
                (half(ONE, priority=7), [0], InvalidArgumentError),
                (half(ONE, topic="others"), [0], InvalidArgumentError),
                (half(ONE, delay_time=1 << 47), [0], InvalidArgumentError),
                (half(ONE), [4], InvalidArgumentError),
                (half(ONE), [0, 1], InvalidArgumentError),
                (half(ONE)[:-8], [0], RemoteError),
                (b"", [0], RemoteError),
                (half(ONE)[:-1] + b"\1", [0], RemoteError),
            ]
            for records, queue_ids, error in wrong:
                with pytest.raises(error):
                    await producer.send_halves(records, *queue_ids)
            good, bad = await asyncio.gather(
                producer.send_halves(half(ONE)), producer.send_halves(half("q/0/0/0")), return_exceptions=True
            )
            assert (good, type(bad)) == (None, InvalidArgumentError), "what others do wrong is not one's own fault"
            await producer.send_halves(half(ONE, 1) + half(TWO))
            with pytest.raises(InvalidArgumentError, match="the maximum: begin another transaction"):
                await producer.send_halves(half(ONE, 2))
            with pytest.raises(OverloadedError, match="transactions are open, the maximum"):
                await producer.send_halves(half(THREE))
            with pytest.raises(InvalidArgumentError, match="job"):
                await producer.commit("q/0/0/0")
            with pytest.raises(InvalidArgumentError):
                await producer.end(TX_DEAD, ONE)
            with pytest.raises(InvalidArgumentError):
                await producer.commit()
            with pytest.raises(InvalidArgumentError):
                await producer.poll("%shop")
            assert len(broker.context.store.state.parts.halves) == 2

    _run(main())


def test_halves_of_level_memory_are_answered_at_once(tmp_path: Path) -> None:
    async def main() -> None:
        async with _producer("disk", tmp_path) as (producer, broker):
            store = broker.context.store
            store.when_flushed = lambda *_: None  # type: ignore[method-assign]
            await producer.send_halves(half(ONE, level=Durability.MEMORY))
            waiting = asyncio.ensure_future(producer.send_halves(half(TWO)))
            await eventually(lambda: store.state.parts.halves.get(TWO) is not None)
            await asyncio.sleep(0.05)
            assert not waiting.done()
            waiting.cancel()

    _run(main())


@KINDS
def test_a_committed_delayed_message_becomes_a_timer(kind: Kind, tmp_path: Path) -> None:
    async def main() -> None:
        clock = FakeClock()
        async with _producer(kind, tmp_path, clock=clock) as (producer, broker):
            due = clock.wall_ms() + 5000
            await producer.send_halves(half(ONE, delay_time=due) + half(ONE, 1) + half(TWO, delay_time=due))
            await producer.commit(ONE, TWO)
            assert await _ids(broker) == [f"{ONE}#1"]
            assert len(await _read(broker, topic_id=TIMER_TOPIC_ID)) == 2
            assert broker.context.store.state.parts.timers.count == 2
            clock.advance(5.1)
            await broker.fire_due()
            assert await _ids(broker) == [f"{ONE}#1", f"{ONE}#0", f"{TWO}#0"]
            assert broker.context.store.state.parts.timers.count == 0

    _run(main())


@KINDS
def test_a_large_transaction_is_committed_by_a_record_and_published_after(
    kind: Kind, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> None:
        async with _producer(kind, tmp_path) as (producer, broker):
            monkeypatch.setattr(endings, "_BYTES_AT_ONCE", 1000)
            broker._transactions._publisher.close()
            await producer.send_halves(half(ONE, body=bytes(900)) + half(ONE, 1) + half(TWO))
            assert await producer.commit(ONE, TWO) == [TX_COMMITTED] * 2
            store = broker.context.store
            await store.confirmed(store.log_end)
            assert [each.record.message_id for each in _records(store.read_queue(QueueKey(16, 0), 0, 9))] == [
                f"{TWO}#0"
            ]
            facts = await producer.describe(ONE)
            assert facts.state == TX_COMMITTED
            assert await producer.roll_back(ONE) == [TX_COMMITTED]
            broker._transactions._publisher._task.is_closed = False
            assert await _ids(broker) == [f"{TWO}#0", f"{ONE}#0", f"{ONE}#1"]

    _run(main())


def test_a_damaged_half_does_not_affect_the_others(tmp_path: Path) -> None:
    async def main() -> None:
        async with _producer("disk", tmp_path) as (producer, broker):
            store = broker.context.store
            assert isinstance(store, DiskStore)
            await producer.send_halves(half(ONE) + half(TWO) + half(TWO, 1))
            known = store.state.parts.halves.get(TWO)
            assert known is not None
            path = store._log.segment_of(0).file.path
            with path.open("r+b") as file:
                file.seek(known.runs[0].first_log_offset + 150)
                file.write(b"\xff\xff")
            assert await producer.commit(ONE, TWO) == [TX_COMMITTED] * 2
            assert await _ids(broker) == [f"{ONE}#0", f"{TWO}#1"]
            assert len(store.state.parts.halves) == 0

    _run(main())


def test_a_damaged_half_of_a_replica_is_copied_once_it_is_repaired(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> None:
        async with _producer("disk", tmp_path) as (producer, broker):
            store = broker.context.store
            await producer.send_halves(half(ONE, body=b"damaged"))
            monkeypatch.setattr(DiskStore, "is_replicated", True)
            monkeypatch.setattr(StoreParts, "is_replica", True)
            with damaged(tmp_path, b"damaged"), ThreadPoolExecutor(1) as executor:
                with pytest.raises(CorruptStoreError):
                    await UndecidedHalves(store, FakeClock(), executor).give_up([ONE])
                assert await producer.commit(ONE) == [TX_COMMITTED]
                await store.confirmed(store.log_end)
                with pytest.raises(CorruptStoreError):
                    store.read_decided(1 << 20)
            await broker._transactions._publisher.work()
            assert await _ids(broker) == [f"{ONE}#0"]

    _run(main())


@KINDS
def test_a_polling_producer_is_asked_and_each_round_is_one_record(kind: Kind, tmp_path: Path) -> None:
    async def main() -> None:
        clock = FakeClock()
        async with _producer(kind, tmp_path, clock=clock) as (producer, broker):
            await producer.send_halves(half(ONE) + half(ONE, 1) + half(TWO), 3)
            await producer.send_halves(half(name_of(5, "other")))
            waiting = asyncio.ensure_future(producer.poll(wait_ms=60_000))
            gone = Producer(broker, "gone")
            lost = asyncio.ensure_future(gone.poll(wait_ms=60_000))
            await asyncio.sleep(0)
            gone.channel.abort(OverloadedError("lost"))
            with pytest.raises(ConnectionLostError):
                await lost
            await _pass(broker, clock, 59)
            assert not waiting.done(), "never before its time"
            controls = broker.context.store.state.end_offsets[QueueKey(1, 0)]
            await _pass(broker, clock, 1.1)
            asked, records = await waiting
            assert broker.context.store.state.end_offsets[QueueKey(1, 0)] == controls + 1
            assert [(facts.transaction, facts.records, facts.checks) for facts in asked] == [(ONE, 2, 1), (TWO, 1, 1)]
            assert [stored.record.message_id for stored in _records(records)] == [f"{ONE}#0", f"{ONE}#1", f"{TWO}#0"]
            assert [each.asked for each in asked[0].story] == ["tester"]
            assert await producer.poll() == ([], b"")
            assert await producer.say_unknown(ONE) == [TX_UNDECIDED]
            await producer.commit(TWO)
            await _pass(broker, clock, 61)
            late = Producer(broker, "late")
            (facts,), _ = await late.poll()
            assert [(each.asked, each.unknown) for each in facts.story] == [("tester", True), ("", False)]
            assert await late.poll() == ([], b"")
            assert facts.next_check_at == facts.story[-1].at + 60_000

    _run(main())


@KINDS
def test_an_undecided_transaction_becomes_dead_letters_that_can_be_redriven(kind: Kind, tmp_path: Path) -> None:
    async def main() -> None:
        clock = FakeClock()
        async with _producer(kind, tmp_path, clock=clock) as (producer, broker):
            await producer.send_halves(half(ONE, properties={MAX_CHECKS: "1"}) + half(ONE, 1), 3)
            await producer.send_halves(half(TWO))
            await _pass(broker, clock, 61)
            await producer.poll(most=1)
            await producer.say_unknown(ONE)
            await _pass(broker, clock, 61)
            assert (await producer.describe(ONE)).state == TX_DEAD
            assert await producer.commit(ONE, TWO) == [TX_DEAD, TX_COMMITTED]
            assert await _ids(broker, 3) == []
            dead = broker.context.store.state.topic("%DLQ%orders")
            assert dead is not None
            dead_letters = await _read(broker, topic_id=dead.topic_id)
            assert [dead_letter.record.message_id for dead_letter in dead_letters] == [f"{ONE}#0", f"{ONE}#1"]
            history = history_from_properties(dead_letters[0].record.properties)
            assert (history.reason, history.group, history.tries, history.transaction) == (
                DeadReason.UNDECIDED,
                "shop",
                1,
                ONE,
            )
            assert "stored " in history.stack
            assert "no producer was connected" in history.stack
            assert original_record(dead_letters[1].record).record.message_id == f"{ONE}#1"
            request = RedriveRequest(topic="orders").SerializeToString()
            started = RedriveAnswer.FromString((await producer.channel.ask(Opcode.REDRIVE, request)).header)
            follow = FollowRedriveRequest(redrive_id=started.redrive_id, wait_ms=60_000).SerializeToString()
            answer = RedriveAnswer.FromString((await producer.channel.ask(Opcode.FOLLOW_REDRIVE, follow)).header)
            assert (answer.state, answer.done) == ("done", 2)
            assert await _ids(broker, 3) == [f"{ONE}#0", f"{ONE}#1"], "in the queue that they were meant for"
            assert await producer.commit(ONE) == [TX_DEAD]

    _run(main())


def test_interrupted_dead_lettering_is_finished_after_a_restart(tmp_path: Path) -> None:
    async def main() -> None:
        clock = FakeClock()
        config = StoreConfig(segment_bytes=8 << 20)
        store = DiskStore(tmp_path, config, clock)
        broker = Broker(store, clock, LIMITS)
        producer = Producer(broker)
        await producer.create()
        await producer.send_halves(half(ONE, properties={MAX_CHECKS: "1"}) + half(ONE, 1))
        await _pass(broker, clock, 61)
        append = store.append_placed
        store.append_placed = lambda placed: append(placed[:1])  # type: ignore[method-assign]
        undecided = broker._transactions._check_back._undecided
        known = store.state.parts.halves.get(ONE)
        assert known is not None
        records = [store.read_raw(run.first_log_offset) for run in known.left]
        undecided._append(ONE, known, records)
        assert (known.dead, len(store.state.parts.dead_letters)) == (True, 1)
        assert await producer.commit(ONE) == [TX_DEAD]
        broker.close()
        store.close()

        store = DiskStore(tmp_path, config, clock)
        broker = Broker(store, clock, LIMITS)
        await _pass(broker, clock, 1)
        assert len(store.state.parts.dead_letters) == 2
        assert store.state.parts.halves.get(ONE) is None
        broker.close()
        store.close()

    _run(main())


@KINDS
def test_a_message_may_set_its_check_schedule(kind: Kind, tmp_path: Path) -> None:
    async def main() -> None:
        clock = FakeClock()
        async with _producer(kind, tmp_path, clock=clock) as (producer, broker):
            await producer.send_halves(
                half(ONE, properties={CHECK_AFTER: "500", "p": "v"}) + half(TWO, properties={CHECK_AFTER: "x"})
            )
            await _pass(broker, clock, 0.6)
            assert [(await producer.describe(name)).checks for name in (ONE, TWO)] == [1, 0]
            await _pass(broker, clock, 59.8)
            assert [(await producer.describe(name)).checks for name in (ONE, TWO)] == [1, 1]

    _run(main())


@KINDS
def test_the_alarm_of_an_ended_transaction_is_not_set_again(kind: Kind, tmp_path: Path) -> None:
    async def main() -> None:
        clock = FakeClock()
        async with _producer(kind, tmp_path, clock=clock) as (producer, broker):
            await producer.send_halves(
                half(ONE, properties={CHECK_AFTER: "3600000"}) + half(TWO, properties={CHECK_AFTER: "3600000"})
            )
            await producer.commit(ONE)
            before = len(broker.context.log_alarms)
            await _pass(broker, clock, 61)
            assert len(broker.context.log_alarms) == before - 1
            for _ in range(59):
                await _pass(broker, clock, 61)
            assert (await producer.describe(TWO)).checks == 1

    _run(main())


@KINDS
def test_a_topic_may_set_the_check_schedule(kind: Kind, tmp_path: Path) -> None:
    async def main() -> None:
        clock = FakeClock()
        async with _producer(kind, tmp_path, clock=clock) as (producer, broker):
            settings = TopicSettings(check_after_ms=1000, check_every_ms=2000, max_checks=3)
            request = CreateTopicRequest(topic="bills", queues=1, settings=settings)
            await producer.channel.ask(Opcode.CREATE_TOPIC, request.SerializeToString())
            await producer.send_halves(
                half(ONE, topic="bills") + half(TWO, topic="bills", properties={MAX_CHECKS: "1"}), topic="bills"
            )
            for seconds, checks in (
                (0.9, (0, 0)),
                (0.2, (1, 1)),
                (1.9, (1, 1)),
                (0.2, (2, 0)),
                (2.1, (3, 0)),
                (2.1, (0, 0)),
            ):
                await _pass(broker, clock, seconds)
                assert tuple([(await producer.describe(name)).checks for name in (ONE, TWO)]) == checks
            assert [(await producer.describe(name)).state for name in (ONE, TWO)] == [TX_DEAD, TX_DEAD]
            wrong = [
                AlterTopicRequest(topic="bills", check_after_ms=-1),
                AlterTopicRequest(topic="bills", check_every_ms=86_400_001),
                AlterTopicRequest(topic="bills", max_checks=1001),
            ]
            for bad in wrong:
                with pytest.raises(InvalidArgumentError):
                    await producer.channel.ask(Opcode.ALTER_TOPIC, bad.SerializeToString())

    _run(main())


@KINDS
def test_transactions_are_listed_in_pages(kind: Kind, tmp_path: Path) -> None:
    async def main() -> None:
        clock = FakeClock()
        async with _producer(kind, tmp_path, clock=clock) as (producer, broker):
            await producer.create("bills")
            await producer.send_halves(b"".join(half(name_of(number)) for number in range(5)))
            clock.advance(10)
            await producer.send_halves(half(name_of(9, "else"), topic="bills"), topic="bills")
            job = Job(broker)
            await job.write(attempt(), 2)
            await producer.commit(name_of(0))
            first = await producer.listed(most=3)
            assert [facts.transaction for facts in first.transactions] == [name_of(9, "else"), name_of(1), name_of(2)]
            assert not first.is_end
            rest = await producer.listed(most=3, after=first.next_after)
            assert ([facts.transaction for facts in rest.transactions], rest.is_end) == ([name_of(3), name_of(4)], True)
            whole = await producer.listed(include_sinks=True)
            assert [facts.transaction for facts in whole.transactions if facts.is_sink] == ["q/0/0/0"]
            by_group, by_topic = await producer.listed(group="else"), await producer.listed(topic="bills")
            assert [facts.group for facts in by_group.transactions] == ["else"]
            assert by_topic.transactions == by_group.transactions
            old = await producer.listed(stored_before=clock.wall_ms() - 5000)
            assert len(old.transactions) == 4
            ended = await producer.listed(state=TX_COMMITTED)
            assert [facts.transaction for facts in ended.transactions] == [name_of(0)]
            assert (await producer.describe("tx:nobody:1@here")).state == TX_NOT_KNOWN

    _run(main())


def test_retention_carries_undecided_halves_forward(tmp_path: Path) -> None:
    async def main() -> None:
        clock = FakeClock()
        config = StoreConfig(
            segment_bytes=69_632, max_record_bytes=4096, index_slots=9, index_entries=99, checkpoint_interval_ms=0
        )
        store = DiskStore(tmp_path, config, clock, disk=QuickDisk(), host="here")
        broker = Broker(store, clock, LIMITS)
        producer, job = Producer(broker), Job(broker)
        await producer.create()
        await producer.send_halves(half(ONE) + half(ONE, 1) + half(TWO), 0, 1, 1)
        await job.write(attempt(), 1)
        filler = encode_record(Record("filler", bytes(3500)))
        topic = store.create_topic("filler", 1)
        for turn in range(3):
            for _ in range(5):
                store.wait_confirmed(store.append(bytearray(filler * 8), topic.topic_id, 0).end)
            before = store._log.start
            store.retain(max_bytes=70_000)
            assert store._log.start > before
            facts = await producer.describe(ONE)
            assert (facts.state, facts.records, turn) == (TX_UNDECIDED, 2, turn)
        assert (await job.describe()).undecided == 0, "what jobs leave behind is rolled back"
        assert await producer.roll_back(TWO) == [TX_ROLLED_BACK]
        assert await producer.commit(ONE, count=2) == [TX_COMMITTED]
        await store.confirmed(store.log_end)
        for queue_id in (0, 1):
            key = QueueKey(16, queue_id)
            (found,) = _records(store.read_queue(key, store.state.start_offsets.get(key, 0), 9))
            assert found.record.message_id == f"{ONE}#{queue_id}"
        broker.close()
        store.abandon()

    _run(main())


def test_ten_thousand_transactions_end_once_each(tmp_path: Path) -> None:
    """Some are committed twice, some rolled back after a commit, some decided by check or never."""

    async def main() -> None:
        clock = FakeClock()
        chance = random.Random(7)
        async with _producer("disk", tmp_path, clock=clock) as (producer, broker):
            names = [name_of(number) for number in range(10_000)]
            for at in range(0, len(names), 500):
                await producer.send_halves(b"".join(half(name) for name in names[at : at + 500]), at % 4)
            outcomes = {name: chance.choice([TX_COMMITTED, TX_ROLLED_BACK, TX_UNDECIDED]) for name in names}
            decided = [name for name in names if outcomes[name] != TX_UNDECIDED]
            chance.shuffle(decided)
            for at in range(0, len(decided), 250):
                some = decided[at : at + 250]
                said = await asyncio.gather(*(producer.end(outcomes[name], name) for name in some + some[:50]))
                assert said == [[outcomes[name]] for name in some + some[:50]]
            for name in decided[:100]:
                other = TX_ROLLED_BACK if outcomes[name] == TX_COMMITTED else TX_COMMITTED
                assert await producer.end(other, name) == [outcomes[name]]
            silent = [name for name in names if outcomes[name] == TX_UNDECIDED]
            await _pass(broker, clock, 61)
            while (asked := (await producer.poll(most=1000))[0]) and len(silent) > 1000:
                for facts in asked:
                    outcomes[facts.transaction] = chance.choice([TX_COMMITTED, TX_ROLLED_BACK])
                    silent.remove(facts.transaction)
                said = await asyncio.gather(
                    *(producer.end(outcomes[facts.transaction], facts.transaction) for facts in asked)
                )
                assert said == [[outcomes[facts.transaction]] for facts in asked]
            for _ in range(2):
                await _pass(broker, clock, 61)
            assert 0 < len(silent) <= 1000
            assert len(broker.context.store.state.parts.dead_letters) == len(silent)
            read = Counter([each for queue_id in range(4) for each in await _ids(broker, queue_id)])
            assert read == Counter(f"{name}#0" for name, outcome in outcomes.items() if outcome == TX_COMMITTED)
            assert len(broker.context.store.state.parts.halves) == 0

    _run(main())
