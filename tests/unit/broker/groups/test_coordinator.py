"""Requests of group members: assignment, hand-over, sessions and fencing."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from litemq.broker.broker import Broker
from litemq.broker.groups.membership import Changes, Membership
from litemq.broker.limits import BrokerLimits
from litemq.clock import FakeClock, SystemClock
from litemq.errors import InvalidArgumentError, NotGroupMemberError, OverloadedError
from litemq.net.request_channel import Answer
from litemq.proto.wire_pb2 import (
    CommitRequest,
    GroupAssignment,
    GroupHeartbeat,
    JoinRequest,
    LeaveRequest,
    Opcode,
    PullAnswer,
    PullRequest,
    QueueOffset,
    ReleaseRequest,
)
from support.callers import Asking, records, running_broker
from support.waiting import HANG_S, eventually

LONGEST_MS = 600_000  # a session; a heartbeat waits for a third of it, and that is longer than a test may hang


class Reading(Asking):
    """A member of a group, and its connection."""

    assignment: GroupAssignment

    def join(self, **fields: object) -> "asyncio.Future[Answer]":
        request = JoinRequest(**{"group": "billing", "topic": "orders", **fields})  # type: ignore[arg-type]
        return self.channel.ask(Opcode.JOIN_GROUP, request.SerializeToString())

    async def joined(self, **fields: object) -> set[int]:
        self.assignment = GroupAssignment.FromString((await self.join(**fields)).header)
        return self.queues

    @property
    def queues(self) -> set[int]:
        return {queue.range.queue_id for queue in self.assignment.queues}

    def generation(self, queue_id: int) -> int:
        return next(queue.generation for queue in self.assignment.queues if queue.range.queue_id == queue_id)

    def beat(self, wait_ms: int = 0) -> "asyncio.Future[Answer]":
        known = self.assignment
        request = GroupHeartbeat(
            group="billing", topic="orders", session=known.session, version=known.version, wait_ms=wait_ms
        )
        return self.channel.ask(Opcode.GROUP_HEARTBEAT, request.SerializeToString())

    async def beaten(self, wait_ms: int = 0) -> set[int]:
        answer = GroupAssignment.FromString((await self.beat(wait_ms)).header)
        if not answer.unchanged:
            self.assignment = answer
        return self.queues

    async def release(self) -> None:
        known = self.assignment
        request = ReleaseRequest(group="billing", topic="orders", session=known.session, generations=known.release)
        await self.channel.ask(Opcode.RELEASE_QUEUES, request.SerializeToString())

    async def commit(self, queue_id: int, offset: int, generation: int = 0) -> None:
        offsets = [QueueOffset(queue_id=queue_id, offset=offset, generation=generation)]
        request = CommitRequest(group="billing", topic="orders", offsets=offsets)
        await self.channel.ask(Opcode.COMMIT_OFFSETS, request.SerializeToString())

    def pull(self, queue_id: int, offset: int = 0, wait_ms: int = 0, generation: int = 0) -> "asyncio.Future[Answer]":
        request = PullRequest(
            topic="orders",
            queue_id=queue_id,
            offset=offset,
            max_messages=9,
            wait_ms=wait_ms,
            group="billing",
            generation=generation,
        )
        return self.channel.ask(Opcode.PULL, request.SerializeToString())


Test = Callable[[Broker, FakeClock], Awaitable[None]]


def run(test: Test, directory: Path, limits: BrokerLimits | None = None) -> None:
    async def main() -> None:
        clock = FakeClock()
        async with asyncio.timeout(HANG_S), running_broker("memory", directory, limits, clock) as broker:
            await Asking(broker).create()
            await test(broker, clock)

    asyncio.run(main())


def test_queues_are_shared_and_handed_over(tmp_path: Path) -> None:
    async def test(broker: Broker, clock: FakeClock) -> None:
        ann, bob = Reading(broker, "ann"), Reading(broker, "bob")
        assert await ann.joined(session_timeout_ms=LONGEST_MS) == {0, 1, 2, 3}
        waiting = asyncio.ensure_future(ann.beaten(LONGEST_MS))
        await asyncio.sleep(0)
        assert await bob.joined(session_timeout_ms=LONGEST_MS) == set()
        assert len(await waiting) == 2, "answered at once: there is something to give up"
        assert await bob.beaten() == set()
        waiting = asyncio.ensure_future(bob.beaten(LONGEST_MS))
        await ann.release()
        assert await waiting == {0, 1, 2, 3} - ann.queues
        assert await ann.beaten() == ann.queues

    run(test, tmp_path)


def test_a_heartbeat_with_nothing_new_waits(tmp_path: Path) -> None:
    async def test(broker: Broker, clock: FakeClock) -> None:
        ann = Reading(broker, "ann")
        await ann.joined(session_timeout_ms=300)
        loop = asyncio.get_running_loop()
        began = loop.time()
        answer = GroupAssignment.FromString((await ann.beat(LONGEST_MS)).header)
        assert answer.unchanged
        assert loop.time() - began > 0.09
        await ann.joined(session_timeout_ms=LONGEST_MS)
        began = loop.time()
        first = ann.beat(2 * LONGEST_MS)
        await eventually(lambda: broker.groups._waiting)
        (waiting,) = broker.groups._waiting.values()
        assert began <= waiting.timer.when() - LONGEST_MS / 3000 <= loop.time(), "no longer than a third of the session"
        second = ann.beat(0)  # a client asks once at a time: the one before is answered
        assert GroupAssignment.FromString((await first).header).unchanged
        assert GroupAssignment.FromString((await second).header).unchanged

    run(test, tmp_path)


def test_only_the_owner_reads_and_commits(tmp_path: Path) -> None:
    async def test(broker: Broker, clock: FakeClock) -> None:
        ann, bob = Reading(broker, "ann"), Reading(broker, "bob")
        await ann.send(records(5), 0)
        for refused in (ann.pull(0), bob.commit(0, 1)):
            with pytest.raises(NotGroupMemberError):
                await refused
        await ann.joined()
        await bob.joined()
        assert PullAnswer.FromString((await ann.pull(0)).header).range.next == 5
        await ann.commit(0, 2, ann.generation(0))
        with pytest.raises(NotGroupMemberError, match="queue 0"):
            await ann.commit(0, 3, ann.generation(1))
        with pytest.raises(NotGroupMemberError):
            await bob.pull(0)
        with pytest.raises(InvalidArgumentError):
            await ann.commit(0, 6)

    run(test, tmp_path)


def test_a_late_member_is_fenced(tmp_path: Path) -> None:
    async def test(broker: Broker, clock: FakeClock) -> None:
        ann, bob = Reading(broker, "ann"), Reading(broker, "bob")
        await ann.send(records(5), 0)
        await ann.joined()
        await bob.joined()
        generation = ann.generation(0)
        pulling, beating = ann.pull(1, wait_ms=60_000, generation=ann.generation(1)), ann.beat(1)
        await beating
        beating = ann.beat(0)
        clock.advance(4)
        await bob.beaten()
        beating = asyncio.ensure_future(ann.pull(0, 5, wait_ms=60_000, generation=generation))
        await asyncio.sleep(0.01)
        clock.advance(4.9)
        await bob.beaten()
        broker.groups.end_overdue()
        assert await bob.beaten() == set(), "she was heard by her pull"
        clock.advance(0.2)
        broker.groups.end_overdue()
        assert await bob.beaten() == {0, 1, 2, 3}
        for refused in (pulling, beating, ann.beat(), ann.commit(0, 1, generation), ann.release()):
            with pytest.raises(NotGroupMemberError):
                await refused
        assert await ann.joined() == set()

    run(test, tmp_path)


def test_sessions_of_silent_members_end(tmp_path: Path) -> None:
    async def main() -> None:
        async with asyncio.timeout(HANG_S), running_broker("memory", tmp_path, clock=SystemClock()) as broker:
            await Asking(broker).create()
            ann, bob = Reading(broker, "ann"), Reading(broker, "bob")
            loop = asyncio.get_running_loop()
            began = loop.time()
            await ann.joined(session_timeout_ms=400)
            await bob.joined(session_timeout_ms=LONGEST_MS)
            while bob.queues != {0, 1, 2, 3}:  # where this takes long, her session ended before he came
                await bob.beaten(LONGEST_MS)
            assert loop.time() - began >= 0.4

    asyncio.run(main())


def test_a_member_may_reconnect_within_the_grace_period(tmp_path: Path) -> None:
    async def test(broker: Broker, clock: FakeClock) -> None:
        ann, bob = Reading(broker, "ann"), Reading(broker, "bob")
        await ann.joined()
        await bob.joined()
        await ann.beaten()
        await ann.release()
        await bob.beaten()
        before = list(ann.assignment.queues)
        ann.channel.close()
        clock.advance(0.4)
        broker.groups.end_overdue()
        again = Reading(broker, "ann")
        await again.joined()
        assert list(again.assignment.queues) == before
        await again.commit(before[0].range.queue_id, 0, before[0].generation)
        again.channel.close()
        clock.advance(0.6)
        broker.groups.end_overdue()
        assert await bob.beaten() == {0, 1, 2, 3}

    run(test, tmp_path)


def test_a_leaving_member_frees_its_queues_at_once(tmp_path: Path) -> None:
    async def test(broker: Broker, clock: FakeClock) -> None:
        ann, bob = Reading(broker, "ann"), Reading(broker, "bob")
        await ann.joined(member="ann/1")
        await bob.joined(session_timeout_ms=LONGEST_MS)
        waiting = asyncio.ensure_future(bob.beaten(LONGEST_MS))
        for caller, member in ((bob, "ann/1"), (ann, ""), (ann, "ann/1")):  # another's place is not hers to give
            request = LeaveRequest(group="billing", topic="orders", member=member)
            await caller.channel.ask(Opcode.LEAVE_GROUP, request.SerializeToString())
        assert await waiting == {0, 1, 2, 3}

    run(test, tmp_path)


def test_the_same_member_on_a_new_connection_fences_the_old_one(tmp_path: Path) -> None:
    async def test(broker: Broker, clock: FakeClock) -> None:
        ann, again = Reading(broker, "ann"), Reading(broker, "ann")
        await ann.joined()
        assert await again.joined() == {0, 1, 2, 3}
        for refused in (ann.pull(0), ann.beat(), ann.commit(0, 0)):
            with pytest.raises(NotGroupMemberError):
                await refused
        ann.channel.close()
        clock.advance(1)
        broker.groups.end_overdue()
        assert await again.beaten() == {0, 1, 2, 3}

    run(test, tmp_path)


def test_join_requests_are_bounded(tmp_path: Path) -> None:
    async def test(broker: Broker, clock: FakeClock) -> None:
        ann = Reading(broker, "ann")
        for wrong in (
            {"member": "x" * 256},
            {"zone": "x" * 256},
            {"session_timeout_ms": 99},
            {"session_timeout_ms": 600_001},
            {"strategy": "mine"},
        ):
            with pytest.raises(InvalidArgumentError):
                await ann.join(**wrong)
        await ann.joined(member="1")
        await ann.joined(member="2")
        with pytest.raises(OverloadedError, match="2 memberships"):
            await ann.join(member="3")
        await Reading(broker, "bob").joined()
        with pytest.raises(OverloadedError, match="3 members"):
            await Reading(broker, "eve").join()
        await ann.joined(member="2")

    run(test, tmp_path, BrokerLimits(max_memberships=2, max_group_members=3))


def test_many_members_join_without_occupying_the_event_loop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rebalanced = []
    rebalance = Membership.rebalance

    def counted(membership: Membership) -> Changes:
        rebalanced.append(membership)
        return rebalance(membership)

    async def test(broker: Broker, clock: FakeClock) -> None:
        await Asking(broker).create("wide", queues=4096)
        members = [Reading(broker, f"m{number}") for number in range(100)]
        for member in members:
            answer = await member.join(topic="wide", session_timeout_ms=LONGEST_MS)
            member.assignment = GroupAssignment.FromString(answer.header)
        assert len(rebalanced) < 20
        owned = rebalanced[0]
        assert owned.is_stale
        clock.advance(1)
        await eventually(lambda: not owned.is_stale)
        assert len(rebalanced) < 20
        owned.release("m0", owned.unwanted("m0"))
        assert min(len(owned.assigned(name)) for name in owned.members) >= 40

    monkeypatch.setattr(Membership, "rebalance", counted)
    run(test, tmp_path)


def test_a_request_names_no_more_queues_than_there_are(tmp_path: Path) -> None:
    async def test(broker: Broker, clock: FakeClock) -> None:
        ann = Reading(broker, "ann")
        assert await ann.joined(held=range(5)) == {0, 1, 2, 3}
        ann.assignment.release.extend(range(6))
        with pytest.raises(InvalidArgumentError, match="6 queues"):
            await ann.release()
        offsets = [QueueOffset(queue_id=0, offset=0)] * 6
        request = CommitRequest(group="billing", topic="orders", offsets=offsets)
        with pytest.raises(InvalidArgumentError, match="6 queues"):
            await ann.channel.ask(Opcode.COMMIT_OFFSETS, request.SerializeToString())

    run(test, tmp_path)
