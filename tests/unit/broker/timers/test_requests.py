"""Requests about delayed messages: cancel, reschedule, describe, list."""

import asyncio
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import pytest

from litemq.broker.broker import Broker
from litemq.broker.limits import BrokerLimits
from litemq.broker.timers.lookup import TimerLookup
from litemq.clock import FakeClock
from litemq.errors import (
    CorruptStoreError,
    InvalidArgumentError,
    OffsetOutOfRangeError,
    OverloadedError,
    StorageError,
    TimerEndedError,
    TimerNotFoundError,
    TooManyTimerChangesError,
    TopicNotFoundError,
)
from litemq.format.record_encode import RecordTemplate
from litemq.format.record_view import record_views
from litemq.format.timer_batches import BATCH_ID
from litemq.proto.wire_pb2 import (
    CancelTimersAnswer,
    CancelTimersRequest,
    ListTimersRequest,
    Opcode,
    RescheduleRequest,
    TimerBatchRequest,
    TimerFacts,
    TimerRequest,
    TimersAnswer,
)
from litemq.storage.disk_store import DiskStore
from litemq.storage.state import CONTROL_TOPIC_ID, QueueKey
from support.callers import Asking, Kind, records, running_broker
from support.garbage import no_error_in_cycles
from support.waiting import HANG_S

KINDS = pytest.mark.parametrize("kind", ["memory", "disk"])
DAY = 24 * 3_600_000
UNKNOWN, CANCELLED, DELIVERED, BEFORE = range(4)


def _run(test: Coroutine[Any, Any, None]) -> None:
    asyncio.run(test)


async def _ids(broker: Broker, topic_id: int = 16) -> list[str]:
    store = broker.context.store
    await store.confirmed(store.log_end)
    key = QueueKey(topic_id, 0)
    return [
        view.message_id for view in record_views(await store.pull(key, store.state.start_offsets.get(key, 0), 1000))
    ]


async def _cancel(ann: Asking, *message_ids: str, topic: str = "orders") -> list[int]:
    request = CancelTimersRequest(topic=topic, message_ids=message_ids)
    answer = await ann.channel.ask(Opcode.CANCEL_TIMERS, request.SerializeToString())
    return list(CancelTimersAnswer.FromString(answer.header).outcomes)


async def _move(ann: Asking, message_id: str, due: int) -> TimerFacts:
    request = RescheduleRequest(topic="orders", message_id=message_id, due=due)
    answer = await ann.channel.ask(Opcode.RESCHEDULE_TIMER, request.SerializeToString())
    return TimersAnswer.FromString(answer.header).timers[0]


async def _cancel_batch(ann: Asking, batch_id: str) -> None:
    await ann.channel.ask(
        Opcode.CANCEL_TIMER_BATCH, TimerBatchRequest(topic="orders", batch_id=batch_id).SerializeToString()
    )


async def _describe(ann: Asking, message_id: str) -> TimerFacts:
    answer = await ann.channel.ask(
        Opcode.DESCRIBE_TIMER, TimerRequest(topic="orders", message_id=message_id).SerializeToString()
    )
    return TimersAnswer.FromString(answer.header).timers[0]


async def _page(ann: Asking, **wanted: Any) -> TimersAnswer:
    request = ListTimersRequest(**{"topic": "orders", "most": 100, **wanted})
    return TimersAnswer.FromString((await ann.channel.ask(Opcode.LIST_TIMERS, request.SerializeToString())).header)


def _batch_record(batch_id: str, first: int, count: int, delay_time: int, **more: Any) -> bytes:
    template = RecordTemplate("orders", properties={BATCH_ID: batch_id})
    return b"".join(
        template.encode(b"x", message_id=f"m-{number}", sequence=0, delay_time=delay_time, **more)
        for number in range(first, first + count)
    )


@KINDS
def test_a_cancelled_message_never_fires(kind: Kind, tmp_path: Path) -> None:
    async def main() -> None:
        clock = FakeClock()
        async with running_broker(kind, tmp_path, clock=clock) as broker:
            ann = Asking(broker)
            await ann.create()
            await ann.send(records(4, delay_time=clock.wall_ms() + 1000))
            await ann.send(records(1, first=4, delay_time=clock.wall_ms() + 40 * DAY))
            assert await _cancel(ann, "m-1", "m-4", "other", "m-1") == [CANCELLED, CANCELLED, UNKNOWN, CANCELLED]
            assert broker.context.store.state.parts.timers.count == 3
            clock.advance(1)
            await broker.fire_due()
            assert await _ids(broker) == ["m-0", "m-2", "m-3"]
            assert await _cancel(ann, "m-0", "m-1", "m-4") == [DELIVERED, BEFORE, BEFORE]
            clock.advance(100 * 24 * 3600)
            await broker.fire_due()
            assert await _ids(broker) == ["m-0", "m-2", "m-3"]
            assert broker.context.store.state.parts.timers.count == 0

    _run(main())


