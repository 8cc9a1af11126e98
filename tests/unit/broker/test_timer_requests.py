"""Delayed messages that are cancelled, moved and looked at, at a broker."""

import asyncio
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import pytest

from litemq.broker.core import Broker
from litemq.clock import FakeClock
from litemq.errors import InvalidArgumentError, TopicNotFoundError
from litemq.format.view import views
from litemq.proto.wire_pb2 import CancelTimersAnswer, CancelTimersRequest, Opcode
from litemq.storage.state import QueueKey
from support.callers import Asking, Kind, records, running_broker

KINDS = pytest.mark.parametrize("kind", ["memory", "disk"])
DAY = 24 * 3_600_000
UNKNOWN, CANCELLED, DELIVERED, BEFORE = range(4)


def _run(test: Coroutine[Any, Any, None]) -> None:
    asyncio.run(test)


async def _ids(broker: Broker, topic_id: int = 16) -> list[str]:
    store = broker._store
    await store.confirmed(store.log_end)
    return [view.message_id for view in views(await store.pull(QueueKey(topic_id, 0), 0, 1000))]


async def _cancel(ann: Asking, *message_ids: str, topic: str = "orders") -> list[int]:
    request = CancelTimersRequest(topic=topic, message_ids=message_ids)
    answer = await ann.channel.ask(Opcode.CANCEL_TIMERS, request.SerializeToString())
    return list(CancelTimersAnswer.FromString(answer.header).outcomes)


@KINDS
def test_what_is_cancelled_never_fires(kind: Kind, tmp_path: Path) -> None:
    async def main() -> None:
        clock = FakeClock()
        async with running_broker(kind, tmp_path, clock=clock) as broker:
            ann = Asking(broker)
            await ann.create()
            await ann.send(records(4, delay_time=clock.wall_ms() + 1000))
            await ann.send(records(1, first=4, delay_time=clock.wall_ms() + 40 * DAY))
            assert await _cancel(ann, "m-1", "m-4", "other", "m-1") == [CANCELLED, CANCELLED, UNKNOWN, CANCELLED]
            assert broker._store.state.delivery.timers.count == 3
            clock.advance(1)
            await broker.fire_due()
            assert await _ids(broker) == ["m-0", "m-2", "m-3"]
            assert await _cancel(ann, "m-0", "m-1", "m-4") == [DELIVERED, BEFORE, BEFORE]
            clock.advance(100 * 24 * 3600)
            await broker.fire_due()
            assert await _ids(broker) == ["m-0", "m-2", "m-3"]
            assert broker._store.state.delivery.timers.count == 0

    _run(main())


@KINDS
def test_requests_of_one_turn_are_one_record(kind: Kind, tmp_path: Path) -> None:
    async def main() -> None:
        clock = FakeClock()
        async with running_broker(kind, tmp_path, clock=clock) as broker:
            ann = Asking(broker)
            await ann.create()
            await ann.send(records(20, delay_time=clock.wall_ms() + 1000))
            first = broker._store.state.next[QueueKey(1, 0)]
            asked = [_cancel(ann, f"m-{number % 20}") for number in range(40)]
            outcomes = [outcome for (outcome,) in await asyncio.gather(*asked)]
            assert sorted(outcomes) == [CANCELLED] * 20 + [BEFORE] * 20
            assert outcomes[:20] == [CANCELLED] * 20
            assert broker._store.state.next[QueueKey(1, 0)] - first <= 2
            clock.advance(2)
            await broker.fire_due()
            assert await _ids(broker) == []

    _run(main())


def test_cancelled_while_it_is_about_to_fire(tmp_path: Path) -> None:
    async def main() -> None:
        clock = FakeClock()
        async with running_broker("disk", tmp_path, clock=clock) as broker:
            ann = Asking(broker)
            await ann.create()
            await ann.send(records(2, delay_time=clock.wall_ms() + 1000))
            store = broker._store
            clock.advance(1)
            taken = store.timers.take(clock.wall_ms(), store.confirm_offset, 10)
            assert await _cancel(ann, "m-0") == [CANCELLED]
            read = store.read_pending(taken)
            assert await broker._timers._fire_some(taken) == 1
            assert len(read) == 2
            assert await _ids(broker) == ["m-1"]

    _run(main())


@KINDS
def test_what_fires_while_it_is_looked_up_was_delivered(kind: Kind, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        clock = FakeClock()
        async with running_broker(kind, tmp_path, clock=clock) as broker:
            ann = Asking(broker)
            await ann.create()
            await ann.send(records(2, delay_time=clock.wall_ms() + 1000))
            loop = asyncio.get_running_loop()
            store = broker._store
            found = store.timers_among
            fired: list[int] = []

            def among(dues: Any, pendings: Any) -> Any:
                live = found(dues, pendings)
                if not fired:
                    clock.advance(1)
                    fired.append(asyncio.run_coroutine_threadsafe(broker.fire_due(), loop).result(10))
                return live

            monkeypatch.setattr(store, "timers_among", among)
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


def test_cancelled_for_ever_whatever_happens(tmp_path: Path) -> None:
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
