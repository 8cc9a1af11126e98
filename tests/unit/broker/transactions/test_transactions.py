"""Sink transactions: halves are invisible until committed, and then published exactly once."""

import asyncio
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from litemq.broker.broker import Broker
from litemq.broker.limits import BrokerLimits
from litemq.clock import Clock, FakeClock
from litemq.errors import (
    BacklogFullError,
    DiskFullError,
    InvalidArgumentError,
    OverloadedError,
    QuotaExceededError,
    SequenceGapError,
    TopicNotFoundError,
    TransactionRefusedError,
    UnsupportedFeatureError,
)
from litemq.format.limits import STORED_LIMITS
from litemq.format.record_decode import decode_record
from litemq.proto.control_pb2 import Control
from litemq.proto.wire_pb2 import FindRequest, Opcode, PullRequest, TopicRequest
from litemq.storage.disk_store import DiskStore
from litemq.storage.files.disk import DISK, Disk
from litemq.storage.state import QueueKey
from litemq.storage.state.topics import HALF_TOPIC_ID, ROLLBACK_TOPIC_ID
from litemq.types import RecordKind, StoredRecord
from support.callers import Kind, records, running_broker
from support.gated_disk import GatedDisk
from support.halves import Job, attempt, halves
from support.waiting import HANG_S

KINDS = pytest.mark.parametrize("kind", ["memory", "disk"])
DAY_S = 24 * 3600


def _run(test: Coroutine[Any, Any, None]) -> None:
    asyncio.run(test)


@asynccontextmanager
async def _job(
    kind: Kind,
    directory: Path,
    limits: BrokerLimits | None = None,
    clock: Clock | None = None,
    disk: Disk = DISK,
) -> AsyncIterator[tuple[Job, Broker]]:
    async with running_broker(kind, directory, limits, clock or FakeClock(), disk) as broker:
        job = Job(broker)
        await job.create()
        yield job, broker


async def _read(broker: Broker, queue_id: int = 0, topic_id: int = 16) -> list[StoredRecord]:
    store = broker.context.store
    await store.confirmed(store.log_end)
    data = await store.pull(QueueKey(topic_id, queue_id), 0, 10_000, 1 << 30)
    found: list[StoredRecord] = []
    at = 0
    while at < len(data):
        found.append(decode_record(data, at, limits=STORED_LIMITS))
        at += found[-1].size
    return found


async def _ids(broker: Broker, queue_id: int = 0) -> list[str]:
    await broker._transactions.publish_decided()
    return [stored.record.message_id for stored in await _read(broker, queue_id)]


def _named(batch: int, partition: int, number: int, count: int, first: int = 0) -> list[str]:
    return [f"{batch}-{partition}-{number}-{each}" for each in range(first, first + count)]


@KINDS
def test_halves_are_invisible_until_their_batch_is_committed(kind: Kind, tmp_path: Path) -> None:
    async def main() -> None:
        async with _job(kind, tmp_path) as (job, broker):
            await job.write(attempt(), 3)
            await job.write(attempt(), 2, queue_id=1)
            assert [await _ids(broker, queue_id) for queue_id in range(4)] == [[], [], [], []]
            found = await job.channel.ask(Opcode.FIND, FindRequest(topic="orders", key="0-0-0-1").SerializeToString())
            assert found.attachment == b""
            for queue_id in (0, 1):
                request = PullRequest(
                    topic="RMQ_SYS_TRANS_HALF_TOPIC", queue_id=queue_id, max_messages=9, max_bytes=999
                )
                with pytest.raises(InvalidArgumentError):
                    await job.channel.ask(Opcode.PULL, request.SerializeToString())
            assert (await job.describe()).undecided == 5
            answer = await job.commit(0, (0, 0, 5))
            assert (answer.committed_batch, answer.undecided) == (0, 0)
            assert await _ids(broker, 0) == _named(0, 0, 0, 3)
            assert await _ids(broker, 1) == _named(0, 0, 0, 2)
            assert (await job.describe()).waiting == 0
            for stored in await _read(broker):
                assert stored.stamp is not None
                assert stored.stamp.kind is RecordKind.COMMITTED
                half = broker.context.store.read_record(stored.stamp.origin)
                assert half.stamp is not None
                assert (half.record, half.stamp.kind, half.stamp.topic_id) == (
                    stored.record,
                    RecordKind.HALF,
                    HALF_TOPIC_ID,
                )
            assert len(broker.context.store.state.parts.halves) == broker.context.store.state.parts.halves.bytes == 0

    _run(main())


