"""The requests of replicas at a NameServer: reports, leases, changes of the in-sync set.

The facts of groups are in the ``GroupStore``, which all NameServers share. Each of them has its own
reports.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Coroutine
from dataclasses import replace
from typing import Any, Final

from google.protobuf.message import DecodeError

from litemq.clock import Clock
from litemq.errors import (
    ChangeRefusedError,
    ClusterStoreUnavailableError,
    LiteMQError,
    MasterLeaseLostError,
    OverloadedError,
    ProtocolError,
)
from litemq.nameserver.cluster_store.groups import MAX_GROUPS, GroupFact, GroupState, GroupStore
from litemq.nameserver.config import NameServerLimits
from litemq.nameserver.election import MAX_CLOCK_DEVIATION_MS
from litemq.nameserver.elector import Elector
from litemq.nameserver.group_views import GroupViews
from litemq.nameserver.operator_requests import OperatorRequests
from litemq.nameserver.reported_group import (
    Caller,
    ReportedGroup,
    ReportedReplica,
    address_of,
    check_report,
    view_of,
)
from litemq.nameserver.store_health import StoreHealth
from litemq.net.frame import Frame
from litemq.proto.wire_pb2 import (
    ChangeInSyncRequest,
    HandOverRequest,
    Opcode,
    RenewMasterAnswer,
    RenewMasterRequest,
    ReplicaGroupsAnswer,
    ReplicaReport,
)
from litemq.types import check_name

__all__ = ["ReplicaGroups"]

_MAX_WAIT_MS: Final = 30_000
_STORE_CHECK_MS: Final = 2_000
_RENEW_S: Final = 1.5  # less than a master waits: else it would blame this NameServer
_MS: Final = 1_000_000
_LOG = logging.getLogger(__name__)


class ReplicaGroups:
    """The requests of replicas, on the event loop on which it is created."""

    def __init__(self, store: GroupStore, limits: NameServerLimits, clock: Clock) -> None:
        self._store = store
        self._limits = limits
        self._clock = clock
        self._loop = asyncio.get_running_loop()
        self._groups: dict[str, ReportedGroup] = {}
        self._health = StoreHealth(store, self._health_changed)
        self._store_checked_at = 0
        self._tasks: set[asyncio.Task[None]] = set()
        since = clock.elapsed_ns()  # what was said before, this NameServer has not heard
        self._views = GroupViews(store, clock, self._health)
        self._elector = Elector(store, limits, clock, self._health, self._views, start=self._start, since=since)
        self._services: dict[int, Callable[[Caller, Frame], Coroutine[Any, Any, bytes | None]]] = {
            Opcode.REPORT_REPLICA: self._report,
            Opcode.RENEW_MASTER: self._renew,
            Opcode.CHANGE_IN_SYNC: self._change,
            Opcode.LIST_REPLICA_GROUPS: self._list,
            Opcode.HAND_OVER: self._hand_over,
            **OperatorRequests(store, limits, clock, self._groups, since=since).services,
        }

    @property
    def opcodes(self) -> frozenset[int]:
        """The requests that ``handle`` takes."""
        return frozenset(self._services)

    async def run(self) -> None:
        """Follow the store, and elect masters, until cancelled."""
        async with contextlib.aclosing(self._store.watch()) as changes:
            async for change in changes:
                if isinstance(change, GroupState):
                    self._state_changed(change)
                elif change.name in self._groups:
                    self._elector.facts_gone(self._groups[change.name])

    def _state_changed(self, state: GroupState) -> None:
        try:
            group = self._group(state.fact.name)
        except OverloadedError as error:
            _LOG.error("group %s is not served: %s", state.fact.name, error)
        else:
            self._elector.state_changed(group, state)

    def sweep(self) -> None:
        """Elect the masters that are missing. The process calls it regularly."""
        now = self._clock.elapsed_ns()
        for group in list(self._groups.values()):
            if group.is_unused(now):
                del self._groups[group.name]
            else:
                group.forget_replaced(now)
                self._elector.consider(group)
                if not group.is_outdated:
                    self._elector.record_confirmed(group, now)
        if now - self._store_checked_at >= _STORE_CHECK_MS * _MS:
            self._store_checked_at = now
            self._start(self._health.check(next(iter(self._groups), None)))

    def _health_changed(self) -> None:
        for group in self._groups.values():
            self._views.changed(group)

    def handle(self, caller: Caller, frame: Frame) -> None:
        """Answer a request, which may take a while."""
        self._start(self._answer(caller, frame))

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _answer(self, caller: Caller, frame: Frame) -> None:
        try:
            answer = await self._services[frame.opcode](caller, frame)
        except DecodeError as error:
            caller.refuse(frame, ProtocolError(f"invalid header of opcode {frame.opcode}: {error}"))
        except LiteMQError as error:
            caller.refuse(frame, error)
        else:
            if answer is not None:
                caller.answer(frame, answer)

    def caller_gone(self, caller: Caller) -> None:
        """Drop the waiting requests of ``caller``."""
        for group in self._groups.values():
            self._views.drop(group, caller)
            for replica in group.replicas.values():
                if replica.caller is caller:
                    replica.caller = None

    async def close(self) -> None:
        """End all work."""
        for task in list(self._tasks):
            task.cancel()
        for task in list(self._tasks):
            with contextlib.suppress(asyncio.CancelledError):
                await task
        for group in self._groups.values():
            self._views.drop(group)

    async def _report(self, caller: Caller, frame: Frame) -> bytes | None:
        report = ReplicaReport.FromString(frame.header)
        check_report(report)
        group = self._group(report.group)
        now = self._clock.elapsed_ns()
        known = group.replicas.get(report.store_id)
        deviation = report.wall_ms - self._clock.wall_ms()
        try:
            group.admit(report, now)
        except LiteMQError as error:
            if group.refused.add(report, str(error).removeprefix(f"group {group.name}: "), now):
                _LOG.warning("%s at %s:%d is refused: %s", report.broker_id, report.host, report.port, error)
            raise
        group.refused.remove(report)
        before = known.report.problem if known is not None else ""
        if report.problem and (not before or (report.is_stopping and report.problem != before)):
            _LOG.warning("group %s: %s: %s", group.name, report.broker_id, report.problem)
        group.replicas[report.store_id] = ReportedReplica(report, caller, now, deviation)
        group.note_report(report, now)
        if known is None or not group.is_alive(known, now) or address_of(known.report) != address_of(report):
            self._views.changed(group)
        if group.state is None and not group.is_changing:
            self._elector.begin(group, report)
        self._elector.consider(group)
        if group.state is not None and _has_not_begun(group.state.fact, report):
            _check_clock(group.name, report.broker_id, deviation)
        if report.known_version != group.version or not report.wait_ms:
            return self._views.view(group).SerializeToString()
        self._views.answer_later(group, caller, frame, min(report.wait_ms, _MAX_WAIT_MS) / 1000)
        return None

    async def _renew(self, _caller: Caller, frame: Frame) -> bytes:
        asked = RenewMasterRequest.FromString(frame.header)
        name = check_name(asked.group, "group")
        group = self._groups.get(name)
        if asked.releases:
            known = group.replicas.get(asked.store_id) if group is not None else None
            if known is not None:
                known.is_stopping = True  # its next report says so, too
            with self._health.asking():
                await self._store.release(name, asked.epoch, asked.store_id)
            return RenewMasterAnswer().SerializeToString()
        if group is not None and group.is_outdated and group.lost_since is not None:
            raise MasterLeaseLostError(f"group {name}: {group.obstacle}")
        with self._health.asking():
            try:
                async with asyncio.timeout(_RENEW_S):
                    lease_ms = await self._store.renew(name, asked.epoch, asked.store_id)
            except TimeoutError:
                raise ClusterStoreUnavailableError(
                    f"no answer from {self._store.place} within {_RENEW_S:g} s"
                ) from None
        return RenewMasterAnswer(lease_ms=lease_ms).SerializeToString()

    async def _change(self, _caller: Caller, frame: Frame) -> bytes:
        asked = ChangeInSyncRequest.FromString(frame.header)
        fact = await self._fact_of(asked)
        with self._health.asking():
            confirmed = self._group(fact.name).confirmed(fact)
            after = replace(fact, members=frozenset(asked.members), confirmed=confirmed)
            after = await self._store.change(fact, after)
        self._group(fact.name).note_fact(after)
        return view_of(GroupState(after, is_leased=True)).SerializeToString()

    async def _hand_over(self, _caller: Caller, frame: Frame) -> bytes:
        """Begin the next epoch for a master that has stopped, with its successor as the master."""
        asked = HandOverRequest.FromString(frame.header)
        fact = await self._fact_of(asked)
        group, now = self._group(fact.name), self._clock.elapsed_ns()
        successor = group.replicas.get(asked.successor)
        if successor is None or not group.is_alive(successor, now):
            raise ChangeRefusedError(f"group {fact.name}: the next master does not report to this NameServer", None)
        if asked.successor not in fact.members:
            raise ChangeRefusedError(f"group {fact.name}: {successor.report.broker_id} is not in sync", None)
        if successor.report.lacks_space:
            raise ChangeRefusedError(
                f"group {fact.name}: the disk of {successor.report.broker_id} is nearly full", None
            )
        _check_clock(fact.name, successor.report.broker_id, successor.deviation_ms)
        after = replace(group.with_settings(fact, now), epoch=fact.epoch + 1, holder=asked.successor)
        after = replace(after, confirmed=group.confirmed(fact))
        with self._health.asking():
            after = await self._store.hand_over(fact, after, self._limits.master_lease_ms)
        group.note_fact(after)
        _LOG.warning("group %s: %s is the master of epoch %d", fact.name, successor.report.broker_id, after.epoch)
        return view_of(GroupState(after, is_leased=True)).SerializeToString()

    async def _fact_of(self, asked: ChangeInSyncRequest | HandOverRequest) -> GroupFact:
        """Return the fact of a group, or raise unless it is the one that its master knows."""
        state = await self._elector.read(self._group(check_name(asked.group, "group")))
        if state is None:
            raise ChangeRefusedError(f"group {asked.group} is not in the cluster store", None)
        fact = state.fact
        if (fact.epoch, fact.holder, fact.revision) != (asked.epoch, asked.store_id, asked.revision):
            raise ChangeRefusedError(
                f"group {asked.group} is at epoch {fact.epoch}, revision {fact.revision}: the in-sync set was changed",
                state,
            )
        return fact

    async def _list(self, _caller: Caller, _frame: Frame) -> bytes:
        views = [self._views.view(self._groups[name]) for name in sorted(self._groups)]
        return ReplicaGroupsAnswer(groups=views).SerializeToString()

    def _group(self, name: str) -> ReportedGroup:
        group = self._groups.get(name)
        if group is None:
            if len(self._groups) >= MAX_GROUPS:
                raise OverloadedError(f"this NameServer has {MAX_GROUPS} groups already", 1000)
            group = self._groups[name] = ReportedGroup(name, self._views.next_version(), self._limits)
        return group


def _has_not_begun(fact: GroupFact, report: ReplicaReport) -> bool:
    """Return whether the replica was elected, and has written nothing in its epoch yet.

    It may have been restarted since the election, with another clock.
    """
    return report.store_id == fact.holder and report.last_epoch < fact.epoch


def _check_clock(group: str, broker_id: str, deviation_ms: int) -> None:
    """Raise if a replica's clock is too far off for a master."""
    if abs(deviation_ms) > MAX_CLOCK_DEVIATION_MS:
        raise ChangeRefusedError(
            f"group {group}: the clock of {broker_id} is {deviation_ms} ms off. Set it: a master may be at most "
            f"{MAX_CLOCK_DEVIATION_MS} ms off",
            None,
        )