@KINDS
def test_cancels_of_one_tick_are_one_record(kind: Kind, tmp_path: Path) -> None:
    async def main() -> None:
        clock = FakeClock()
        async with running_broker(kind, tmp_path, clock=clock) as broker:
            ann = Asking(broker)
            await ann.create()
            await ann.send(records(20, delay_time=clock.wall_ms() + 1000))
            first = broker.context.store.state.end_offsets[QueueKey(CONTROL_TOPIC_ID, 0)]
            asked = [_cancel(ann, f"m-{number % 20}") for number in range(40)]
            outcomes = [outcome for (outcome,) in await asyncio.gather(*asked)]
            assert sorted(outcomes) == [CANCELLED] * 20 + [BEFORE] * 20
            assert outcomes[:20] == [CANCELLED] * 20
            assert broker.context.store.state.end_offsets[QueueKey(CONTROL_TOPIC_ID, 0)] - first <= 2
            clock.advance(2)
            await broker.fire_due()
            assert await _ids(broker) == []

    _run(main())


def test_a_message_may_be_cancelled_while_it_is_about_to_fire(tmp_path: Path) -> None:
    async def main() -> None:
        clock = FakeClock()
        async with running_broker("disk", tmp_path, clock=clock) as broker:
            ann = Asking(broker)
            await ann.create()
            await ann.send(records(2, delay_time=clock.wall_ms() + 1000))
            store = broker.context.store
            clock.advance(1)
            taken = store.timers.take(clock.wall_ms(), store.confirm_offset, 10)
            assert await _cancel(ann, "m-0") == [CANCELLED]
            assert await broker._timer_firing._fire_some(taken) == 1
            assert await _ids(broker) == ["m-1"]

    _run(main())