@KINDS
def test_a_repeated_commit_changes_nothing(kind: Kind, tmp_path: Path) -> None:
    async def main() -> None:
        async with _job(kind, tmp_path) as (job, broker):
            await job.write(attempt(), 3)
            await job.commit(0, (0, 0, 3))
            await job.commit(0, (0, 0, 3))
            assert (await job.commit(0, (0, 7, 99))).committed_batch == 0
            assert await _ids(broker) == _named(0, 0, 0, 3)

    _run(main())


@KINDS
def test_only_the_winning_attempts_are_published(kind: Kind, tmp_path: Path) -> None:
    async def main() -> None:
        async with _job(kind, tmp_path) as (job, broker):
            await job.write(attempt(0, 0, 1), 3)
            await job.write(attempt(0, 0, 2), 4)
            await job.write(attempt(0, 1, 1), 2)
            await job.write(attempt(0, 2, 1), 1)
            await job.commit(0, (0, 2, 4), (1, 1, 2), (3, 0, 0))
            assert await _ids(broker) == _named(0, 0, 2, 4) + _named(0, 1, 1, 2)
            (rolled_back,) = await _read(broker, 0, ROLLBACK_TOPIC_ID)
            described = Control.FromString(rolled_back.record.body).halves_rolled_back
            assert sorted(described.transactions) == ["q/0/0/1", "q/0/2/1"]
            assert "is committed without them" in described.reason
            assert len(broker.context.store.state.parts.halves) == 0

    _run(main())


@KINDS
def test_a_commit_rolls_back_earlier_batches_of_the_query(kind: Kind, tmp_path: Path) -> None:
    async def main() -> None:
        async with _job(kind, tmp_path) as (job, broker):
            await job.write(attempt(0), 1)
            await job.write(attempt(1), 1)
            await job.write(attempt(2), 1)
            await job.send_halves(halves(attempt(0, query="other"), 1), attempt(0, query="other"))
            await job.commit(1, (0, 0, 1))
            assert await _ids(broker) == _named(1, 0, 0, 1)
            assert (await job.describe()).undecided == 1
            assert (await job.describe("other")).undecided == 1
            with pytest.raises(TransactionRefusedError, match="batch 1 is decided"):
                await job.send_halves(halves(attempt(0, 3), 1), attempt(0, 3))
            with pytest.raises(TransactionRefusedError):
                await job.send_halves(halves(attempt(1), 1, first=1), attempt(1), 1)
            assert (await job.commit(0, (0, 0, 1))).committed_batch == 1
            assert await _ids(broker) == _named(1, 0, 0, 1)

    _run(main())


@KINDS
def test_nothing_is_committed_if_records_are_missing(kind: Kind, tmp_path: Path) -> None:
    async def main() -> None:
        async with _job(kind, tmp_path) as (job, broker):
            await job.write(attempt(0, 0), 3)
            await job.write(attempt(0, 1), 3)
            for winners in ([(0, 0, 3), (1, 0, 4)], [(0, 0, 3), (1, 0, 2)], [(0, 0, 3), (2, 0, 1)]):
                with pytest.raises(TransactionRefusedError, match="nothing is committed"):
                    await job.commit(0, *winners)
            assert (await job.describe()).committed_batch == -1
            assert await _ids(broker) == []
            await job.commit(0, (0, 0, 3), (1, 0, 3))
            assert len(await _ids(broker)) == 6

    _run(main())


@KINDS
def test_repeated_halves_are_stored_once(kind: Kind, tmp_path: Path) -> None:
    async def main() -> None:
        async with _job(kind, tmp_path) as (job, broker):
            once = attempt()
            await job.write(once, 3)
            assert await job.send_halves(halves(once, 3), once) == 3
            assert await job.send_halves(halves(once, 1, first=1), once, 1) == 3
            # Of what is partly known the rest is taken.
            assert await job.send_halves(halves(once, 4, first=1), once, 1) == 5
            with pytest.raises(SequenceGapError) as caught:
                await job.send_halves(halves(once, 1, first=6), once, 6)
            assert caught.value.expected == 5
            # Each queue counts for itself.
            assert await job.send_halves(halves(once, 1), once, queue_id=2) == 1
            await job.commit(0, (0, 0, 6))
            assert await _ids(broker) == _named(0, 0, 0, 5)
            assert await _ids(broker, 2) == _named(0, 0, 0, 1)

    _run(main())


