"""Visibility ``received``: groups read what is not synced yet, in both modes; all others wait."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from litemq.broker.broker import Broker
from litemq.format.record_encode import encode_record
from litemq.net.request_channel import Answer
from litemq.proto.wire_pb2 import (
    AlterTopicRequest,
    CreateTopicRequest,
    GroupAssignment,
    JoinRequest,
    Opcode,
    PullRequest,
    TopicSettings,
)
from litemq.storage.disk_store import DiskStore
from litemq.types import Durability, Record, Visibility
from support.callers import queue_offsets, records, running_broker
from support.gated_disk import GatedDisk
from support.leases import Leaser
from support.waiting import HANG_S, eventually

MEMORY = Durability.MEMORY


class _Member(Leaser):
    """A client that reads the topic's only queue, as a member of a group or without one."""

    generation = 0

    async def join(self) -> str:
        """Join the group; return the id that changes whenever members must read again."""
        request = JoinRequest(group="billing", topic="orders", member="ann", session_timeout_ms=60_000)
        answer = await self.channel.ask(Opcode.JOIN_GROUP, request.SerializeToString())
        assignment = GroupAssignment.FromString(answer.header)
        self.generation = next(queue.generation for queue in assignment.queues if not queue.is_retry)
        return assignment.reset_id

    def pull(self, offset: int = 0, *, wait_ms: int = 60_000, tags: str = "") -> asyncio.Future[Answer]:
        request = PullRequest(
            topic="orders",
            offset=offset,
            max_messages=100,
            wait_ms=wait_ms,
            group="billing" if self.generation else "",
            generation=self.generation,
            filter=tags,
        )
        return self.channel.ask(Opcode.PULL, request.SerializeToString())


async def _offsets(pull: asyncio.Future[Answer]) -> list[int]:
    return queue_offsets((await asyncio.wait_for(pull, HANG_S)).attachment)


@asynccontextmanager
async def _broker(
    directory: Path, visibility: Visibility = Visibility.RECEIVED
) -> AsyncIterator[tuple[Broker, GatedDisk]]:
    disk = GatedDisk()
    async with running_broker("disk", directory, disk=disk) as broker:
        settings = TopicSettings(visibility=visibility)
        request = CreateTopicRequest(topic="orders", queues=1, settings=settings)
        await _Member(broker).channel.ask(Opcode.CREATE_TOPIC, request.SerializeToString())
        try:
            yield broker, disk
        finally:
            disk.gate.set()


def _waiters(broker: Broker) -> int:
    """Return the number of waiters for a sync."""
    store = broker.context.store
    assert isinstance(store, DiskStore)
    return len(store._flusher._waiters)


@pytest.mark.parametrize(("tags", "wanted"), [("", [0, 1]), ("paid", [1])])
def test_a_member_reads_what_is_not_synced(tmp_path: Path, tags: str, wanted: list[int]) -> None:
    async def main() -> None:
        async with _broker(tmp_path) as (broker, disk):
            member, producer = _Member(broker), _Member(broker, "producer")
            await member.join()
            await broker.context.store.confirmed(broker.context.store.log_end)
            disk.gate.clear()
            waiting = member.pull(tags=tags)
            sent = [Record("orders", tags=tags, reliability=MEMORY) for tags in ((), ("paid",))]
            await producer.send(b"".join(map(encode_record, sent)))
            assert await _offsets(waiting) == wanted
            assert await _offsets(member.pull(tags=tags)) == wanted  # without waiting
            assert broker.context.store.confirm_offset < broker.context.store.log_end
            assert not _waiters(broker)  # so syncs come by time

    asyncio.run(main())


def test_readers_without_a_group_wait_for_the_sync(tmp_path: Path) -> None:
    async def main() -> None:
        async with _broker(tmp_path) as (broker, disk):
            member, reader, producer = _Member(broker), _Member(broker, "reader"), _Member(broker, "producer")
            await member.join()
            disk.gate.clear()
            read, waiting = reader.pull(), member.pull()
            await producer.send(records(2, level=MEMORY))
            assert await _offsets(waiting) == [0, 1]
            assert not read.done()
            assert _waiters(broker) == 1
            assert await _offsets(reader.pull(wait_ms=0)) == []
            disk.gate.set()
            assert await _offsets(read) == [0, 1]

    asyncio.run(main())


def test_by_default_members_wait_for_the_sync(tmp_path: Path) -> None:
    async def main() -> None:
        async with _broker(tmp_path, Visibility.CONFIRMED) as (broker, disk):
            member, producer = _Member(broker), _Member(broker, "producer")
            await member.join()
            disk.gate.clear()
            waiting, leasing = member.pull(), member.ask_for(group="leases", wait_ms=60_000)
            await producer.send(records(2, level=MEMORY))
            assert await _offsets(member.pull(wait_ms=0)) == []
            assert not waiting.done()
            assert not leasing.done()
            disk.gate.set()
            assert await _offsets(waiting) == [0, 1]
            assert [each.offset for each in await leasing] == [0, 1]

    asyncio.run(main())


def test_leases_of_messages_that_are_not_synced(tmp_path: Path) -> None:
    async def main() -> None:
        async with _broker(tmp_path) as (broker, disk):
            member, producer = _Member(broker), _Member(broker, "producer")
            disk.gate.clear()
            waiting = member.ask_for(wait_ms=60_000)
            await eventually(lambda: broker._lessor.waiting == 1)
            await producer.send(records(3, level=MEMORY))
            first, second, third = await asyncio.wait_for(waiting, HANG_S)
            # A failed message is there again at once. The answers wait for the disk.
            settling = [
                asyncio.ensure_future(each)
                for each in (member.ack(first), member.fail(second), member.fail(third, delay_ms=1))
            ]
            again = await asyncio.wait_for(member.ask_for(wait_ms=60_000), HANG_S)
            assert [(each.offset, each.tries) for each in again] == [(1, 2)]
            assert not any(each.done() for each in settling)
            disk.gate.set()
            assert await asyncio.gather(*settling) == [[], [], []]

    asyncio.run(main())


def test_the_setting_may_change_while_members_wait(tmp_path: Path) -> None:
    async def main() -> None:
        async with _broker(tmp_path, Visibility.CONFIRMED) as (broker, disk):
            member, producer = _Member(broker), _Member(broker, "producer")
            await member.join()

            async def alter(visibility: Visibility) -> None:
                request = AlterTopicRequest(topic="orders", visibility=visibility)
                await producer.channel.ask(Opcode.ALTER_TOPIC, request.SerializeToString())

            waiting = member.pull()
            await alter(Visibility.RECEIVED)
            disk.gate.clear()
            await producer.send(records(1, level=MEMORY))
            assert await _offsets(waiting) == [0]
            disk.gate.set()
            await alter(Visibility.CONFIRMED)
            disk.gate.clear()
            waiting = member.pull(1)
            await producer.send(records(1, level=MEMORY))
            await asyncio.sleep(0)
            assert not waiting.done()
            disk.gate.set()
            assert await _offsets(waiting) == [1]

    asyncio.run(main())


def test_members_read_again_after_a_restart(tmp_path: Path) -> None:
    async def main() -> None:
        ids = []
        for visibility in (Visibility.RECEIVED, Visibility.CONFIRMED):
            for _ in range(2):
                async with _broker(tmp_path / visibility.name, visibility) as (broker, _disk):
                    ids.append([await _Member(broker).join() for _ in range(2)])
        (received, same), (later, _), confirmed, restarted = ids
        assert received == same  # a lost connection alone changes nothing
        assert received != later
        assert confirmed == restarted == ["", ""]

    asyncio.run(main())
