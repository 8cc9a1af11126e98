"""Failed tries: retries, counts and dead letters."""

import asyncio
from pathlib import Path

import pytest

from litemq.broker.broker import Broker
from litemq.clock import FakeClock
from litemq.format.dead_letters import history_from_properties, original_record
from litemq.format.limits import STORED_LIMITS
from litemq.format.record_decode import decode_record
from litemq.proto.wire_pb2 import FailedTry, JoinRequest, Opcode, SettleRequest
from litemq.storage.state import QueueKey
from litemq.storage.store import Store
from litemq.types import DeadReason, StoredRecord
from support.broker_group import Group, group_of_three
from support.callers import Kind, records, running_broker
from support.leases import Got, Leaser
from support.on_loop import on_loop
from support.replica_group import serving
from support.replicas import open_replica
from support.stores import CONFIG
from support.waiting import eventually

KINDS = pytest.mark.parametrize("kind", ["memory", "disk"])


def _ids_and_tries(messages: list[Got]) -> list[tuple[str, int]]:
    return [(one.message_id, one.tries) for one in messages]


async def _fire(broker: Broker) -> None:
    await broker.fire_due()
    await broker.context.store.confirmed(broker.context.store.log_end)


async def _dead(store: Store, topic: str = "orders") -> list[StoredRecord]:
    facts = store.state.topic(f"%DLQ%{topic}")
    if facts is None:
        return []
    await store.confirmed(store.log_end)
    key = QueueKey(facts.topic_id, 0)
    dead_letters = [store.read_queue(key, offset, 1, 1 << 20) for offset in range(store.state.end_offsets.get(key, 0))]
    return [decode_record(bytes(dead_letter), limits=STORED_LIMITS) for dead_letter in dead_letters]


@KINDS
def test_a_failed_try_is_retried_later_with_a_higher_count(kind: Kind, tmp_path: Path) -> None:
    clock = FakeClock()

    async def main() -> None:
        async with running_broker(kind, tmp_path, clock=clock) as broker:
            ann = Leaser(broker)
            await ann.create(queues=1)
            await ann.send(records(3))
            got = await ann.ask_for()
            assert await ann.fail(got[1], delay_ms=500) == []
            assert await ann.ack(got[0], got[2]) == []
            progress = broker.context.store.state.parts.progress
            assert progress.offsets["billing", QueueKey(16, 0)] == 3, "a waiting retry is settled in its queue"
            clock.advance(0.4)
            await _fire(broker)
            assert await ann.ask_for() == []
            clock.advance(0.2)
            await _fire(broker)
            again = await ann.ask_for(wait_ms=60_000)
            assert _ids_and_tries(again) == [("m-1", 2)]
            assert again[0].is_retry
            assert again[0].stored.record == got[1].stored.record, "the producer's part has changed"
            assert again[0].stored.stamp is not None
            assert got[1].stored.stamp is not None
            assert again[0].stored.stamp.origin == got[1].stored.stamp.commitlog_offset
            assert await ann.fail(again[0]) == []
            third = await ann.ask_for()
            assert _ids_and_tries(third) == [("m-1", 3)]
            assert await ann.fail(third[0], delay_ms=100) == []
            waiting = ann.ask_for(wait_ms=60_000)
            await asyncio.sleep(0)
            clock.advance(0.2)
            await _fire(broker)
            fourth = await waiting
            assert _ids_and_tries(fourth) == [("m-1", 4)]
            assert await ann.ack(fourth[0]) == []
            assert not list(broker.context.store.state.parts.tries)
            clock.advance(10)
            await _fire(broker)
            assert await ann.ask_for() == []

    asyncio.run(main())


@pytest.mark.parametrize("is_due", [False, True])
def test_retries_survive_a_restart(is_due: bool, tmp_path: Path) -> None:
    clock = FakeClock()

    async def first() -> None:
        async with running_broker("disk", tmp_path, clock=clock) as broker:
            ann = Leaser(broker)
            await ann.create(queues=1)
            await ann.send(records(2))
            assert await ann.fail(*await ann.ask_for(), delay_ms=1000) == []

    async def second() -> None:
        async with running_broker("disk", tmp_path, clock=clock) as broker:
            ann = Leaser(broker)
            if not is_due:
                assert await ann.ask_for() == []
                clock.advance(2)
            await _fire(broker)
            again = await ann.ask_for(wait_ms=60_000)
            assert _ids_and_tries(again) == [("m-0", 2), ("m-1", 2)]

    asyncio.run(first())
    if is_due:
        clock.advance(2)
    asyncio.run(second())


@KINDS
def test_an_exhausted_message_becomes_a_dead_letter_once(kind: Kind, tmp_path: Path) -> None:
    clock = FakeClock()

    async def main() -> None:
        async with running_broker(kind, tmp_path, clock=clock) as broker:
            ann = Leaser(broker)
            await ann.create(queues=1)
            await ann.send(records(3))
            store = broker.context.store
            for number in range(3):
                got = await ann.ask_for(max_retries=2, wait_ms=60_000)
                assert [one.tries for one in got] == [number + 1] * 3
                assert await _dead(store) == []
                # One is given back, one is tried later, of one the lease ends.
                assert await ann.fail(got[0], max_retries=2, error="ValueError: no", delay_ms=0) == []
                assert await ann.fail(got[1], max_retries=2, error="ValueError: no", delay_ms=100) == []
                clock.advance(1.1)
                await _fire(broker)
            assert len(await _dead(store)) == 2
            assert await ann.ask_for(max_retries=2) == []
            assert await ann.ask_for(max_retries=2) == []
            dead_letters = await _dead(store)
            assert sorted(original_record(dead_letter.record).record.message_id for dead_letter in dead_letters) == [
                "m-0",
                "m-1",
                "m-2",
            ]
            for dead_letter in dead_letters:
                history = history_from_properties(dead_letter.record.properties)
                assert (history.reason, history.group, history.tries, history.dead_at > 0) == (
                    DeadReason.MAX_RETRY,
                    "billing",
                    3,
                    True,
                )
            assert len(store.state.parts.dead_letters) == 3
            assert not list(store.state.parts.tries)
            assert store.state.group_offsets["billing", QueueKey(16, 0)] == 3

    asyncio.run(main())


