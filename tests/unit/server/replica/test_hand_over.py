"""The hand-over of a master: it succeeds, or the master goes on, whatever the store does."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest

from litemq.broker.replication.in_sync_set import InSyncSet, InSyncTracker
from litemq.broker.runtime.caller import Caller
from litemq.clock import FakeClock
from litemq.errors import ChangeRefusedError, ConnectionLostError, InvalidArgumentError, LiteMQError, NotMasterError
from litemq.net.frame import Frame
from litemq.proto.wire_pb2 import (
    ChangeInSyncRequest,
    HandOverRequest,
    Opcode,
    ReplicaFacts,
    ReplicaGroup,
    SwitchMasterAnswer,
    SwitchMasterRequest,
)
from litemq.server.replica.group_link import GroupLink
from litemq.server.replica.hand_over import HandOver
from litemq.server.replica.held_requests import HeldRequests
from litemq.server.replica.lease import MasterLease
from litemq.storage.replica_store import ReplicaStore
from support.group_stores import A, B, C
from support.on_loop import on_loop
from support.waiting import eventually

_REVISION = 5


class _Link:
    """The cluster store. It makes changes in ``on_hand_over`` and ``on_change``."""

    def __init__(self) -> None:
        replicas = [ReplicaFacts(store_id=each, broker_id=name) for each, name in ((A, "a"), (B, "b"), (C, "c"))]
        self.view = ReplicaGroup(epoch=1, holder=A, revision=_REVISION, members=[A, B, C], replicas=replicas)
        self.on_hand_over: Callable[[], None] = lambda: None
        self.on_change: Callable[[], None] = lambda: None
        self.changes: list[ChangeInSyncRequest] = []

    def elect(self, holder: bytes) -> None:
        self.view.epoch, self.view.holder, self.view.revision = 2, holder, self.view.revision + 1

    async def hand_over(self, request: HandOverRequest) -> ReplicaGroup:
        assert (request.epoch, request.store_id, request.revision) == (1, A, _REVISION)
        self.on_hand_over()
        self.elect(request.successor)
        return self.view

    async def change(self, request: ChangeInSyncRequest) -> ReplicaGroup:
        assert (request.revision, list(request.members)) == (_REVISION, [A, B, C])
        self.changes.append(request)
        self.on_change()
        return ReplicaGroup(epoch=1, holder=A, members=request.members, revision=_REVISION + 1)


class _Master:
    """The master A with the followers B and C, of which B has the longer log."""

    def __init__(self, log_end: int = 100) -> None:
        self.clock = FakeClock()
        self.store = SimpleNamespace(store_id=A, log_end=log_end, last_epoch=1)
        self.in_sync = InSyncTracker(
            A, 10, InSyncSet(frozenset({A, B, C}), _REVISION), min_in_sync=2, max_lag_ns=1 << 60, now=0
        )
        for number, (store_id, flushed) in enumerate(((B, 100), (C, 90))):
            self.in_sync.connected(store_id, number, log_end=log_end, now=0)
            self.report(store_id, flushed)
        self.link = _Link()
        self.lease = MasterLease(self.clock)
        self.lease.renewed(0, 1_000_000)
        self.served: list[int] = []
        self.held = HeldRequests(lambda _session, frames: self.served.extend(each.correlation for each in frames))
        self.is_over = False
        self.hand_over = HandOver(
            "orders",
            cast("ReplicaStore", self.store),
            self.in_sync,
            cast("GroupLink", self.link),
            self.lease,
            self.held,
            self.clock,
            settle=self.in_sync.settled,
            on_handed_over=self._on_handed_over,
        )

    def _on_handed_over(self) -> None:
        self.is_over = True

    def report(self, store_id: bytes, flushed: int) -> None:
        session = [B, C].index(store_id)
        self.in_sync.reported(store_id, session, flushed, flushed, log_end=self.store.log_end, now=0)

    async def ask(self, replica: str = "", group: str = "orders") -> SwitchMasterAnswer:
        outcome: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        caller = SimpleNamespace(
            answer=lambda _frame, header: outcome.set_result(header),
            refuse=lambda _frame, error: outcome.set_exception(error),
        )
        header = SwitchMasterRequest(group=group, replica=replica).SerializeToString()
        self.hand_over.handler.call(cast("Caller", caller), Frame(1, Opcode.SWITCH_MASTER, 0, header, b""))
        return SwitchMasterAnswer.FromString(await outcome)

    def assert_goes_on(self) -> None:
        assert not self.is_over
        assert self.lease.is_valid()
        assert not self.held.is_holding
        assert not self.hand_over.changing.locked()


@on_loop
async def test_the_replica_with_most_becomes_the_master_and_nothing_is_acknowledged_meanwhile() -> None:
    master = _Master()
    seen: list[bool] = []
    master.link.on_hand_over = lambda: seen.append(master.held.is_holding and not master.lease.is_valid())
    answer = await master.ask()
    assert (answer.former, answer.master, answer.epoch) == ("a", "b", 2)
    assert seen == [True]
    assert master.is_over
    assert not master.lease.is_valid()
    assert master.held.is_holding  # until the role has ended


@on_loop
async def test_it_waits_until_the_successor_has_flushed_everything() -> None:
    master = _Master()
    asking = asyncio.create_task(master.ask("c"))
    await eventually(lambda: master.held.is_holding)
    assert master.lease.is_valid()  # requests that were begun are answered
    master.report(C, 100)
    assert (await asking).master == "c"


@on_loop
async def test_what_is_appended_last_must_reach_the_successor_too() -> None:
    master = _Master()
    suspend = master.lease.suspend

    def append_first() -> None:  # such as a timer that fires at this moment
        master.store.log_end = 120
        suspend()

    master.lease.suspend = append_first  # type: ignore[method-assign]
    asking = asyncio.create_task(master.ask("b"))
    await eventually(lambda: not master.lease.is_valid())
    await asyncio.sleep(0.01)
    assert master.link.view.epoch == 1
    master.report(B, 120)
    assert (await asking).epoch == 2


@on_loop
async def test_it_gives_up_if_the_successor_is_too_slow() -> None:
    master = _Master()
    with pytest.raises(ChangeRefusedError, match="c still lacked 10 bytes of the log after 1 s"):
        await master.ask("c")
    master.assert_goes_on()
    assert (await master.ask("b")).epoch == 2  # another one may be chosen then


@on_loop
async def test_a_refused_hand_over_changes_nothing() -> None:
    master = _Master()
    master.link.on_hand_over = _raising(ChangeRefusedError("the clock of b is 600 ms off"))
    with pytest.raises(ChangeRefusedError, match=r"600 ms off\. The present master goes on"):
        await master.ask("b")
    master.assert_goes_on()
    assert len(master.link.changes) == 1  # another NameServer may have been asked, too


@on_loop
async def test_a_refusal_of_one_nameserver_is_no_outcome_while_another_makes_the_change() -> None:
    master = _Master()

    def refuse_late() -> None:
        master.link.elect(B)
        raise ChangeRefusedError("group orders is at epoch 2: the in-sync set was changed")

    master.link.on_hand_over = refuse_late
    assert (await master.ask("b")).epoch == 2
    assert master.is_over
    assert not master.lease.is_valid()


@on_loop
async def test_a_hand_over_without_an_answer_is_cancelled_before_the_master_goes_on() -> None:
    master = _Master()
    master.link.on_hand_over = _raising(ConnectionLostError("no answer"))
    refusals = iter([ConnectionLostError("no answer"), ChangeRefusedError("outdated"), None])

    def on_change() -> None:
        assert not master.lease.is_valid()  # the hand-over may still arrive
        error = next(refusals)
        if error is not None:
            raise error

    master.link.on_change = on_change
    with pytest.raises(ChangeRefusedError, match="did not answer in time"):
        await master.ask("b")
    assert len(master.link.changes) == 3
    master.assert_goes_on()
    assert master.in_sync.current.revision == _REVISION + 1


@on_loop
async def test_a_hand_over_whose_answer_is_lost_is_found_out() -> None:
    for holder, is_expected in ((B, True), (C, False)):
        master = _Master()

        def lose(master: _Master = master, holder: bytes = holder) -> None:
            master.link.elect(holder)
            raise ConnectionLostError("no answer")

        master.link.on_hand_over = lose
        if is_expected:
            assert (await master.ask("b")).epoch == 2
        else:
            with pytest.raises(NotMasterError, match="another replica was elected"):
                await master.ask("b")


@on_loop
async def test_a_replica_that_cannot_be_the_master_is_refused() -> None:
    master = _Master()
    master.in_sync.lost(C, 1)
    with pytest.raises(ChangeRefusedError, match="c does not follow the master now"):
        await master.ask("c")
    with pytest.raises(ChangeRefusedError, match="a is the master already"):
        await master.ask("a")
    with pytest.raises(InvalidArgumentError, match="no replica 'd': choose one of a, b, c"):
        await master.ask("d")
    with pytest.raises(InvalidArgumentError, match="not of 'other'"):
        await master.ask(group="other")
    master.in_sync.settled(InSyncSet(frozenset({A, C}), _REVISION + 1))
    with pytest.raises(ChangeRefusedError, match="b is not in sync"):
        await master.ask("b")
    with pytest.raises(ChangeRefusedError, match="no other replica is in sync"):
        await master.ask()
    master.assert_goes_on()


@on_loop
async def test_a_replica_with_a_full_disk_does_not_become_the_master() -> None:
    master = _Master()
    b, c = master.link.view.replicas[1:]
    b.lacks_space = True
    with pytest.raises(ChangeRefusedError, match="b has a disk that is nearly full, and would refuse messages"):
        await master.ask("b")
    c.lacks_space = True
    with pytest.raises(ChangeRefusedError, match=r"the next master are nearly full \(b, c\)\. Free disk space"):
        await master.ask()
    master.assert_goes_on()
    c.lacks_space = False
    master.report(C, 100)
    assert (await master.ask()).master == "c"  # b has as much of the log


@on_loop
async def test_one_switch_at_a_time_and_none_while_the_set_changes() -> None:
    master = _Master()
    asking = asyncio.create_task(master.ask("c"))
    await eventually(lambda: master.held.is_holding)
    with pytest.raises(ChangeRefusedError, match="another switch is in progress"):
        await master.ask("b")
    await master.hand_over.close()  # the role ends meanwhile
    asking.cancel()
    assert not master.held.is_holding
    async with master.hand_over.changing:
        with pytest.raises(ChangeRefusedError, match="the in-sync set is being changed"):
            await master.ask("b")
    master.assert_goes_on()


def _raising(error: LiteMQError) -> Callable[[], Any]:
    def call() -> None:
        raise error

    return call
