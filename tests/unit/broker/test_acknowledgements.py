"""The answers to changes of all kinds: a master gives them while it has its lease and its group."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from google.protobuf.message import Message

import litemq.broker
from litemq.errors import NotConfirmedError, NotEnoughReplicasError
from litemq.proto.jobs_pb2 import JobDefinition
from litemq.proto.wire_pb2 import (
    CancelTimersRequest,
    DescribeTransactionRequest,
    FindRequest,
    ListTimersRequest,
    Opcode,
    PutJobsRequest,
    TriggerJobRequest,
)
from support.broker_group import Group, group_of_three
from support.callers import records
from support.leases import Leaser
from support.on_loop import on_loop
from support.transactions import half, name_of
from support.waiting import eventually

LATER = 60_000  # ms


class _Client:
    """A client with a leased message, an open transaction, a delayed message and a job."""

    def __init__(self, group: Group) -> None:
        self.group = group
        self.leaser = Leaser(group.broker)

    async def prepare(self) -> None:
        group = self.group
        async with group.all_follow():
            await group.send(records())
            await group.send(records(first=1, delay_time=group.clock.wall_ms() + LATER))
            await group.ann.send_halves(half(name_of(1)))
            job = JobDefinition(id="j", topic="orders", expression="0 0 * * * *")
            await self.ask(Opcode.PUT_JOBS, PutJobsRequest(jobs=[job]))
            await eventually(lambda: group.store.confirm_offset == group.store.log_end)
            (self.leased,) = await self.leaser.ask_for(1, lease_ms=LATER)
            await eventually(lambda: group.store.confirm_offset == group.store.log_end)
        await eventually(lambda: not group.master.shipping.followers)

    async def ask(self, opcode: int, request: Message) -> bytes:
        return (await self.group.ann.channel.ask(opcode, request.SerializeToString())).header

    async def settle(self) -> None:
        await self.leaser.ack(self.leased)

    async def commit(self) -> None:
        await self.group.ann.commit(name_of(1))

    async def cancel_timer(self) -> None:
        await self.ask(Opcode.CANCEL_TIMERS, CancelTimersRequest(topic="orders", message_ids=["m-1"]))

    async def trigger_job(self) -> None:
        await self.ask(Opcode.TRIGGER_JOB, TriggerJobRequest(id="j", trigger_id="t"))

    async def create_topic(self) -> None:
        await self.group.ann.create("others")

    # Reads that include the latest changes.

    async def list_timers(self) -> None:
        await self.ask(Opcode.LIST_TIMERS, ListTimersRequest(topic="orders", most=10))

    async def describe_transaction(self) -> None:
        await self.ask(Opcode.DESCRIBE_TRANSACTION, DescribeTransactionRequest(transaction=name_of(1)))


CHANGES = (_Client.settle, _Client.commit, _Client.cancel_timer, _Client.trigger_job, _Client.create_topic)
READS = (_Client.list_timers, _Client.describe_transaction)


@pytest.mark.parametrize("ask", CHANGES)
@on_loop
async def test_a_master_answers_no_change_after_its_lease(
    tmp_path: Path, ask: Callable[[_Client], Awaitable[None]]
) -> None:
    async with group_of_three(tmp_path) as group:
        client = _Client(group)
        await client.prepare()
        async with group.all_follow():
            group.store.has_lease = lambda: False
            with pytest.raises(NotConfirmedError, match="lease"):
                await ask(client)


@pytest.mark.parametrize("ask", CHANGES + READS)
@on_loop
async def test_a_group_with_too_few_replicas_refuses_instead_of_waiting(
    tmp_path: Path, ask: Callable[[_Client], Awaitable[None]]
) -> None:
    async with group_of_three(tmp_path) as group:
        client = _Client(group)
        await client.prepare()
        await group.send(records())  # so that something is not confirmed
        await group.lack_replicas()
        with pytest.raises((NotConfirmedError, NotEnoughReplicasError), match="min_in_sync is 2"):
            await ask(client)


@on_loop
async def test_a_job_that_was_triggered_but_not_confirmed_is_triggered_once(tmp_path: Path) -> None:
    async with group_of_three(tmp_path) as group:
        client = _Client(group)
        await client.prepare()
        for _ in range(2):
            asking = asyncio.ensure_future(client.trigger_job())
            await group.lack_replicas()
            with pytest.raises((NotConfirmedError, NotEnoughReplicasError)):
                await asking
        async with group.all_follow():
            await eventually(lambda: group.store.replica_refusal is None)
            await client.trigger_job()
            (slot,) = [group.store.state.parts.jobs.find_slot("j")]
            assert slot is not None
            assert group.store.state.parts.jobs.row_at(slot).sent == 1


@on_loop
async def test_a_listing_of_timers_that_waits_for_replicas_blocks_no_look_up(tmp_path: Path) -> None:
    async with group_of_three(tmp_path) as group:
        client = _Client(group)
        await client.prepare()
        await group.send(records())
        listing = asyncio.ensure_future(client.list_timers())
        await client.ask(Opcode.FIND, FindRequest(topic="orders", key="m-0", most=1))
        assert not listing.done()
        async with group.all_follow():
            await listing


def test_only_reads_and_background_work_wait_for_the_confirmation_alone() -> None:
    """Answers to changes go through ``when_safe``, which also asks for the lease."""
    folder = Path(litemq.broker.__file__).parent
    waiting = re.compile(r"\.(when_confirmed|when_replicated|wait_confirmed|confirmed)\(")
    found = {str(path.relative_to(folder)) for path in folder.rglob("*.py") if waiting.search(path.read_text())}
    assert found - {"replication/in_sync_set.py", "replication/shipping.py"} == {
        "admission/durability_wait.py",
        "dead_letters/redrive.py",
        "delivery/lessor.py",
        "reading/long_polls.py",
        "runtime/deferred_answers.py",
        "transactions/check_back.py",
        "transactions/publishing.py",
        "transactions/undecided.py",
    }
