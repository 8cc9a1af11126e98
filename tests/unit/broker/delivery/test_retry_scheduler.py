"""Tries that fail, and what is left of messages in the end."""

import asyncio
from pathlib import Path

import pytest

from litemq.broker.broker import Broker
from litemq.clock import FakeClock
from litemq.format.dead_letters import original_of, story_of
from litemq.format.limits import STORED_LIMITS
from litemq.format.record_decode import decode_record
from litemq.proto.wire_pb2 import FailedTry, JoinRequest, Opcode, SettleRequest
from litemq.storage.state import QueueKey
from litemq.storage.store import Store
from litemq.types import DeadReason, StoredRecord
from support.callers import Kind, records, running_broker
from support.leases import Got, Leaser

KINDS = pytest.mark.parametrize("kind", ["memory", "disk"])


def _told(messages: list[Got]) -> list[tuple[str, int]]:
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
    letters = [store.read_queue(key, offset, 1, 1 << 20) for offset in range(store.state.next.get(key, 0))]
    return [decode_record(bytes(letter), limits=STORED_LIMITS) for letter in letters]


@KINDS
def test_a_try_that_failed_is_due_later_and_counts_on(kind: Kind, tmp_path: Path) -> None:
    clock = FakeClock()

    async def main() -> None:
        async with running_broker(kind, tmp_path, clock=clock) as broker:
            ann = Leaser(broker)
            await ann.create(queues=1)
            await ann.send(records(3))
            got = await ann.ask_for()
            assert await ann.fail(got[1], delay_ms=500) == []
            assert await ann.ack(got[0], got[2]) == []
            progress = broker.context.store.state.delivery.progress
            assert progress.offsets["billing", QueueKey(16, 0)] == 3, "a try that waits is settled where it stood"
            clock.advance(0.4)
            await _fire(broker)
            assert await ann.ask_for() == []
            clock.advance(0.2)
            await _fire(broker)
            again = await ann.ask_for(wait_ms=60_000)
            assert _told(again) == [("m-1", 2)]
            assert again[0].is_retry
            assert again[0].stored.record == got[1].stored.record, "the producer's part has changed"
            assert again[0].stored.stamp is not None
            assert got[1].stored.stamp is not None
            assert again[0].stored.stamp.origin == got[1].stored.stamp.commitlog_offset
            assert await ann.fail(again[0]) == []
            third = await ann.ask_for()
            assert _told(third) == [("m-1", 3)]
            assert await ann.fail(third[0], delay_ms=100) == []
            waiting = ann.ask_for(wait_ms=60_000)
            await asyncio.sleep(0)
            clock.advance(0.2)
            await _fire(broker)
            fourth = await waiting
            assert _told(fourth) == [("m-1", 4)]
            assert await ann.ack(fourth[0]) == []
            assert not list(broker.context.store.state.delivery.tries)
            clock.advance(10)
            await _fire(broker)
            assert await ann.ask_for() == []

    asyncio.run(main())


@pytest.mark.parametrize("is_due", [False, True])
def test_tries_outlive_the_broker(is_due: bool, tmp_path: Path) -> None:
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
            assert _told(again) == [("m-0", 2), ("m-1", 2)]

    asyncio.run(first())
    if is_due:
        clock.advance(2)
    asyncio.run(second())


@KINDS
def test_what_was_tried_too_often_is_in_the_dead_letters_once(kind: Kind, tmp_path: Path) -> None:
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
            letters = await _dead(store)
            assert sorted(original_of(letter.record).record.message_id for letter in letters) == ["m-0", "m-1", "m-2"]
            for letter in letters:
                story = story_of(letter.record.properties)
                assert (story.reason, story.group, story.tries, story.dead_at > 0) == (DeadReason.MAX_RETRY, "billing", 3, True)
            assert len(store.state.delivery.dead_letters) == 3
            assert not list(store.state.delivery.tries)
            assert store.state.group_offsets["billing", QueueKey(16, 0)] == 3

    asyncio.run(main())


@KINDS
def test_what_is_rejected_is_dead_at_once(kind: Kind, tmp_path: Path) -> None:
    async def main() -> None:
        async with running_broker(kind, tmp_path) as broker:
            ann = Leaser(broker, "ann")
            await ann.create(queues=1)
            await ann.send(records(1))
            got = await ann.ask_for()
            assert await ann.fail(got[0], final=True, reason=4, error="KeyError: 'x'") == []
            assert await ann.fail(got[0], final=True, reason=4, error="KeyError: 'x'") == []  # an answer may be lost
            (letter,) = await _dead(broker.context.store)
            story = story_of(letter.record.properties)
            assert (story.reason, story.consumer, story.error) == (DeadReason.CONSUME_ERROR, "ann", "KeyError: 'x'")
            assert story.place == "16/0/0"
            assert letter.stamp is not None
            assert got[0].stored.stamp is not None
            assert letter.stamp.origin == got[0].stored.stamp.commitlog_offset

    asyncio.run(main())


@KINDS
def test_what_is_too_old_is_given_to_nobody(kind: Kind, tmp_path: Path) -> None:
    clock = FakeClock()

    async def main() -> None:
        async with running_broker(kind, tmp_path, clock=clock) as broker:
            ann = Leaser(broker)
            await ann.create(queues=1)
            soon = clock.wall_ms() + 500
            await ann.send(records(2, expire_at=soon) + records(1, first=2) + records(1, first=3, expire_at=soon))
            first = await ann.ask_for(1)
            assert _told(first) == [("m-0", 1)]
            clock.advance(1)
            await _fire(broker)
            assert await ann.ack(*first) == [], "whoever has it may finish"
            assert _told(await ann.ask_for()) == [("m-2", 1)]
            letters = await _dead(broker.context.store)
            assert [original_of(letter.record).record.message_id for letter in letters] == ["m-1", "m-3"]
            assert {story_of(letter.record.properties).reason for letter in letters} == {DeadReason.TTL_EXPIRED}
            assert await ann.ask_for() == []

    asyncio.run(main())


@KINDS
def test_members_let_tries_fail_without_a_lease(kind: Kind, tmp_path: Path) -> None:
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
            assert sorted(_told(await ann.ask_for(wait_ms=60_000))) == [("m-0", 2), ("m-2", 2)]

    asyncio.run(main())