@KINDS
def test_an_aborted_batch_may_be_written_again(kind: Kind, tmp_path: Path) -> None:
    async def main() -> None:
        async with _job(kind, tmp_path) as (job, broker):
            await job.write(attempt(5, 0), 2)
            await job.write(attempt(6, 0), 2)
            await job.abort(5)
            await job.abort(5)
            assert (await job.describe()).undecided == 2
            with pytest.raises(TransactionRefusedError, match="aborted"):
                await job.send_halves(halves(attempt(5), 1, first=2), attempt(5), 2)
            with pytest.raises(TransactionRefusedError, match="aborted"):
                await job.commit(5, (0, 0, 2))
            await job.write(attempt(5, 0, 1), 1)
            await job.commit(5, (0, 1, 1))
            await job.abort(5)  # too late
            assert await _ids(broker) == _named(5, 0, 1, 1)

    _run(main())


@KINDS
def test_delayed_messages_wait_after_the_commit(kind: Kind, tmp_path: Path) -> None:
    async def main() -> None:
        clock = FakeClock()
        async with _job(kind, tmp_path, clock=clock) as (job, broker):
            due = clock.wall_ms() + 60_000
            one = attempt()
            records = (
                halves(one, 1)
                + halves(one, 1, first=1, delay_time=due)
                + halves(one, 1, first=2)
                + halves(one, 1, first=3, delay_time=5)
            )
            await job.send_halves(records, one, queue_id=3)
            await job.commit(0, (0, 0, 4))
            assert await _ids(broker, 3) == ["0-0-0-0", "0-0-0-2", "0-0-0-3"]
            assert broker.context.store.state.parts.timers.count == 1
            assert len(broker.context.store.state.parts.halves) == 0
            clock.advance(60)
            await broker.fire_due()
            assert await _ids(broker, 3) == ["0-0-0-0", "0-0-0-2", "0-0-0-3", "0-0-0-1"]
            assert broker.context.store.state.parts.timers.count == 0

    _run(main())


@KINDS
def test_an_undecided_batch_is_rolled_back_after_a_day(kind: Kind, tmp_path: Path) -> None:
    async def main() -> None:
        clock = FakeClock()
        async with _job(kind, tmp_path, clock=clock) as (job, broker):
            await job.write(attempt(0, 0), 1)
            clock.advance(DAY_S - 1)
            await job.write(attempt(0, 1), 1)  # this batch is still written
            clock.advance(2)
            await broker.fire_due()
            assert (await job.describe()).undecided == 2
            clock.advance(DAY_S)
            await broker.fire_due()
            assert (await job.describe()).undecided == 0
            with pytest.raises(TransactionRefusedError, match="undecided for too long"):
                await job.commit(0, (0, 0, 1), (1, 0, 1))
            (rolled_back,) = await _read(broker, 0, ROLLBACK_TOPIC_ID)
            assert "24 hours" in Control.FromString(rolled_back.record.body).halves_rolled_back.reason

    _run(main())


@KINDS
def test_halves_of_a_deleted_topic_are_dropped(kind: Kind, tmp_path: Path) -> None:
    async def main() -> None:
        async with _job(kind, tmp_path) as (job, broker):
            await job.create("bills")
            one = attempt()
            await job.write(one, 2)
            await job.send_halves(halves(one, 3, topic="bills"), one, topic="bills")
            await job.write(one, 2, first=2)
            await job.channel.ask(Opcode.DELETE_TOPIC, TopicRequest(topic="bills").SerializeToString())
            await job.create("bills")
            with pytest.raises(SequenceGapError):
                await job.send_halves(halves(one, 1, first=3, topic="bills"), one, 3, topic="bills")
            await job.commit(0, (0, 0, 7))
            assert await _ids(broker) == _named(0, 0, 0, 4)
            assert await _read(broker, topic_id=18) == []
            decided = [
                Control.FromString(stored.record.body)
                for stored in await _read(broker, 0, 1)
                if b"q" in stored.record.body
            ]
            assert [each.sink_committed.dropped for each in decided if each.HasField("sink_committed")] == [3]
            assert len(broker.context.store.state.parts.halves) == 0

    _run(main())


