"""Durability levels in a replicated group: the master flushes, and the group confirms."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from litemq.broker.broker import Broker
from litemq.broker.limits import BrokerLimits
from litemq.broker.replication.in_sync_set import InSyncSet
from litemq.broker.topics.settings import settings_record
from litemq.clock import FakeClock
from litemq.errors import NotConfirmedError, NotEnoughReplicasError, OverloadedError
from litemq.proto.wire_pb2 import Opcode, PullRequest
from litemq.storage.state import TopicSettings
from litemq.types import Durability, ReplicaAck
from support.broker_group import Group, group_of_three
from support.callers import queue_offsets, records
from support.gated_disk import GatedDisk
from support.on_loop import on_loop
from support.replica_group import all_have, following, serving
from support.replicas import open_replica
from support.stores import CONFIG
from support.transactions import Producer, half, name_of
from support.waiting import eventually

LEVELS = (Durability.NONE, Durability.MEMORY, Durability.DISK, Durability.REPLICAS)
ONE, TWO = name_of(1), name_of(2)


@on_loop
async def test_disk_needs_the_master_and_replicas_the_whole_set(tmp_path: Path) -> None:
    async with group_of_three(tmp_path) as group:
        answers = [group.send(records(level=level), number) for number, level in enumerate(LEVELS)]  # one tick
        assert [(await answer).queue_offset for answer in answers[:3]] == [-1, 0, 0]
        async with following(group.master, group.followers[0]):
            await eventually(lambda: group.followers[0].flushed_offset == group.store.log_end)
            assert not answers[3].done()
            async with following(group.master, group.followers[1]):
                assert (await answers[3]).queue_offset == 0
                assert group.store.confirm_offset == group.store.log_end


@pytest.mark.parametrize("count", [1, 40])
@on_loop
async def test_replicas_takes_the_fast_paths(tmp_path: Path, count: int) -> None:
    async with group_of_three(tmp_path) as group, group.all_follow():
        sent = [group.send(records(level=Durability.REPLICAS)) for _ in range(count)]
        assert [(await each).queue_offset for each in sent] == list(range(count))
        assert group.store.confirm_offset == group.store.log_end


@on_loop
async def test_a_repeated_send_waits_for_the_level_of_the_first(tmp_path: Path) -> None:
    async with group_of_three(tmp_path) as group:
        first = await group.send(records(producer_id=7))
        again = group.send(records(producer_id=7, level=Durability.REPLICAS))
        flushed = await group.send(records(producer_id=7))
        assert [each.store_timestamp for each in flushed.earlier] == [first.store_timestamp]
        assert not again.done()
        async with group.all_follow():
            assert [each.queue_offset for each in (await again).earlier] == [0]


@on_loop
async def test_a_new_broker_does_not_answer_a_repeated_send_before_its_confirmation(tmp_path: Path) -> None:
    async with group_of_three(tmp_path) as group:
        await group.send(records(producer_id=7))
        other = Producer(Broker(group.store, group.clock))  # as after an election
        again = asyncio.ensure_future(other.send(records(producer_id=7, level=Durability.REPLICAS)))
        await group.send(records(producer_id=8))
        assert not again.done()
        async with group.all_follow():
            await again


@on_loop
async def test_too_few_replicas_refuse_only_the_level_that_needs_them(tmp_path: Path) -> None:
    async with group_of_three(tmp_path) as group:
        waiting = group.send(records(producer_id=7, level=Durability.REPLICAS))
        await eventually(lambda: group.store.state.producers.expected((7, 16, 0)) == 1)
        await group.lack_replicas()
        with pytest.raises(NotConfirmedError, match="min_in_sync is 2"):
            await waiting
        end = group.store.log_end
        for batch in (
            records(level=Durability.REPLICAS),
            records(2, first=1, producer_id=7, level=Durability.REPLICAS),
        ):
            with pytest.raises(NotEnoughReplicasError, match="1 replica of orders is in sync") as refused:
                await group.send(batch)
            assert all(each.store_id.hex() in str(refused.value) for each in group.followers)
        many = [group.send(records(level=Durability.REPLICAS)) for _ in range(40)]
        outcomes = await asyncio.gather(*many, return_exceptions=True)
        assert {type(outcome) for outcome in outcomes} == {NotEnoughReplicasError}
        assert group.store.log_end == end  # nothing was appended
        for batch in (
            records(producer_id=7, level=Durability.REPLICAS),
            records(2, producer_id=7, level=Durability.REPLICAS),
        ):
            with pytest.raises(NotConfirmedError):  # an earlier try has appended the first record
                await group.send(batch)
        mixed = [group.send(records(level=level), 1) for level in LEVELS]
        assert [(await each).queue_offset for each in mixed[:3]] == [-1, 1, 2]
        with pytest.raises(NotEnoughReplicasError):
            await mixed[3]
        async with group.all_follow():
            await eventually(lambda: group.store.replica_refusal is None)
            again = await group.send(records(2, producer_id=7, level=Durability.REPLICAS))
            assert [each.queue_offset for each in again.earlier] == [0]


@on_loop
async def test_readers_get_what_is_confirmed_once_replicas_are_back(tmp_path: Path) -> None:
    async with group_of_three(tmp_path) as group:
        await group.lack_replicas()
        request = PullRequest(topic="orders", queue_id=0, max_messages=8, wait_ms=60_000)
        pulled = asyncio.ensure_future(group.ann.channel.ask(Opcode.PULL, request.SerializeToString()))
        await group.send(records())
        assert not pulled.done()
        async with group.all_follow():
            assert queue_offsets(bytes((await pulled).attachment)) == [0]


@on_loop
async def test_halves_have_the_same_levels(tmp_path: Path) -> None:
    async with group_of_three(tmp_path) as group:
        waiting = asyncio.ensure_future(group.ann.send_halves(half(ONE, level=Durability.REPLICAS)))
        await group.ann.send_halves(half(TWO))
        assert not waiting.done()
        await group.lack_replicas()
        with pytest.raises(NotConfirmedError):
            await waiting
        new = group.ann.send_halves(half(ONE, 1, level=Durability.REPLICAS))
        repeated = group.ann.send_halves(half(ONE, level=Durability.REPLICAS))
        plain = group.ann.send_halves(half(TWO, 1))
        outcomes = await asyncio.gather(new, repeated, plain, return_exceptions=True)
        assert [type(outcome) for outcome in outcomes] == [NotEnoughReplicasError, NotConfirmedError, type(None)]
        async with group.all_follow():
            await eventually(lambda: group.store.replica_refusal is None)
            await group.ann.send_halves(half(ONE, 1, level=Durability.REPLICAS))
            await group.ann.commit(ONE, TWO)


@on_loop
async def test_the_backlog_of_an_absent_follower_does_not_stop_sends(tmp_path: Path) -> None:
    async with group_of_three(tmp_path) as group:
        await group.lack_replicas()
        for number in range(16):
            await group.send(records(100, body=bytes(3000)))
            await group.ann.send_halves(half(TWO, number))
        unconfirmed = group.store.log_end - group.store.confirm_offset
        assert unconfirmed > 2 * group.broker.context.limits.max_unconfirmed_bytes


@pytest.mark.parametrize("level", LEVELS)
@on_loop
async def test_sends_are_refused_while_too_much_waits_for_replicas(tmp_path: Path, level: Durability) -> None:
    async with group_of_three(tmp_path, limits=BrokerLimits(max_unreplicated_bytes=30_000)) as group:
        while group.store.log_end - group.store.confirm_offset <= 30_000:
            await group.send(records(body=bytes(3000)))
        end = group.store.log_end
        halves = half(ONE, level=max(level, Durability.MEMORY))
        for request in (group.send(records(level=level)), group.ann.send_halves(halves)):
            with pytest.raises(OverloadedError, match="litemq cluster status"):
                await request
        assert group.store.log_end == end
        async with group.all_follow():
            await eventually(lambda: group.store.confirm_offset == end)
            await group.send(records(level=level))


@pytest.mark.parametrize("level", [Durability.MEMORY, Durability.DISK, Durability.REPLICAS])
@pytest.mark.parametrize("count", [1, 40])
@on_loop
async def test_a_master_acknowledges_nothing_after_its_lease(tmp_path: Path, level: Durability, count: int) -> None:
    async with group_of_three(tmp_path) as group, group.all_follow():
        has_lease = True
        group.store.has_lease = lambda: has_lease
        assert (await group.send(records(level=level))).queue_offset == 0
        has_lease = False
        sent = [group.send(records(level=level)) for _ in range(count)]
        for each in sent:
            with pytest.raises(NotConfirmedError, match="lease"):
                await each
        has_lease = True
        assert (await group.send(records(level=level))).queue_offset == count + 1  # they were written


# Topics with ``replica_ack = memory`` ------------------------------------------------------------


def _memory(producer_id: int = 0) -> bytes:
    return records(topic="clicks", level=Durability.REPLICAS, producer_id=producer_id)


def _create_clicks(group: Group) -> None:
    group.store.create_topic("clicks", 1, TopicSettings(replica_ack=ReplicaAck.MEMORY))


@pytest.mark.parametrize("count", [1, 40])
@on_loop
async def test_replica_ack_memory_waits_for_no_disk_and_shows_nothing_early(tmp_path: Path, count: int) -> None:
    disk = GatedDisk()
    async with group_of_three(tmp_path, disk) as group, group.all_follow():
        _create_clicks(group)
        await all_have(group.store, *group.followers)
        disk.gate.clear()
        sent = [asyncio.ensure_future(group.ann.send(_memory(), topic="clicks")) for _ in range(count)]
        assert [(await each).queue_offset for each in sent] == list(range(count))
        assert all(each.log_end == group.store.log_end for each in group.followers)
        assert group.store.confirm_offset < group.store.log_end
        request = PullRequest(topic="clicks", queue_id=0, max_messages=100)
        pulled = await group.ann.channel.ask(Opcode.PULL, request.SerializeToString())
        assert not pulled.attachment
        waiting = group.send(records(level=Durability.REPLICAS))  # of a topic with the default
        await eventually(lambda: all(each.log_end == group.store.log_end for each in group.followers))
        assert not waiting.done()
        disk.gate.set()
        await waiting
        pulled = await group.ann.channel.ask(Opcode.PULL, request.SerializeToString())
        assert queue_offsets(bytes(pulled.attachment)) == list(range(count))


@on_loop
async def test_replica_ack_memory_needs_each_member(tmp_path: Path) -> None:
    async with group_of_three(tmp_path) as group:
        async with group.all_follow():
            _create_clicks(group)
            await all_have(group.store, *group.followers)
        waiting = asyncio.ensure_future(group.ann.send(_memory(producer_id=7), topic="clicks"))
        async with following(group.master, group.followers[0]):
            await eventually(lambda: group.followers[0].flushed_offset == group.store.log_end)
            assert not waiting.done()
            async with following(group.master, group.followers[1]):
                assert (await waiting).queue_offset == 0
        again = asyncio.ensure_future(group.ann.send(_memory(producer_id=7), topic="clicks"))
        assert [each.queue_offset for each in (await again).earlier] == [0]  # it was received, or is confirmed
        late = asyncio.ensure_future(group.ann.send(_memory(), topic="clicks"))
        await eventually(lambda: bool(group.store.confirmation._receivers))
        await group.lack_replicas()
        with pytest.raises(NotConfirmedError, match="min_in_sync is 2"):
            await late
        with pytest.raises(NotEnoughReplicasError):
            await group.ann.send(_memory(), topic="clicks")


@on_loop
async def test_a_master_without_followers_flushes_what_replica_ack_memory_sends(tmp_path: Path) -> None:
    disk = GatedDisk()
    store = open_replica(tmp_path / "a", CONFIG, FakeClock(), disk)
    async with serving(store, min_in_sync=1, clock=FakeClock()) as master:
        group = Group(master, [], FakeClock())
        _create_clicks(group)
        await all_have(store)
        disk.gate.clear()
        waiting = asyncio.ensure_future(group.ann.send(_memory(), topic="clicks"))
        await eventually(lambda: bool(store.confirmation._waiters))
        assert not waiting.done()
        disk.gate.set()
        await waiting
        group.broker.close()
    store.abandon()


# Topics with ``min_in_sync`` ---------------------------------------------------------------------


def _payment(producer_id: int = 0) -> bytes:
    return records(topic="payments", level=Durability.REPLICAS, producer_id=producer_id)


def _leaves(group: Group) -> None:
    """Let the second follower leave the in-sync set."""
    members = frozenset(each.store_id for each in (group.store, group.followers[0]))
    group.master.shipping.settle(InSyncSet(members, group.master.in_sync.current.revision + 1))


async def _has_grown(group: Group, end: int) -> None:
    """Wait until the log is longer than ``end``, and the first follower has all of it."""
    store, follower = group.store, group.followers[0]
    await eventually(lambda: end < store.log_end == follower.flushed_offset)


@pytest.mark.parametrize("ack", ReplicaAck)
@on_loop
async def test_a_topic_may_need_more_replicas_than_its_group(tmp_path: Path, ack: ReplicaAck) -> None:
    async with group_of_three(tmp_path) as group, following(group.master, group.followers[0]):
        async with following(group.master, group.followers[1]):
            group.store.create_topic("payments", 1, TopicSettings(min_in_sync=3, replica_ack=ack))
            sent = [asyncio.ensure_future(group.ann.send(_payment(), topic="payments")) for _ in range(40)]
            assert [(await each).queue_offset for each in sent] == list(range(40))
        end = group.store.log_end
        waiting = asyncio.ensure_future(group.ann.send(_payment(producer_id=7), topic="payments"))
        await _has_grown(group, end)
        assert not waiting.done()
        _leaves(group)
        with pytest.raises(NotConfirmedError, match="2 replicas are in sync, and min_in_sync of topic 'payments' is 3"):
            await waiting
        for count in (1, 40):
            sent = [asyncio.ensure_future(group.ann.send(_payment(), topic="payments")) for _ in range(count)]
            refused = await asyncio.gather(*sent, return_exceptions=True)
            assert {type(each) for each in refused} == {NotEnoughReplicasError}
        with pytest.raises(NotConfirmedError):
            await group.ann.send(_payment(producer_id=7), topic="payments")
        assert (await group.send(records(level=Durability.REPLICAS))).queue_offset == 0  # of another topic
        below = records(topic="payments", level=Durability.DISK)
        assert (await group.ann.send(below, topic="payments")).queue_offset == 41


@on_loop
async def test_halves_need_the_replicas_of_their_topic(tmp_path: Path) -> None:
    async with group_of_three(tmp_path) as group, following(group.master, group.followers[0]):
        async with following(group.master, group.followers[1]):
            topic = group.store.state.topic("orders")
            assert topic is not None
            group.store.append_control(settings_record(topic._replace(min_in_sync=3)))
            await group.ann.send_halves(half(ONE, level=Durability.REPLICAS))
        end = group.store.log_end
        waiting = asyncio.ensure_future(group.ann.send_halves(half(ONE, 1, level=Durability.REPLICAS)))
        await _has_grown(group, end)
        _leaves(group)
        with pytest.raises(NotConfirmedError, match="min_in_sync of topic 'orders' is 3"):
            await waiting
        with pytest.raises(NotEnoughReplicasError):
            await group.ann.send_halves(half(TWO, level=Durability.REPLICAS))
        await group.ann.send_halves(half(TWO))


@on_loop
async def test_halves_wait_for_the_disks_also_with_replica_ack_memory(tmp_path: Path) -> None:
    disk = GatedDisk()
    async with group_of_three(tmp_path, disk) as group, group.all_follow():
        topic = group.store.state.topic("orders")
        assert topic is not None
        group.store.append_control(settings_record(topic._replace(replica_ack=ReplicaAck.MEMORY)))
        await all_have(group.store, *group.followers)
        disk.gate.clear()
        waiting = asyncio.ensure_future(group.ann.send_halves(half(ONE, level=Durability.REPLICAS)))
        await group.send(records(level=Durability.REPLICAS))  # a later message is in the memory of all
        assert not waiting.done()
        disk.gate.set()
        await waiting
