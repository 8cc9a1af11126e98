"""Redrive: each dead letter goes back to its topic at most once."""

import asyncio
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path

import pytest

from litemq.broker.dead_letters.reading import DeadLetter, DeadLetterReader
from litemq.broker.dead_letters.redrive import Redrive, Redrives
from litemq.broker.limits import BrokerLimits
from litemq.broker.runtime.context import BrokerContext
from litemq.broker.runtime.queue_events import QueueListener
from litemq.clock import FakeClock
from litemq.errors import InvalidArgumentError, OverloadedError, TopicNotFoundError
from litemq.format.dead_letters import UNDECODABLE, DeadSelection
from litemq.format.messages import MessageFields, decode_messages
from litemq.format.record_encode import RecordTemplate
from litemq.storage.config import StoreConfig
from litemq.storage.disk_store import DiskStore
from litemq.storage.memory_store import MemoryStore
from litemq.storage.state import QueueKey
from litemq.storage.store import Store
from litemq.types import DeadReason, RecordKind
from support.callers import records
from support.dead_letters import Death, write_dead_letters
from support.waiting import eventually

CONFIG = StoreConfig(segment_bytes=8 << 20)


class Desk(QueueListener):
    """A store with a topic of four queues, ten messages in queue 2, and its redrives."""

    def __init__(self, store: Store, clock: FakeClock) -> None:
        self.store = store
        self.clock = clock
        self.topic = store.create_topic("orders", 4)
        self.reader = DeadLetterReader(store)
        self.grown: list[QueueKey] = []

    @cached_property
    def redrives(self) -> Redrives:
        """Create the redrives on the event loop of the test."""
        context = BrokerContext.create(self.store, self.clock, BrokerLimits())
        context.events.add(self)
        return Redrives(context, self.reader)

    def on_append(self, keys: list[QueueKey], end: int) -> None:  # noqa: ARG002
        self.grown += keys

    def fill(self, count: int = 10, queue_id: int = 2, expire_at: int = 0) -> None:
        first = self.store.state.end_offsets.get(QueueKey(self.topic.topic_id, queue_id), 0)
        appended = self.store.append(
            bytearray(records(count, first=first, expire_at=expire_at)), self.topic.topic_id, queue_id
        )
        self.store.wait_confirmed(appended.end)

    def queue(self, queue_id: int = 2) -> list[MessageFields]:
        return decode_messages(
            bytes(self.store.read_queue(QueueKey(self.topic.topic_id, queue_id), 0, 10_000, 1 << 30))
        )

    async def all(self, selection: DeadSelection | None = None, **options: bool | int) -> Redrive:
        redrive = self.redrives.begin("orders", selection or DeadSelection(), **options)  # type: ignore[arg-type]
        await redrive.ended.wait()
        return redrive


@pytest.fixture(params=["memory", "disk"])
def desk(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Desk]:
    clock = FakeClock()
    store: Store = MemoryStore(clock) if request.param == "memory" else DiskStore(tmp_path, CONFIG, clock)
    desk = Desk(store, clock)
    yield desk
    store.close()


def test_each_dead_letter_goes_back_to_its_queue_once_unchanged(desk: Desk) -> None:
    async def main() -> None:
        desk.fill()
        dead_letters = write_dead_letters(desk.store, "orders", 2, range(10))
        assert desk.reader.topics() == {"orders": 10}
        first = await desk.all()
        assert (first.state, first.dead_letters, first.selected, first.done) == ("done", 10, 10, 10)
        assert desk.reader.topics() == {}
        again = await desk.all()
        assert (again.state, again.selected, again.done) == ("done", 0, 0)
        before, after = desk.queue()[:10], desk.queue()[10:]
        assert [(one.message_id, one.body, one.born_timestamp) for one in after] == [
            (m.message_id, m.body, m.born_timestamp) for m in before
        ]
        assert {one.kind for one in after} == {RecordKind.MESSAGE}
        origins = [desk.store.read_record(one.commitlog_offset).stamp for one in after]
        assert [stamp.origin for stamp in origins if stamp] == dead_letters
        assert desk.grown == [QueueKey(desk.topic.topic_id, 2)]

    asyncio.run(main())