@KINDS
def test_invalid_requests_are_refused(kind: Kind, tmp_path: Path) -> None:
    async def main() -> None:
        limits = BrokerLimits(max_winners=2, max_transactions=2, max_half_bytes=5000, max_plan_bytes=10)
        async with _job(kind, tmp_path, limits) as (job, broker):
            one = attempt()
            with pytest.raises(TopicNotFoundError):
                await job.send_halves(halves(one, 1, topic="bills"), one, topic="bills")
            with pytest.raises(InvalidArgumentError, match="reserved for the broker"):
                await job.send_halves(halves(one, 1), one, topic="LITEMQ_SYS_TIMER")
            with pytest.raises(InvalidArgumentError, match="has 4"):
                await job.send_halves(halves(one, 1), one, queue_id=4)
            with pytest.raises(InvalidArgumentError, match="not of transaction"):
                await job.send_halves(halves(one, 1) + halves(attempt(0, 1), 1), one)
            with pytest.raises(InvalidArgumentError, match="not of transaction"):
                await job.send_halves(records(1), one)
            with pytest.raises(InvalidArgumentError, match="has no priorities"):
                await job.send_halves(halves(one, 1, priority=3), one)
            with pytest.raises(InvalidArgumentError, match="365 days"):
                await job.send_halves(halves(one, 1, delay_time=1 << 45), one)
            for query in ("", "x" * 201, "a\nb"):
                with pytest.raises(InvalidArgumentError, match="query"):
                    await job.send_halves(halves(attempt(query=query), 1), attempt(query=query))
            with pytest.raises(InvalidArgumentError, match="batch -1"):
                await job.commit(-1)
            with pytest.raises(InvalidArgumentError, match="write with at most 2"):
                await job.commit(0, (0, 0, 0), (1, 0, 0), (2, 0, 0))
            with pytest.raises(InvalidArgumentError, match="write with fewer tasks"):
                await job.commit(0, plan=bytes(11))
            with pytest.raises(InvalidArgumentError, match="twice"):
                await job.commit(0, (0, 0, 0), (0, 1, 0))
            with pytest.raises(DiskFullError, match=r"transactions\.max_half_size"):
                await job.send_halves(halves(one, 1, body=bytes(5000)), one)
            await job.write(attempt(0, 1), 1)
            await job.write(attempt(0, 2), 1)
            with pytest.raises(OverloadedError, match="transactions are open, the maximum"):
                await job.send_halves(halves(one, 1), one)
            assert broker.context.store.state.parts.halves.get("q/0/0/0") is None

    _run(main())


@KINDS
def test_the_number_of_runs_is_bounded(kind: Kind, tmp_path: Path) -> None:
    async def main() -> None:
        async with _job(kind, tmp_path, BrokerLimits(max_half_runs=2)) as (job, broker):
            one = attempt()
            await job.write(one, 1)
            await job.write(one, 1, first=1)
            await job.write(one, 1, queue_id=1)
            with pytest.raises(OverloadedError, match="more records per request"):
                await job.write(one, 1, first=2)
            await job.abort(0)
            assert broker.context.store.state.parts.halves.runs == 0

    _run(main())


@KINDS
def test_backlog_and_quotas_apply_to_halves(kind: Kind, tmp_path: Path) -> None:
    async def main() -> None:
        limits = BrokerLimits(max_backlog=2, quota_messages_per_s=3)
        async with _job(kind, tmp_path, limits) as (job, broker):
            topic = broker.context.store.state.topic("orders")
            assert topic is not None
            await job.write(attempt(), 4)
            with pytest.raises(QuotaExceededError):
                await job.write(attempt(), 1, first=4)
            await job.commit(0, (0, 0, 4))
            await broker.fire_due()
            broker.context.store.commit_offsets("billing", [(QueueKey(topic.topic_id, 0), 0)])
            with pytest.raises(BacklogFullError):
                await job.write(attempt(1), 1)

    _run(main())