@KINDS
def test_a_message_that_fires_during_the_look_up_is_delivered(
    kind: Kind, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> None:
        clock = FakeClock()
        async with running_broker(kind, tmp_path, clock=clock) as broker:
            ann = Asking(broker)
            await ann.create()
            await ann.send(records(2, delay_time=clock.wall_ms() + 1000))
            loop = asyncio.get_running_loop()
            store = broker.context.store
            found = store.are_timers_pending
            fired: list[int] = []

            def among(dues: Any, pendings: Any) -> Any:
                live = found(dues, pendings)
                if not fired:
                    clock.advance(1)
                    fired.append(asyncio.run_coroutine_threadsafe(broker.fire_due(), loop).result(HANG_S))
                return live

            monkeypatch.setattr(store, "are_timers_pending", among)
            assert await _cancel(ann, "m-0", "m-1") == [DELIVERED, DELIVERED]
            assert fired
            assert await _ids(broker) == ["m-0", "m-1"]

    _run(main())


@KINDS
def test_requests_are_bounded(kind: Kind, tmp_path: Path) -> None:
    async def main() -> None:
        async with running_broker(kind, tmp_path, clock=FakeClock()) as broker:
            ann = Asking(broker)
            await ann.create()
            for wrong in ([], ["x"] * 1001, [""], ["x" * 300]):
                with pytest.raises(InvalidArgumentError):
                    await _cancel(ann, *wrong)
            with pytest.raises(TopicNotFoundError):
                await _cancel(ann, "m-0", topic="others")
            await ann.send(records(1))
            assert await _cancel(ann, "m-0") == [DELIVERED]

    _run(main())


def test_a_cancel_survives_a_restart(tmp_path: Path) -> None:
    async def main() -> None:
        clock = FakeClock()
        async with running_broker("disk", tmp_path, clock=clock) as broker:
            ann = Asking(broker)
            await ann.create()
            await ann.send(records(3, delay_time=clock.wall_ms() + 5 * DAY))
            assert await _cancel(ann, "m-1") == [CANCELLED]
        async with running_broker("disk", tmp_path, clock=clock) as broker:
            ann = Asking(broker)
            assert await _cancel(ann, "m-1", "m-2") == [BEFORE, CANCELLED]
            clock.advance(6 * 24 * 3600)
            await broker.fire_due()
            assert await _ids(broker) == ["m-0"]

    _run(main())


@KINDS
def test_a_moved_message_fires_at_its_last_due_time(kind: Kind, tmp_path: Path) -> None:
    async def main() -> None:
        clock = FakeClock()
        async with running_broker(kind, tmp_path, clock=clock) as broker:
            ann = Asking(broker)
            await ann.create()
            now = clock.wall_ms()
            await ann.send(records(3, delay_time=now + 10_000))
            assert (await _move(ann, "m-0", now + 40 * DAY)).due == now + 40 * DAY
            moved = await _move(ann, "m-1", now + 5_000)
            assert (moved.state, moved.due, moved.delay_time) == (1, now + 5_000, now + 10_000)
            clock.advance(5)
            await broker.fire_due()
            assert await _ids(broker) == ["m-1"]
            clock.advance(5)
            await broker.fire_due()
            assert await _ids(broker) == ["m-1", "m-2"]
            await _move(ann, "m-0", 0)  # past: at once
            await broker.fire_due()
            assert await _ids(broker) == ["m-1", "m-2", "m-0"]
            clock.advance(50 * 24 * 3600)
            await broker.fire_due()
            assert len(await _ids(broker)) == 3
            state = broker.context.store.state.parts
            assert (state.timers.count, len(state.moved_timers)) == (0, 0)
            with pytest.raises(TimerEndedError, match="delivered"):
                await _move(ann, "m-0", clock.wall_ms())
            with pytest.raises(TimerNotFoundError):
                await _move(ann, "m-9", clock.wall_ms())

    _run(main())


@KINDS
def test_a_moved_message_can_be_cancelled(kind: Kind, tmp_path: Path) -> None:
    async def main() -> None:
        clock = FakeClock()
        async with running_broker(kind, tmp_path, clock=clock) as broker:
            ann = Asking(broker)
            await ann.create()
            await ann.send(records(1, delay_time=clock.wall_ms() + 10_000))
            await _move(ann, "m-0", clock.wall_ms() + 2_000)
            same, other = await asyncio.gather(
                _move(ann, "m-0", clock.wall_ms() + 2_000), _move(ann, "m-0", clock.wall_ms() + 30 * DAY)
            )
            assert same.due != other.due
            assert await _cancel(ann, "m-0") == [CANCELLED]
            with pytest.raises(TimerEndedError, match="cancelled"):
                await _move(ann, "m-0", clock.wall_ms())
            clock.advance(31 * 24 * 3600)
            await broker.fire_due()
            assert await _ids(broker) == []
            assert broker.context.store.state.parts.timers.count == 0

    _run(main())


@KINDS
def test_moves_are_limited(kind: Kind, tmp_path: Path) -> None:
    async def main() -> None:
        clock = FakeClock()
        async with running_broker(kind, tmp_path, BrokerLimits(max_moved_timers=1), clock) as broker:
            ann = Asking(broker)
            await ann.create()
            now = clock.wall_ms()
            await ann.send(records(2, delay_time=now + 1000))
            await ann.send(records(1, first=2, delay_time=now + 1000, expire_at=now + 5000))
            with pytest.raises(InvalidArgumentError, match="365 days"):
                await _move(ann, "m-0", now + 366 * DAY)
            with pytest.raises(InvalidArgumentError, match="time to live"):
                await _move(ann, "m-2", now + 5000)
            await _move(ann, "m-0", now + 365 * DAY)
            await _move(ann, "m-0", now + 300 * DAY)
            with pytest.raises(TooManyTimerChangesError, match="send it again"):
                await _move(ann, "m-1", now + DAY)
            assert await _cancel(ann, "m-0") == [CANCELLED]
            await _move(ann, "m-1", now + DAY)

    _run(main())


@KINDS
def test_a_batch_is_cancelled_by_one_record(kind: Kind, tmp_path: Path) -> None:
    async def main() -> None:
        clock = FakeClock()
        async with running_broker(kind, tmp_path, BrokerLimits(max_cancelled_batches=1), clock) as broker:
            ann = Asking(broker)
            await ann.create()
            due = clock.wall_ms() + 1000
            await ann.send(_batch_record("b", 0, 3, due))
            await ann.send(_batch_record("other", 3, 1, due))
            first = broker.context.store.state.end_offsets[QueueKey(CONTROL_TOPIC_ID, 0)]
            await _cancel_batch(ann, "b")
            assert broker.context.store.state.end_offsets[QueueKey(CONTROL_TOPIC_ID, 0)] == first + 1
            await ann.send(_batch_record("b", 4, 1, due))
            assert (await _describe(ann, "m-0")).state == 3
            assert [timer.message_id for timer in (await _page(ann)).timers] == ["m-3", "m-4"]
            with pytest.raises(TimerEndedError):
                await _move(ann, "m-1", due)
            with pytest.raises(TooManyTimerChangesError, match="by their ids"):
                await _cancel_batch(ann, "other")
            with pytest.raises(InvalidArgumentError):
                await _cancel_batch(ann, "")
            clock.advance(2)
            await broker.fire_due()
            assert await _ids(broker) == ["m-3", "m-4"]
            # Those that did not fire were ended by one record.
            assert broker.context.store.state.end_offsets[QueueKey(CONTROL_TOPIC_ID, 0)] == first + 2
            assert broker.context.store.state.parts.timers.count == 0
            assert await _cancel(ann, "m-0", "m-4") == [BEFORE, DELIVERED]

    _run(main())


def test_a_cancelled_batch_is_not_carried_forward(tmp_path: Path) -> None:
    async def main() -> None:
        clock = FakeClock()
        async with running_broker("disk", tmp_path, clock=clock) as broker:
            ann = Asking(broker)
            await ann.create()
            store = broker.context.store
            assert isinstance(store, DiskStore)
            await ann.send(_batch_record("b", 0, 3, clock.wall_ms() + 5 * DAY))
            await ann.send(records(2, first=3, delay_time=clock.wall_ms() + 5 * DAY))
            await _move(ann, "m-0", clock.wall_ms() + 2 * DAY)
            await _move(ann, "m-3", clock.wall_ms() + DAY)
            await _cancel_batch(ann, "b")
            for _ in range(3):
                await ann.send(records(1, first=99, body=bytes(3_000_000)))
            store.retain(max_bytes=1 << 20)
            delivery = store.state.parts
            assert (delivery.timers.count, len(delivery.moved_timers)) == (2, 1)
            assert await _cancel(ann, "m-0", "m-3") == [UNKNOWN, CANCELLED]
            clock.advance(6 * 24 * 3600)
            await broker.fire_due()
            assert await _cancel(ann, "m-3", "m-4") == [BEFORE, DELIVERED]
            assert delivery.timers.count == 0

    _run(main())


@KINDS
def test_timers_are_listed_in_pages(kind: Kind, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        monkeypatch.setattr("litemq.broker.timers.listing._LOOKED_AT", 5)
        clock = FakeClock()
        async with running_broker(kind, tmp_path, clock=clock) as broker:
            ann = Asking(broker)
            await ann.create()
            await ann.create("payments")
            now = clock.wall_ms()
            for number in range(12):
                days = 40 - number
                await ann.send(records(1, first=number, delay_time=now + days * DAY))
                await ann.send(
                    records(1, first=number, topic="payments", delay_time=now + days * DAY), topic="payments"
                )
            found: list[str] = []
            page, pages = TimersAnswer(next_pending=-1), 0
            while not page.is_end:
                page = await _page(ann, after_due=page.next_due, after_pending=page.next_pending, most=2)
                found += [timer.message_id for timer in page.timers]
                pages += 1
                assert len(page.timers) <= 2
            assert found == [f"m-{number}" for number in reversed(range(12))]
            assert pages >= 5
            counted = await _page(ann, count_only=True, most=0, until=now + 31 * DAY)
            assert (counted.count, len(counted.timers), counted.is_end) == (2, 0, True)
            with_key = await _page(ann, key="m-3")
            assert ([timer.message_id for timer in with_key.timers], with_key.is_end) == (["m-3"], True)
            # With more timers of a key than the limit, the broker searches in order.
            monkeypatch.setattr("litemq.broker.timers.listing._MAX_WITH_KEY", 1)
            with_key = await _page(ann, key="m-3", since=now + 36 * DAY)
            assert [timer.message_id for timer in with_key.timers] == ["m-3"]
            for wrong in ({"most": 0}, {"key": "k" * 256}, {"batch_id": "b" * 256}):
                with pytest.raises(InvalidArgumentError):
                    await _page(ann, **wrong)

    _run(main())


@KINDS
def test_unconfirmed_and_damaged_messages_are_not_listed(
    kind: Kind, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> None:
        clock = FakeClock()
        async with running_broker(kind, tmp_path, clock=clock) as broker:
            ann = Asking(broker)
            await ann.create()
            await ann.send(records(3, delay_time=clock.wall_ms() + DAY))
            store = broker.context.store
            read = store.read_raw
            offsets: list[int] = []

            def reading(log_offset: int) -> bytes:
                offsets.append(log_offset)
                if len(offsets) == 1:
                    raise OffsetOutOfRangeError("gone")
                if len(offsets) == 2:
                    raise CorruptStoreError("log", 0, "a bit")
                return read(log_offset)

            monkeypatch.setattr(store, "read_raw", reading)
            page = await _page(ann)
            assert ([timer.message_id for timer in page.timers], page.is_end) == (["m-2"], True)

    _run(main())


def test_a_message_may_be_carried_forward_while_it_is_described(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> None:
        clock = FakeClock()
        async with running_broker("disk", tmp_path, clock=clock) as broker:
            ann = Asking(broker)
            await ann.create()
            store = broker.context.store
            assert isinstance(store, DiskStore)
            await ann.send(records(1, delay_time=clock.wall_ms() + DAY))
            for _ in range(3):
                await ann.send(records(1, first=99, body=bytes(3_000_000)))
            read, places = store.read_raw, list[int]()

            def reading(log_offset: int) -> bytes:
                places.append(log_offset)
                if len(places) == 1:
                    store.retain(max_bytes=1 << 20)
                return read(log_offset)

            monkeypatch.setattr(store, "read_raw", reading)
            described = await _describe(ann, "m-0")
            assert (described.state, described.pending, len(places)) == (1, places[1], 2)

    _run(main())


def test_a_message_may_be_carried_forward_during_the_look_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        clock = FakeClock()
        async with running_broker("disk", tmp_path, clock=clock) as broker:
            ann = Asking(broker)
            await ann.create()
            store = broker.context.store
            assert isinstance(store, DiskStore)
            await ann.send(records(1, delay_time=clock.wall_ms() + DAY))
            for _ in range(3):
                await ann.send(records(1, first=99, body=bytes(3_000_000)))
            find, looked = store._parts.finder.find, list[int]()

            def finding(topic: str, key: str, most: int, confirmed: int, *more: Any, **options: Any) -> Any:
                if not looked:
                    store.retain(max_bytes=1 << 20)
                looked.append(confirmed)  # as it was before that
                return find(topic, key, most, confirmed, *more, **options)

            monkeypatch.setattr(store._parts.finder, "find", finding)
            assert await _cancel(ann, "m-0") == [CANCELLED]

    _run(main())


def test_a_batch_may_be_cancelled_while_one_of_its_messages_is_moved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> None:
        clock = FakeClock()
        async with running_broker("disk", tmp_path, clock=clock) as broker:
            ann = Asking(broker)
            await ann.create()
            await ann.send(_batch_record("b", 0, 1, clock.wall_ms() + DAY))
            loop, find = asyncio.get_running_loop(), TimerLookup.find

            def finding(lookup: TimerLookup, names: Any) -> Any:
                found = find(lookup, names)
                asyncio.run_coroutine_threadsafe(_cancel_batch(ann, "b"), loop).result(HANG_S)
                return found

            monkeypatch.setattr(TimerLookup, "find", finding)
            with pytest.raises(TimerEndedError, match="with its batch"):
                await _move(ann, "m-0", clock.wall_ms() + 2 * DAY)

    _run(main())


def test_the_error_of_a_failed_look_up_is_answered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        clock = FakeClock()
        async with running_broker("memory", tmp_path, clock=clock) as broker:
            ann = Asking(broker)
            await ann.create()
            await ann.send(records(1, delay_time=clock.wall_ms() + DAY))

            def failing(*_: object) -> object:
                raise RuntimeError("a bug")

            monkeypatch.setattr(broker.context.store, "are_timers_pending", failing)
            with pytest.raises(StorageError):
                await _cancel(ann, "m-0")
            monkeypatch.setattr("litemq.broker.timers.changes._MAX_NAMES", 0)
            with pytest.raises(OverloadedError):
                await _cancel(ann, "m-0")
            monkeypatch.undo()
            assert await _cancel(ann, "m-0") == [CANCELLED]

    _run(main())


@KINDS
def test_refused_requests_leave_no_error_in_a_cycle(kind: Kind, tmp_path: Path) -> None:
    async def main() -> None:
        clock = FakeClock()
        async with running_broker(kind, tmp_path, clock=clock) as broker:
            ann = Asking(broker)
            await ann.create()
            await ann.send(records(2, delay_time=clock.wall_ms() + DAY))
            await _cancel(ann, "m-0")
            refused = await asyncio.gather(
                _move(ann, "m-0", clock.wall_ms() + DAY),
                _move(ann, "nobody", clock.wall_ms() + DAY),
                _page(ann, most=0),
                _page(ann, key="x" * 10_000),
                return_exceptions=True,
            )
            assert [type(error) for error in refused] == [
                TimerEndedError,
                TimerNotFoundError,
                InvalidArgumentError,
                InvalidArgumentError,
            ]
            del refused

    with no_error_in_cycles():
        _run(main())