def test_only_selected_dead_letters_go_back_and_expired_ones_stay(desk: Desk) -> None:
    async def main() -> None:
        desk.fill(4)
        desk.fill(2, queue_id=1, expire_at=desk.clock.wall_ms() + 5_000)
        write_dead_letters(desk.store, "orders", 2, [0, 1], Death(error="ValueError: 1"))
        write_dead_letters(desk.store, "orders", 2, [2], Death(error="KeyError: 2", group="audit"))
        write_dead_letters(desk.store, "orders", 2, [3], Death(reason=DeadReason.CONSUME_ERROR, detail=UNDECODABLE))
        write_dead_letters(desk.store, "orders", 1, [0, 1], Death(reason=DeadReason.TTL_EXPIRED, error=""))
        audit = await desk.all(DeadSelection(group="audit"))
        assert (audit.dead_letters, audit.examined, audit.selected, audit.done) == (6, 6, 1, 1)
        desk.clock.advance(10)
        rest = await desk.all(DeadSelection(undecodable=False))
        assert (rest.selected, rest.done, rest.expired) == (4, 2, 2)
        assert desk.reader.topics() == {"orders": 3}
        dropped = await desk.all(drop=True)
        assert (dropped.selected, dropped.done) == (3, 3)
        assert desk.reader.topics() == {}

    asyncio.run(main())


def test_a_dry_run_counts_and_changes_nothing(desk: Desk) -> None:
    async def main() -> None:
        desk.fill()
        write_dead_letters(desk.store, "orders", 2, range(10))
        end = desk.store.log_end
        for drop in (False, True):
            plan = await desk.all(dry_run=True, drop=drop)
            assert (plan.state, plan.selected, plan.done) == ("done", 10, 0)
        assert desk.store.log_end == end

    asyncio.run(main())


def test_two_concurrent_redrives_send_each_dead_letter_once(desk: Desk) -> None:
    async def main() -> None:
        desk.fill(600)
        write_dead_letters(desk.store, "orders", 2, range(600))
        redrives = await asyncio.gather(*(desk.all() for _ in range(3)))
        assert sum(one.done for one in redrives) == 600
        for one in redrives:
            assert one.selected == one.done + one.gone
        assert sorted(m.message_id for m in desk.queue()[600:]) == sorted(m.message_id for m in desk.queue()[:600])

    asyncio.run(main())


def test_a_redrive_keeps_its_rate_and_can_be_cancelled(desk: Desk) -> None:
    async def main() -> None:
        desk.fill(100)
        write_dead_letters(desk.store, "orders", 2, range(100))
        redrive = desk.redrives.begin("orders", DeadSelection(), messages_per_s=50)
        await eventually(lambda: redrive.done == 5)  # a tenth of a second's worth; the clock does not advance
        desk.clock.advance(0.1)
        await eventually(lambda: redrive.done == 10)
        assert desk.redrives.cancel(redrive.redrive_id) is redrive
        await redrive.ended.wait()
        assert (redrive.state, redrive.done) == ("cancelled", 10)
        rest = await desk.all()
        assert rest.done == 90
        assert len(desk.queue()) == 200

    asyncio.run(main())


def test_a_redrive_continues_after_a_restart(tmp_path: Path) -> None:
    """A redriven dead letter stays redriven if the state is rebuilt from the log."""

    async def first() -> None:
        store = DiskStore(tmp_path, CONFIG, FakeClock())
        desk = Desk(store, FakeClock())
        desk.fill(20)
        write_dead_letters(store, "orders", 2, range(20))
        await desk.all(DeadSelection(message_ids=frozenset(f"m-{number}" for number in range(5))))
        await desk.all(DeadSelection(message_ids=frozenset({"m-5", "m-6"})), drop=True)
        store.close()

    async def second() -> None:
        store = DiskStore(tmp_path, CONFIG, FakeClock())
        desk = Desk(store, FakeClock())
        assert desk.reader.topics() == {"orders": 13}
        assert (await desk.all()).done == 13
        assert len(desk.queue()) == 38
        with pytest.raises(InvalidArgumentError, match="the broker was restarted"):
            desk.redrives.get(1)
        store.close()

    asyncio.run(first())
    asyncio.run(second())