def test_halves_wait_for_the_disk(tmp_path: Path) -> None:
    disk = GatedDisk()

    async def main() -> None:
        async with _job("disk", tmp_path, BrokerLimits(max_unconfirmed_bytes=4000), disk=disk) as (job, broker):
            # One alone is always taken, however large; what comes before it is safe waits.
            large, small = halves(attempt(0, 0), 1, body=bytes(5000)), halves(attempt(0, 1), 1)
            disk.gate.clear()
            first = asyncio.ensure_future(job.send_halves(large, attempt(0, 0)))
            await asyncio.sleep(0)
            try:
                with pytest.raises(OverloadedError) as refused:
                    await job.send_halves(small, attempt(0, 1))
                assert refused.value.retry_after_ms > 0
                assert not first.done()
            finally:
                disk.gate.set()
            assert await first == 1
            assert await job.send_halves(small, attempt(0, 1)) == 1
            assert broker.context.store.state.parts.halves.bytes > 5000

    _run(main())


def test_a_restarted_broker_publishes_decided_halves(tmp_path: Path) -> None:
    async def decide() -> None:
        async with _job("disk", tmp_path) as (job, broker):
            for partition in range(3):
                await job.write(attempt(0, partition), 5)
            await job.write(attempt(1), 5)
            broker._transactions._publisher.close()
            answer = await job.commit(0, (0, 0, 5), (1, 0, 5), (2, 0, 5))
            assert answer.waiting == 15
            assert await _read(broker) == []

    async def look() -> None:
        async with running_broker("disk", tmp_path, clock=FakeClock()) as broker:
            job = Job(broker)
            assert len(await _ids(broker)) == 15
            described = await job.describe()
            assert (described.committed_batch, described.waiting, described.undecided) == (0, 0, 5)
            await job.commit(1, (0, 0, 5))
            assert len(await _ids(broker)) == 20

    _run(decide())
    _run(look())


def test_the_plan_stays_with_the_last_decision(tmp_path: Path) -> None:
    """If a driver dies after the first broker has decided, that broker has the others' plan."""

    async def decide() -> None:
        async with _job("disk", tmp_path) as (job, broker):
            assert (await job.commit(0, plan=b"one")).plan == b"one"
            assert (await job.commit(0, plan=b"two")).plan == b"one"
            assert (await job.commit(3, plan=b"three", query="other")).plan == b"three"
            assert isinstance(broker.context.store, DiskStore)
            broker.context.store.snapshot()

    async def look() -> None:
        async with running_broker("disk", tmp_path, clock=FakeClock()) as broker:
            job = Job(broker)
            assert (await job.describe()).plan == b"one"
            assert (await job.describe("other")).plan == b"three"
            assert (await job.commit(1)).plan == b""
            assert (await job.describe()).plan == b""

    async def look_again() -> None:
        async with running_broker("disk", tmp_path, clock=FakeClock()) as broker:
            job = Job(broker)
            assert ((await job.describe()).plan, (await job.describe("other")).plan) == (b"", b"three")

    _run(decide())
    _run(look())
    for path in tmp_path.rglob("state.db*"):
        path.unlink()
    _run(look_again())


@KINDS
def test_a_commit_answers_waiting_pulls(kind: Kind, tmp_path: Path) -> None:
    async def main() -> None:
        async with _job(kind, tmp_path) as (job, _):
            request = PullRequest(topic="orders", queue_id=0, max_messages=9, max_bytes=9999, wait_ms=60_000)
            waiting = asyncio.ensure_future(job.channel.ask(Opcode.PULL, request.SerializeToString()))
            await job.write(attempt(), 2)
            await job.commit(0, (0, 0, 2))
            async with asyncio.timeout(HANG_S):
                assert decode_record((await waiting).attachment).record.message_id == "0-0-0-0"

    _run(main())


@KINDS
def test_durability_replicas_is_refused(kind: Kind, tmp_path: Path) -> None:
    async def main() -> None:
        async with _job(kind, tmp_path) as (job, _):
            records_ = bytearray(halves(attempt(), 1))
            records_[114] = 3
            with pytest.raises(UnsupportedFeatureError, match="replicas"):
                await job.send_halves(bytes(records_), attempt())

    _run(main())
