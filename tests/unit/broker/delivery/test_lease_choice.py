"""Grants: only messages that the filter accepts, and the highest priority first."""

import asyncio
from pathlib import Path

import pytest

from litemq.broker.delivery import granting
from litemq.clock import FakeClock
from litemq.errors import FilterSyntaxError
from litemq.format.record_encode import encode_record
from litemq.proto.wire_pb2 import CreateTopicRequest, Opcode, TopicSettings
from litemq.storage.state import QueueKey
from litemq.types import Record
from support.callers import Kind, running_broker
from support.leases import Got, Leaser
from support.waiting import HANG_S

KINDS = pytest.mark.parametrize("kind", ["memory", "disk"])


def _records(first: int, count: int, *, priority: int = 128) -> bytes:
    return b"".join(
        encode_record(
            Record("orders", message_id=str(n), tags=("AB"[n % 10 == 0],), properties={"n": str(n)}, priority=priority)
        )
        for n in range(first, first + count)
    )


def _numbers(got: list[Got]) -> list[int]:
    return [int(one.message_id) for one in got]


@KINDS
@pytest.mark.parametrize(("text", "is_sql"), [("B", False), ("n LIKE '%0'", True), ("tags = 'B' AND n >= 0", True)])
def test_messages_that_the_filter_rejects_count_as_consumed(
    kind: Kind, text: str, is_sql: bool, tmp_path: Path
) -> None:
    async def main() -> None:
        async with running_broker(kind, tmp_path) as broker:
            ann = Leaser(broker)
            await ann.create(queues=1)
            await ann.send(_records(0, 500))
            got: list[Got] = []
            for most in (7, 7, *[1000] * 100):
                some = await ann.ask_for(most, filter=text, filter_is_sql=is_sql, lease_ms=60_000)
                assert len(some) <= most
                got += some
                if not some:
                    break
            assert _numbers(got) == list(range(0, 500, 10))
            assert await ann.ack(*got[:-1]) == []
            offsets = broker.context.store.state.group_offsets
            assert offsets["billing", QueueKey(16, 0)] == 490
            assert await ann.ack(got[-1]) == []
            assert offsets["billing", QueueKey(16, 0)] == 500  # those behind the last one are done, too

    asyncio.run(main())


@KINDS
def test_a_request_with_a_filter_waits_for_a_match(kind: Kind, tmp_path: Path) -> None:
    async def main() -> None:
        async with running_broker(kind, tmp_path) as broker:
            ann, bob = Leaser(broker, "ann"), Leaser(broker, "bob")
            await ann.create(queues=1)
            waiting = bob.ask_for(10, filter="B", wait_ms=60_000)
            await asyncio.sleep(0)
            await ann.send(_records(1, 9))
            assert not waiting.done()
            await ann.send(_records(10, 1))
            assert _numbers(await asyncio.wait_for(waiting, HANG_S)) == [10]

    asyncio.run(main())


@pytest.mark.parametrize("wait_ms", [0, 60_000])
def test_a_long_scan_is_interrupted_and_continues(
    wait_ms: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Other requests run in between, and no answer is empty before the scan has reached the end."""
    monkeypatch.setattr(granting, "_LOOKING_SECONDS", 0)

    async def main() -> None:
        async with running_broker("memory", tmp_path) as broker:
            ann = Leaser(broker)
            await ann.create(queues=2)
            await ann.send(_records(1, 200))
            await ann.send(_records(1000, 1), queue_id=1)
            got = await asyncio.wait_for(ann.ask_for(5, filter="n > 999", filter_is_sql=True, wait_ms=wait_ms), HANG_S)
            assert _numbers(got) == [1000]

    asyncio.run(main())


def test_an_invalid_filter_is_refused_without_effect(tmp_path: Path) -> None:
    async def main() -> None:
        async with running_broker("memory", tmp_path) as broker:
            ann = Leaser(broker)
            await ann.create()
            with pytest.raises(FilterSyntaxError):
                await ann.ask_for(filter="n >", filter_is_sql=True)
            assert not broker.context.store.state.group_offsets

    asyncio.run(main())


@KINDS
def test_a_retried_message_matches_the_filter(kind: Kind, tmp_path: Path) -> None:
    async def main() -> None:
        async with running_broker(kind, tmp_path) as broker:
            ann = Leaser(broker)
            await ann.create(queues=1)
            await ann.send(_records(0, 5))
            (got,) = await ann.ask_for(filter="B")
            assert await ann.fail(got) == []
            (again,) = await ann.ask_for(filter="B")
            assert (again.message_id, again.tries) == ("0", 2)

    asyncio.run(main())


# Priorities ---------------------------------------------------------------------------------------


async def _with_priorities(asking: Leaser, *, weighted: bool = False) -> None:
    settings = TopicSettings(has_priorities=True, weighted_priorities=weighted)
    request = CreateTopicRequest(topic="orders", queues=2, settings=settings)
    await asking.channel.ask(Opcode.CREATE_TOPIC, request.SerializeToString())
    for queue in range(2):
        for number in range(8):
            base = 1000 * number + 100 * queue
            await asking.send(_records(base, 50, priority=number * 32), queue * 8 + number)


@KINDS
def test_the_highest_class_comes_first(kind: Kind, tmp_path: Path) -> None:
    async def main() -> None:
        async with running_broker(kind, tmp_path) as broker:
            ann = Leaser(broker)
            await _with_priorities(ann)
            classes: list[int] = []
            for most in (1, 30, 69, 33, 1000):
                classes += [number // 1000 for number in _numbers(await ann.ask_for(most))]
            assert classes == sorted(classes, reverse=True)
            assert len(classes) == 800
            await ann.send(_records(9000, 1, priority=255), 15)
            await ann.send(_records(1, 1, priority=0), 8)
            assert _numbers(await ann.ask_for(2)) == [9000, 1]

    asyncio.run(main())


def test_all_weighted_classes_get_their_share(tmp_path: Path) -> None:
    async def main() -> None:
        async with running_broker("memory", tmp_path) as broker:
            ann = Leaser(broker)
            await _with_priorities(ann, weighted=True)
            got = [number // 1000 for number in _numbers(await ann.ask_for(72))]
            assert [got.count(number) for number in range(8)] == [2 * (number + 1) for number in range(8)]

    asyncio.run(main())


def test_retries_come_before_all_priorities(tmp_path: Path) -> None:
    clock = FakeClock()

    async def main() -> None:
        async with running_broker("memory", tmp_path, clock=clock) as broker:
            ann = Leaser(broker)
            await _with_priorities(ann)
            got = await ann.ask_for(800)
            assert await ann.fail(got[-1], delay_ms=1000) == []
            await ann.send(_records(9000, 1, priority=255), 15)
            clock.advance(1.1)
            broker.context.ring_due()
            (again,) = await ann.ask_for(1)
            assert (again.message_id, again.is_retry) == (got[-1].message_id, True)

    asyncio.run(main())
