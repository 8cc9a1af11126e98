"""Delayed messages at a broker: fired once, when they are due, in the queue they were sent to."""

import asyncio
import logging
from collections.abc import Coroutine, Sequence
from pathlib import Path
from threading import current_thread, main_thread
from typing import Any

import pytest

from litemq.broker.broker import Broker
from litemq.clock import FakeClock
from litemq.errors import DiskFullError, InvalidArgumentError, StoreFailedError
from litemq.format.record_decode import decode_record
from litemq.proto.wire_pb2 import Opcode, PullAnswer, PullRequest, TopicRequest
from litemq.storage.files.disk import OpenFile
from litemq.storage.log.commitlog import CommitLog
from litemq.storage.state import QueueKey
from litemq.storage.timers.entries import Timer
from litemq.types import Durability, RecordKind, StoredRecord
from support.callers import Asking, Kind, records, running_broker

KINDS = pytest.mark.parametrize("kind", ["memory", "disk"])
DAY = 24 * 3_600_000


def _run(test: Coroutine[Any, Any, None]) -> None:
    asyncio.run(test)


async def _read(broker: Broker, queue_id: int = 0, topic_id: int = 16) -> list[StoredRecord]:
    store = broker.context.store
    await store.confirmed(store.log_end)
    data = await store.pull(QueueKey(topic_id, queue_id), 0, 1000)
    found = []
    at = 0
    while at < len(data):
        found.append(decode_record(data, at))
        at += found[-1].size
    return found


async def _ids(broker: Broker, queue_id: int = 0) -> list[str]:
    return [stored.record.message_id for stored in await _read(broker, queue_id)]


@KINDS
def test_a_due_message_is_fired_with_its_waiting_record_as_origin(kind: Kind, tmp_path: Path) -> None:
    async def main() -> None:
        clock = FakeClock()
        async with running_broker(kind, tmp_path, clock=clock) as broker:
            ann = Asking(broker)
            await ann.create()
            due = clock.wall_ms() + 10_000
            sent = records(producer_id=7, delay_time=due)
            answer = await ann.send(sent, 2)
            assert (answer.queue_offset, list(answer.earlier)) == (-1, [])  # all of it waits: the answer is short
            clock.advance(9.999)
            assert await broker.fire_due() == 0
            assert await _read(broker, 2) == []
            clock.advance(0.001)
            assert await broker.fire_due() >= 1
            (fired,) = await _read(broker, 2)
            assert fired.stamp is not None
            assert (fired.stamp.kind, fired.stamp.origin >= 0, fired.record.delay_time) == (RecordKind.FIRED, True, due)
            assert broker.context.store.read_record(fired.stamp.origin).record == fired.record
            clock.advance(3600)
            await broker.fire_due()
            assert len(await _read(broker, 2)) == 1
            # A repeated send is neither stored nor delayed again.
            again = await ann.send(sent, 2)
            assert ([earlier.queue_offset for earlier in again.earlier], again.queue_offset) == ([-1], -1)
            assert broker.context.store.state.parts.timers.count == 0

    _run(main())


@KINDS
def test_a_past_due_time_is_appended_at_once(kind: Kind, tmp_path: Path) -> None:
    async def main() -> None:
        clock = FakeClock()
        async with running_broker(kind, tmp_path, clock=clock) as broker:
            ann = Asking(broker)
            await ann.create()
            now = clock.wall_ms()
            for due in (now, now - 1, 5):
                await ann.send(records(delay_time=due, message_type=1))
            assert [stored.stamp.kind for stored in await _read(broker) if stored.stamp] == [RecordKind.MESSAGE] * 3

    _run(main())


@KINDS
def test_timers_fire_in_the_order_of_their_due_times(kind: Kind, tmp_path: Path) -> None:
    async def main() -> None:
        clock = FakeClock()
        async with running_broker(kind, tmp_path, clock=clock) as broker:
            ann = Asking(broker)
            await ann.create()
            now = clock.wall_ms()
            for number in range(50):
                await ann.send(records(60, first=60 * number, delay_time=now + 1000 + 37 * number % 50))
            clock.advance(2)
            await broker.fire_due()
            dues = [stored.record.delay_time for stored in await _read(broker)]
            assert dues == sorted(dues)
            assert broker.context.store.state.end_offsets[QueueKey(16, 0)] == 3000

    _run(main())


@pytest.mark.parametrize("there", [True, False])
def test_old_timers_are_read_without_blocking_the_loop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, there: bool
) -> None:
    """Records in the page cache are read at once, others by a thread."""
    on_the_loop: list[bool] = []

    async def main() -> None:
        clock = FakeClock()
        async with running_broker("disk", tmp_path, clock=clock) as broker:
            store = broker.context.store
            monkeypatch.setattr(CommitLog, "is_hot", lambda *_: False)
            read = store.read_pending

            def recorded_read(timers: Sequence[Timer]) -> list[bytes]:
                on_the_loop.append(current_thread() is main_thread())
                return read(timers)

            monkeypatch.setattr(store, "read_pending", recorded_read)
            if not there:
                monkeypatch.setattr(OpenFile, "read_if_cached", lambda *_: None)
            ann = Asking(broker)
            await ann.create()
            await ann.send(records(60, delay_time=clock.wall_ms() + 1000))
            clock.advance(2)
            await broker.fire_due()
            assert len(await _read(broker)) == 60

    _run(main())
    assert on_the_loop == ([] if there else [False])


