"""Leases: grants, settlements, extensions and expiry, by requests of a client."""

import asyncio
from pathlib import Path

import pytest

from litemq.broker.broker import Broker
from litemq.broker.limits import BrokerLimits
from litemq.clock import FakeClock, SystemClock
from litemq.errors import InvalidArgumentError, LeaseLostError, OffsetExpiredError, OverloadedError
from litemq.proto.control_pb2 import Control, Queue, RetentionCrossed
from litemq.storage.disk_store import DiskStore
from litemq.storage.state import QueueKey
from support.callers import Kind, records, running_broker
from support.damaged_record import damaged
from support.leases import Got, Leaser
from support.waiting import eventually

KINDS = pytest.mark.parametrize("kind", ["memory", "disk"])
LOST = LeaseLostError.code


def _ids(messages: list[Got]) -> list[str]:
    return [one.message_id for one in messages]


def _pass(broker: Broker, clock: FakeClock, seconds: float) -> None:
    clock.advance(seconds)
    broker.context.ring_due()


@KINDS
def test_acked_messages_are_done_and_the_others_are_leased_again(kind: Kind, tmp_path: Path) -> None:
    clock = FakeClock()

    async def main() -> None:
        async with running_broker(kind, tmp_path, clock=clock) as broker:
            ann = Leaser(broker)
            await ann.create(queues=2)
            await ann.send(records(5), 0)
            await ann.send(records(3, first=5), 1)
            got = await ann.ask_for()
            assert sorted(_ids(got)) == [f"m-{number}" for number in range(8)]
            assert {one.tries for one in got} == {1}
            assert await ann.ask_for() == []
            assert await ann.ack(*got[:6]) == []
            assert await ann.ack(*got[:6]) == []  # once more, since an answer may be lost
            _pass(broker, clock, 0.9)
            assert await ann.ask_for() == []
            _pass(broker, clock, 0.2)
            again = await ann.ask_for()
            assert _ids(again) == _ids(got[6:])
            assert {one.tries for one in again} == {2}
            assert sorted(await ann.ack(*got[6:])) == sorted((one.offset, LOST) for one in got[6:])
            assert await ann.ack(*again) == []
            _pass(broker, clock, 5)
            assert await ann.ask_for() == []
            offsets = broker.context.store.state.group_offsets
            assert [offsets["billing", QueueKey(16, queue_id)] for queue_id in (0, 1)] == [5, 3]

    asyncio.run(main())


def test_an_expired_lease_counts_until_the_message_is_leased_again(tmp_path: Path) -> None:
    clock = FakeClock()

    async def main() -> None:
        async with running_broker("memory", tmp_path, clock=clock) as broker:
            ann = Leaser(broker)
            await ann.create(queues=1)
            await ann.send(records(2))
            got = await ann.ask_for()
            _pass(broker, clock, 2)
            assert await ann.ack(got[0]) == []
            again = await ann.ask_for()
            assert _ids(again) == ["m-1"]
            assert await ann.ack(got[1]) == [(1, LOST)]
            assert await ann.extend(got[1]) == [(1, LOST)]
            assert await ann.ack(again[0]) == []

    asyncio.run(main())