@KINDS
def test_a_rejected_message_becomes_a_dead_letter_at_once(kind: Kind, tmp_path: Path) -> None:
    async def main() -> None:
        async with running_broker(kind, tmp_path) as broker:
            ann = Leaser(broker, "ann")
            await ann.create(queues=1)
            await ann.send(records(1))
            got = await ann.ask_for()
            assert await ann.fail(got[0], final=True, reason=4, error="KeyError: 'x'") == []
            assert await ann.fail(got[0], final=True, reason=4, error="KeyError: 'x'") == []  # an answer may be lost
            (dead_letter,) = await _dead(broker.context.store)
            history = history_from_properties(dead_letter.record.properties)
            assert (history.reason, history.consumer, history.error) == (
                DeadReason.CONSUME_ERROR,
                "ann",
                "KeyError: 'x'",
            )
            assert history.position == "16/0/0"
            assert dead_letter.stamp is not None
            assert got[0].stored.stamp is not None
            assert dead_letter.stamp.origin == got[0].stored.stamp.commitlog_offset

    asyncio.run(main())


@KINDS
def test_an_expired_message_is_not_leased(kind: Kind, tmp_path: Path) -> None:
    clock = FakeClock()

    async def main() -> None:
        async with running_broker(kind, tmp_path, clock=clock) as broker:
            ann = Leaser(broker)
            await ann.create(queues=1)
            soon = clock.wall_ms() + 500
            await ann.send(records(2, expire_at=soon) + records(1, first=2) + records(1, first=3, expire_at=soon))
            first = await ann.ask_for(1)
            assert _ids_and_tries(first) == [("m-0", 1)]
            clock.advance(1)
            await _fire(broker)
            assert await ann.ack(*first) == [], "the holder of the lease may finish"
            assert _ids_and_tries(await ann.ask_for()) == [("m-2", 1)]
            dead_letters = await _dead(broker.context.store)
            assert [original_record(dead_letter.record).record.message_id for dead_letter in dead_letters] == [
                "m-1",
                "m-3",
            ]
            assert {history_from_properties(dead_letter.record.properties).reason for dead_letter in dead_letters} == {
                DeadReason.TTL_EXPIRED
            }
            assert await ann.ask_for() == []

    asyncio.run(main())


@KINDS
def test_members_fail_tries_without_a_lease(kind: Kind, tmp_path: Path) -> None:
    clock = FakeClock()

    async def main() -> None:
        async with running_broker(kind, tmp_path, clock=clock) as broker:
            ann = Leaser(broker)
            await ann.create(queues=1)
            await ann.send(records(3))
            failed = [
                FailedTry(offset=0, count=1, delay_ms=100, max_retries=16),
                FailedTry(offset=1, count=17, delay_ms=100, max_retries=16, error="E"),
                FailedTry(offset=2, count=1, max_retries=16),
            ]
            request = SettleRequest(topic="orders", group="billing", failed=failed).SerializeToString()
            with pytest.raises(Exception, match="join"):
                await ann.channel.ask(Opcode.SETTLE, request)
            await ann.channel.ask(Opcode.JOIN_GROUP, JoinRequest(group="billing", topic="orders").SerializeToString())
            await ann.channel.ask(Opcode.SETTLE, request)
            await ann.channel.ask(Opcode.SETTLE, request)  # an answer may be lost
            store = broker.context.store
            assert store.state.group_offsets["billing", QueueKey(16, 0)] == 3
            assert len(await _dead(store)) == 1
            clock.advance(1)
            await _fire(broker)
            assert sorted(_ids_and_tries(await ann.ask_for(wait_ms=60_000))) == [("m-0", 2), ("m-2", 2)]

    asyncio.run(main())


@on_loop
async def test_a_retry_that_is_due_when_a_master_begins_waits_for_the_confirmation(tmp_path: Path) -> None:
    async with group_of_three(tmp_path) as group, group.all_follow():
        ann = Leaser(group.broker)
        await ann.send(records())
        failed = await ann.ask_for(wait_ms=60_000)
        assert await ann.fail(*failed, delay_ms=1000) == []
    clock = group.clock
    clock.advance(2)
    store, *followers = [open_replica(tmp_path / name, CONFIG, clock) for name in "abc"]
    async with serving(store, followers, epoch=2, clock=clock) as master:
        again = Group(master, followers, clock)
        ann = Leaser(again.broker)
        await again.broker.fire_due()
        assert store.confirm_offset == 0, "the message cannot be read yet"
        async with again.all_follow():
            await eventually(lambda: store.confirm_offset == store.log_end)
            clock.advance(1)
            await again.broker.fire_due()
            assert _ids_and_tries(await ann.ask_for(wait_ms=60_000)) == [("m-0", 2)]
        again.broker.close()
    for each in (store, *followers):
        each.abandon()