def test_dead_letters_of_a_deleted_topic_stay(desk: Desk) -> None:
    async def main() -> None:
        desk.fill()
        write_dead_letters(desk.store, "orders", 2, range(3))
        desk.store.delete_topic("orders")
        with pytest.raises(TopicNotFoundError, match="litemq topic create orders"):
            desk.redrives.begin("orders", DeadSelection())
        desk.topic = desk.store.create_topic("orders", 2)  # fewer queues than before
        assert (await desk.all()).done == 3
        read = desk.store.read_queue(QueueKey(desk.topic.topic_id, 0), 0, 10)
        assert [one.message_id for one in decode_messages(bytes(read))] == ["m-0", "m-1", "m-2"]

    asyncio.run(main())


def test_the_number_of_running_redrives_is_bounded(desk: Desk) -> None:
    async def main() -> None:
        desk.fill(100)
        write_dead_letters(desk.store, "orders", 2, range(100))
        running = [desk.redrives.begin("orders", DeadSelection(), messages_per_s=1) for _ in range(8)]
        with pytest.raises(OverloadedError, match="8 redrives are running"):
            desk.redrives.begin("orders", DeadSelection())
        for redrive in running:
            desk.redrives.cancel(redrive.redrive_id)
        await asyncio.gather(*(redrive.ended.wait() for redrive in running))
        await asyncio.sleep(0)
        assert (await desk.all()).state == "done"

    asyncio.run(main())


def test_edited_records_replace_dead_letters(desk: Desk) -> None:
    async def main() -> None:
        desk.fill(3)
        dead_letters = write_dead_letters(desk.store, "orders", 2, range(3))
        template = RecordTemplate("orders")
        changed = b"".join(template.encode(b"mended", message_id=f"m-{number}") for number in range(3))
        assert await desk.redrives.send_edited("orders", dead_letters, changed) == [True, True, True]
        assert await desk.redrives.send_edited("orders", dead_letters, changed) == [False, False, False]
        assert [(one.message_id, one.body) for one in desk.queue()[3:]] == [
            (f"m-{number}", b"mended") for number in range(3)
        ]

    asyncio.run(main())


def test_edited_records_must_match_their_dead_letters(desk: Desk) -> None:
    async def main() -> None:
        desk.fill(3)
        dead_letters = write_dead_letters(desk.store, "orders", 2, range(3))
        end = desk.store.log_end
        orders, others = RecordTemplate("orders").encode(b"x"), RecordTemplate("others").encode(b"x")
        for offsets, batch, words in (
            ([], b"", "0 dead letters"),
            (dead_letters, orders, "1 records for 3"),
            (dead_letters[:1], others, "not of topic 'orders'"),
            ([dead_letters[0]] * 2, orders * 2, "named twice"),
            (list(range(1001)), orders, "1001 dead letters"),
        ):
            with pytest.raises(InvalidArgumentError, match=words):
                await desk.redrives.send_edited("orders", offsets, batch)
        desk.store.create_topic("others", 1)
        with pytest.raises(InvalidArgumentError, match="not of topic 'others'"):
            await desk.redrives.send_edited("others", dead_letters[:1], others)
        message = desk.queue()[0].commitlog_offset
        assert await desk.redrives.send_edited("orders", [message], orders) == [False]  # no dead letter is there
        assert desk.store.log_end >= end
        assert desk.reader.topics() == {"orders": 3}

    asyncio.run(main())


def test_a_dead_letter_has_the_original_record(desk: Desk) -> None:
    desk.fill(1)
    (at,) = write_dead_letters(desk.store, "orders", 2, [0], Death(stack="a stack"))
    dead_letter = desk.reader.read(at)
    assert isinstance(dead_letter, DeadLetter)
    assert dead_letter.original().record.message_id == "m-0"
    assert (dead_letter.history.stack, dead_letter.to_wire().error) == ("a stack", "ValueError: bad amount")
    assert desk.reader.read(desk.store.log_end) is None