def test_a_damaged_message_of_a_replica_is_leased_once_it_is_repaired(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> None:
        async with running_broker("disk", tmp_path) as broker:
            ann = Leaser(broker)
            await ann.create(queues=1)
            await ann.send(records(3))
            monkeypatch.setattr(DiskStore, "is_replicated", True)
            with damaged(tmp_path, b"m-1"):
                assert _ids(await ann.ask_for()) == ["m-0"]
                assert await ann.ask_for() == []
            assert _ids(await ann.ask_for()) == ["m-1", "m-2"]

    asyncio.run(main())


@KINDS
def test_returned_messages_are_available_at_once(kind: Kind, tmp_path: Path) -> None:
    async def main() -> None:
        async with running_broker(kind, tmp_path) as broker:
            ann, bob = Leaser(broker, "ann"), Leaser(broker, "bob")
            await ann.create(queues=1)
            await ann.send(records(4))
            first = await ann.ask_for(3)
            waiting = bob.ask_for(10, wait_ms=60_000)
            assert _ids(await waiting) == ["m-3"]
            waiting = bob.ask_for(10, wait_ms=60_000)
            assert await ann.fail(first[1]) == []
            again = await waiting
            assert [(one.message_id, one.tries) for one in again] == [("m-1", 2)]
            assert await ann.ack(*first) == [(1, LOST)]
            assert await bob.ack(*again) == []

    asyncio.run(main())


@KINDS
def test_a_waiting_request_is_answered_when_a_message_arrives(kind: Kind, tmp_path: Path) -> None:
    async def main() -> None:
        async with running_broker(kind, tmp_path) as broker:
            ann, bob = Leaser(broker, "ann"), Leaser(broker, "bob")
            await ann.create(queues=2)
            waiting = [bob.ask_for(1, wait_ms=60_000) for _ in range(3)]
            await eventually(lambda: broker._lessor.waiting == 3)
            await ann.send(records(2), 1)
            await eventually(lambda: sum(one.done() for one in waiting) == 2)
            assert broker._lessor.waiting == 1
            broker.caller_gone(bob.channel)
            assert broker._lessor.waiting == 0
            for one in waiting:
                one.cancel()
            assert await ann.ask_for(1, wait_ms=30) == []

    asyncio.run(main())


def test_an_expired_lease_wakes_a_waiting_request(tmp_path: Path) -> None:
    async def main() -> None:
        async with running_broker("memory", tmp_path, clock=SystemClock()) as broker:
            ann = Leaser(broker)
            await ann.create(queues=1)
            await ann.send(records(1))
            loop = asyncio.get_running_loop()
            begin = loop.time()
            assert len(await ann.ask_for(lease_ms=100)) == 1
            again = await ann.ask_for(wait_ms=60_000)
            assert loop.time() - begin >= 0.1
            assert [one.tries for one in again] == [2], "a request that has given up gets nothing"

    asyncio.run(main())


def test_an_extended_lease_lasts_longer(tmp_path: Path) -> None:
    clock = FakeClock()

    async def main() -> None:
        async with running_broker("memory", tmp_path, clock=clock) as broker:
            ann = Leaser(broker)
            await ann.create(queues=1)
            await ann.send(records(3))
            got = await ann.ask_for()
            log_end = broker.context.store.log_end
            _pass(broker, clock, 0.4)
            assert await ann.extend(*got[:2]) == []
            assert broker.context.store.log_end == log_end, (
                "an extension by less than half a lease is not worth a record"
            )
            _pass(broker, clock, 0.7)
            assert _ids(await ann.ask_for()) == ["m-2"]
            assert await ann.extend(got[0]) == []
            assert broker.context.store.log_end > log_end
            _pass(broker, clock, 0.4)
            assert _ids(await ann.ask_for()) == ["m-1"]
            _pass(broker, clock, 0.7)
            assert sorted(_ids(await ann.ask_for())) == ["m-0", "m-2"]
            assert await ann.extend(*got) == [(offset, LOST) for offset in range(3)]

    asyncio.run(main())


def test_two_extensions_of_a_lease_in_one_tick(tmp_path: Path) -> None:
    clock = FakeClock()

    async def main() -> None:
        async with running_broker("memory", tmp_path, clock=clock) as broker:
            ann = Leaser(broker)
            await ann.create(queues=1)
            await ann.send(records(3))
            got = await ann.ask_for()
            _pass(broker, clock, 0.9)
            assert list(await asyncio.gather(ann.extend(*got), ann.extend(*got[1:]))) == [[], []]
            _pass(broker, clock, 0.9)
            assert await ann.ask_for() == []

    asyncio.run(main())


@pytest.mark.parametrize("cleanly", [True, False])
def test_leases_outlive_the_broker(cleanly: bool, tmp_path: Path) -> None:
    clock = FakeClock()
    reached_the_end: list[bool] = []

    async def first() -> None:
        async with running_broker("disk", tmp_path, clock=clock) as broker:
            ann = Leaser(broker)
            await ann.create(queues=1)
            await ann.send(records(6))
            got = await ann.ask_for(5)
            assert await ann.ack(got[1], got[4]) == []
            assert await ann.fail(got[2]) == []
            if not cleanly:
                broker.context.store.wait_confirmed(broker.context.store.log_end)
                broker.context.store.abandon()  # type: ignore[attr-defined]
            reached_the_end.append(True)

    async def second() -> None:
        async with running_broker("disk", tmp_path, clock=clock) as broker:
            ann = Leaser(broker)
            got = await ann.ask_for()
            assert [(one.message_id, one.tries) for one in got] == [("m-2", 2), ("m-5", 1)]
            _pass(broker, clock, 1.1)
            again = await ann.ask_for()
            assert [(one.message_id, one.tries) for one in again] == [("m-0", 2), ("m-2", 3), ("m-3", 2), ("m-5", 2)]
            assert await ann.ack(*again) == []
            assert broker.context.store.state.group_offsets["billing", QueueKey(16, 0)] == 6

    try:
        asyncio.run(first())
    except Exception:
        if cleanly or not reached_the_end:  # what was abandoned cannot be closed
            raise
    asyncio.run(second())


@pytest.mark.parametrize("from_latest", [False, True])
def test_a_group_begins_at_the_oldest_or_the_latest_message(from_latest: bool, tmp_path: Path) -> None:
    async def main() -> None:
        async with running_broker("memory", tmp_path) as broker:
            ann = Leaser(broker)
            await ann.create(queues=2)
            await ann.send(records(2))
            assert len(await ann.ask_for(from_latest=from_latest)) == (0 if from_latest else 2)
            await ann.send(records(1, first=2), 1)
            assert _ids(await ann.ask_for(from_latest=from_latest)) == ["m-2"], (
                "the queue was empty when the group came"
            )

    asyncio.run(main())


def test_groups_are_independent(tmp_path: Path) -> None:
    async def main() -> None:
        async with running_broker("memory", tmp_path) as broker:
            ann = Leaser(broker)
            await ann.create()
            await ann.send(records(2))
            got = await ann.ask_for()
            assert len(got) == len(await ann.ask_for(group="audit")) == 2
            assert await ann.ack(*got, group="audit") == [(0, LOST), (1, LOST)]

    asyncio.run(main())


def test_grants_keep_the_byte_and_in_flight_limits(tmp_path: Path) -> None:
    async def main() -> None:
        async with running_broker("memory", tmp_path, BrokerLimits(max_in_flight=7, max_waiting_pulls=3)) as broker:
            ann = Leaser(broker)
            await ann.create(queues=1)
            await ann.send(records(20, body=bytes(1000)))
            assert len(await ann.ask_for(max_bytes=1)) == 1
            assert len(await ann.ask_for(max_bytes=3000)) == 2
            got = await ann.ask_for(100)
            assert len(got) == 4
            waiting = [ann.ask_for(100, wait_ms=60_000) for _ in range(3)]
            await asyncio.sleep(0)
            with pytest.raises(OverloadedError):
                await ann.ask_for()
            await ann.ack(*got[:2])
            assert len(await waiting[0]) == 2
            await ann.fail(got[2])
            assert len(await waiting[1]) == 1
            broker.close()
            assert await waiting[2] == []

    asyncio.run(main())


def test_invalid_requests_are_refused(tmp_path: Path) -> None:
    async def main() -> None:
        async with running_broker("memory", tmp_path) as broker:
            ann = Leaser(broker)
            await ann.create(queues=1)
            await ann.send(records(1))
            got = await ann.ask_for()
            with pytest.raises(InvalidArgumentError):
                await ann.ask_for(0)
            with pytest.raises(InvalidArgumentError):
                await ann.ask_for(lease_ms=1)
            with pytest.raises(InvalidArgumentError):
                await ann.ask_for(group="no such name!")
            with pytest.raises(InvalidArgumentError):
                await ann.ack(got[0]._replace(queue_id=1))
            with pytest.raises(InvalidArgumentError):
                await ann.fail(got[0], delay_ms=-1)
            assert await ann.fail(got[0]._replace(offset=7)) == [(7, 25)]
            assert await ann.ack(got[0]._replace(offset=7)) == [(7, LOST)]
            assert await ann.ack(got[0]) == []

    asyncio.run(main())


@pytest.mark.parametrize("lost", [0, 1])
def test_offsets_deleted_by_retention_are_reported_once(lost: int, tmp_path: Path) -> None:
    async def main() -> None:
        async with running_broker("memory", tmp_path) as broker:
            ann = Leaser(broker)
            await ann.create(queues=2)
            assert await ann.ask_for() == []  # the group begins
            await ann.send(records(3), 0)
            await ann.send(records(3, first=3), 1)
            crossed = RetentionCrossed(queues=[Queue(topic_id=16, queue_id=lost, least=3)])
            broker.context.store.append_control(Control(retention_crossed=crossed))
            errors, got = 0, []
            for _ in range(4):
                try:
                    got += await ann.ask_for()
                except OffsetExpiredError:
                    errors += 1
            assert errors == 1
            assert sorted(_ids(got)) == [f"m-{number}" for number in range(3 * (1 - lost), 3 * (1 - lost) + 3)]

    asyncio.run(main())