def test_a_restarted_broker_fires_overdue_timers(tmp_path: Path) -> None:
    async def main() -> None:
        clock = FakeClock()
        async with running_broker("disk", tmp_path, clock=clock) as broker:
            ann = Asking(broker)
            await ann.create()
            for number, days in enumerate((1, 2, 30, 200)):
                await ann.send(records(first=number, delay_time=clock.wall_ms() + days * DAY))
        clock.advance(40 * 24 * 3600)
        async with running_broker("disk", tmp_path, clock=clock) as broker:
            await broker.fire_due()
            assert await _ids(broker) == ["m-0", "m-1", "m-2"]
        clock.advance(161 * 24 * 3600)
        async with running_broker("disk", tmp_path, clock=clock) as broker:
            await broker.fire_due()
            assert await _ids(broker) == ["m-0", "m-1", "m-2", "m-3"]

    _run(main())


def test_a_fired_message_answers_a_waiting_pull(tmp_path: Path) -> None:
    async def main() -> None:
        clock = FakeClock()
        async with running_broker("disk", tmp_path, clock=clock) as broker:
            ann = Asking(broker)
            await ann.create()
            request = PullRequest(topic="orders", queue_id=0, offset=0, max_messages=10, wait_ms=60_000)
            pulled = asyncio.ensure_future(ann.channel.ask(Opcode.PULL, request.SerializeToString()))
            await ann.send(records(delay_time=clock.wall_ms() + 5000))
            assert not pulled.done()
            clock.advance(5)
            answer = await pulled  # the loop looks by itself
            assert PullAnswer.FromString(answer.header).range.next == 1
            assert decode_record(answer.attachment).record.message_id == "m-0"

    _run(main())


@KINDS
def test_timers_of_a_deleted_topic_end(kind: Kind, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        clock = FakeClock()
        async with running_broker(kind, tmp_path, clock=clock) as broker:
            ann = Asking(broker)
            await ann.create()
            await ann.create("payments")
            due = clock.wall_ms() + 1000
            await ann.send(records(delay_time=due))
            await ann.send(records(delay_time=due, topic="payments"), topic="payments")
            await ann.channel.ask(Opcode.DELETE_TOPIC, TopicRequest(topic="payments").SerializeToString())
            clock.advance(1)
            with caplog.at_level(logging.CRITICAL, "litemq"):
                await broker.fire_due()
            assert await _ids(broker) == ["m-0"]
            assert broker.context.store.state.parts.timers.count == 0

    _run(main())


def test_firing_is_retried_after_a_failure(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        clock = FakeClock()
        async with running_broker("memory", tmp_path, clock=clock) as broker:
            ann = Asking(broker)
            await ann.create()
            await ann.send(records(delay_time=clock.wall_ms() + 1000))
            append = broker.context.store.append_placed

            def failing(_placed: object) -> object:
                raise DiskFullError("no space")

            broker.context.store.append_placed = failing  # type: ignore[method-assign,assignment]
            clock.advance(1)
            with pytest.raises(DiskFullError):
                await broker.fire_due()
            broker.context.store.append_placed = append  # type: ignore[method-assign]
            assert await broker.fire_due() == 1
            assert await _ids(broker) == ["m-0"]

    _run(main())


def test_delays_and_the_bytes_of_timers_are_limited(tmp_path: Path) -> None:
    async def main() -> None:
        clock = FakeClock()
        async with running_broker("memory", tmp_path, clock=clock) as broker:
            ann = Asking(broker)
            await ann.create()
            with pytest.raises(InvalidArgumentError, match="365 days"):
                await ann.send(records(delay_time=clock.wall_ms() + 366 * DAY))
            with pytest.raises(InvalidArgumentError, match="365 days"):
                await ann.send(records(delay_time=clock.wall_ms() + 366 * DAY) + records())
            await ann.send(records(delay_time=clock.wall_ms() + 365 * DAY))
            broker.context.store.timer_bytes_left = 100  # type: ignore[misc]
            delayed, plain = await asyncio.gather(
                ann.send(records(delay_time=clock.wall_ms() + DAY)), ann.send(records()), return_exceptions=True
            )
            assert isinstance(delayed, DiskFullError)
            assert not isinstance(plain, BaseException)

    _run(main())


@pytest.mark.parametrize("level", list(Durability)[:3])
def test_delayed_messages_of_every_durability(level: Durability, tmp_path: Path) -> None:
    async def main() -> None:
        clock = FakeClock()
        async with running_broker("disk", tmp_path, clock=clock) as broker:
            ann = Asking(broker)
            await ann.create()
            both = records(delay_time=clock.wall_ms() + 1000, level=level) + records(first=1, level=level)
            answer = await ann.send(both)
            places = [earlier.queue_offset for earlier in answer.earlier]
            assert (places, answer.queue_offset) == ([-1, 0] if level else [], -1)
            await broker.context.store.confirmed(broker.context.store.log_end)
            clock.advance(1)
            await broker.fire_due()
            assert await _ids(broker) == ["m-1", "m-0"]

    _run(main())


def test_a_closed_broker_fires_nothing(tmp_path: Path) -> None:
    async def main() -> None:
        clock = FakeClock()
        async with running_broker("memory", tmp_path, clock=clock) as broker:
            ann = Asking(broker)
            await ann.create()
            await ann.send(records(delay_time=clock.wall_ms() + 1000))
            broker.close()
            clock.advance(1)
            assert await broker.fire_due() == 0

    _run(main())


def test_the_failure_of_a_store_is_logged_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        clock = FakeClock()
        async with running_broker("memory", tmp_path, clock=clock) as broker:
            ann = Asking(broker)
            await ann.create()
            await ann.send(records(delay_time=clock.wall_ms() + 1000))
            broker.context.store.close()
            clock.advance(1)
            with pytest.raises(StoreFailedError):
                await broker.fire_due()
            await broker._timer_firing._task.run()
            await broker._timer_firing._task.run()
            assert caplog.text.count("timers were not fired") == 1

    _run(main())
