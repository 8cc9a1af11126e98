"""The replicated groups at a NameServer: reports of their replicas, leases, elections.

The facts are in the ``GroupStore``, which all NameServers share. Each of them has its own reports.
Any of them elects a master when a group has no lease: the store accepts one election.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable, Coroutine
from dataclasses import replace
from typing import Any, Final

from google.protobuf.message import DecodeError

from litemq.clock import Clock
from litemq.errors import (
    ChangeRefusedError,
    ClusterStoreUnavailableError,
    GroupFactsLostError,
    LiteMQError,
    MasterLeaseLostError,
    OverloadedError,
    ProtocolError,
)
from litemq.nameserver.cluster_store.groups import MAX_GROUPS, GroupFact, GroupGone, GroupState, GroupStore
from litemq.nameserver.config import NameServerLimits
from litemq.nameserver.election import MAX_CLOCK_DEVIATION_MS, NoMaster, Obstacle, elect_master
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
_RECORD_MS: Final = 10_000  # between two records of what is confirmed
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
        self._since = clock.elapsed_ns()  # what was said before, this NameServer has not heard
        self._versions = time.time_ns()  # differs from those of an earlier process
        self._groups: dict[str, ReportedGroup] = {}
        self._health = StoreHealth(store)
        self._store_checked_at = 0
        self._tasks: set[asyncio.Task[None]] = set()
        self._services: dict[int, Callable[[Caller, Frame], Coroutine[Any, Any, bytes | None]]] = {
            Opcode.REPORT_REPLICA: self._report,
            Opcode.RENEW_MASTER: self._renew,
            Opcode.CHANGE_IN_SYNC: self._change,
            Opcode.LIST_REPLICA_GROUPS: self._list,
            Opcode.HAND_OVER: self._hand_over,
            **OperatorRequests(store, limits, clock, self._groups, since=self._since).services,
        }

    @property
    def opcodes(self) -> frozenset[int]:
        """The requests that ``handle`` takes."""
        return frozenset(self._services)

    async def run(self) -> None:
        """Follow the store, and elect masters, until cancelled."""
        async with contextlib.aclosing(self._store.watch()) as changes:
            async for change in changes:
                if isinstance(change, GroupGone):
                    self._facts_gone(change.name)
                else:
                    self._state_changed(change)

    def _state_changed(self, state: GroupState) -> None:
        try:
            group = self._group(state.fact.name)
        except OverloadedError as error:
            _LOG.error("group %s is not served: %s", state.fact.name, error)
            return
        if group.state != state:
            if group.state is None or group.state.fact != state.fact:
                group.fact_at = self._clock.elapsed_ns()
            group.change_state(state)
            if not group.is_outdated:
                group.note_fact(state.fact)
                group.lost_since = None
                if state.is_leased:
                    group.obstacle = ""
            self._changed(group)
        self._consider(group)

    def _facts_gone(self, name: str) -> None:
        """Forget the fact of a group. If it had a master, only an operator can replace the fact."""
        group = self._groups.get(name)
        if group is None or group.state is None:
            return
        had_master = group.state.fact.epoch > 0
        group.state, group.obstacle, group.lost_since = None, "", None
        if had_master and group.alive(self._clock.elapsed_ns()):  # their reports may be older than its first record
            self._note_obstacle(
                group,
                f"the cluster store has lost the facts of this group. Run `litemq cluster recover {name}`",
                is_lost=True,
            )
        else:
            self._changed(group)

    def sweep(self) -> None:
        """Elect the masters that are missing. The process calls it regularly."""
        now = self._clock.elapsed_ns()
        for group in list(self._groups.values()):
            if group.is_unused(now):
                del self._groups[group.name]
            else:
                group.forget_replaced(now)
                self._consider(group)
                if not group.is_outdated:
                    self._record_confirmed(group, now)
        if now - self._store_checked_at >= _STORE_CHECK_MS * _MS:
            self._store_checked_at = now
            self._start(self._health.check(next(iter(self._groups), None)))

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
            for timer in [timer for timer, (each, _) in group.waiting.items() if each is caller]:
                timer.cancel()
                del group.waiting[timer]
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
            for timer in group.waiting:
                timer.cancel()

    # Requests -------------------------------------------------------------------------------------

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
            self._changed(group)
        if group.state is None and not group.is_changing:
            self._begin(group, report)
        self._consider(group)
        if report.known_version != group.version or not report.wait_ms:
            return self._view(group)
        wait_s = min(report.wait_ms, _MAX_WAIT_MS) / 1000
        timer: asyncio.TimerHandle
        timer = self._loop.call_later(wait_s, lambda: self._end_wait(group, timer))
        group.waiting[timer] = caller, frame
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
        if abs(successor.deviation_ms) > MAX_CLOCK_DEVIATION_MS:
            raise ChangeRefusedError(
                f"group {fact.name}: the clock of {successor.report.broker_id} is {successor.deviation_ms} ms off. "
                f"Set it: a master may be at most {MAX_CLOCK_DEVIATION_MS} ms off",
                None,
            )
        after = replace(group.with_settings(fact, now), epoch=fact.epoch + 1, holder=asked.successor)
        after = replace(after, confirmed=group.confirmed(fact))
        with self._health.asking():
            after = await self._store.hand_over(fact, after, self._limits.master_lease_ms)
        group.note_fact(after)
        _LOG.warning("group %s: %s is the master of epoch %d", fact.name, successor.report.broker_id, after.epoch)
        return view_of(GroupState(after, is_leased=True)).SerializeToString()

    async def _fact_of(self, asked: ChangeInSyncRequest | HandOverRequest) -> GroupFact:
        """Return the fact of a group, or raise unless it is the one that its master knows."""
        state = await self._read(self._group(check_name(asked.group, "group")))
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
        now, problem = self._clock.elapsed_ns(), self._health.problem
        views = [self._groups[name].view(now, problem, self._store.identity) for name in sorted(self._groups)]
        return ReplicaGroupsAnswer(groups=views).SerializeToString()

    # Elections ------------------------------------------------------------------------------------

    async def _read(self, group: ReportedGroup) -> GroupState | None:
        """Read the state of ``group``; raise ``GroupFactsLostError`` if it is from an old copy."""
        latest = group.latest  # of before: what is seen during the read may be later than its answer
        with self._health.asking():
            state = await self._store.read(group.name)
        if state is None or not latest.outdates(state.fact):
            return state
        explanation = (  # not an error: kept in a variable here, it would be part of a reference cycle
            f"the cluster store was restored from an old copy: it has epoch {state.fact.epoch} and revision "
            f"{state.fact.revision} of this group, but epoch {latest.epoch} and revision {latest.revision} were there "
            f"before. Run `litemq cluster recover {group.name}`"
        )
        self._note_obstacle(group, explanation, is_lost=True)
        raise GroupFactsLostError(explanation)

    def _begin(self, group: ReportedGroup, report: ReplicaReport) -> None:
        """Create the facts of a new group, once all of its replicas have reported."""
        alive = group.alive(self._clock.elapsed_ns())
        grown = [each.broker_id for each in alive if each.last_epoch or each.known_epoch or each.cannot_open]
        if group.lost_since is not None and not grown:
            return  # their reports may be older than the records that make the facts lost
        if not grown and len(alive) < report.replicas:
            started = (
                f"{len(alive)} of {report.replicas} replicas {'has' if len(alive) == 1 else 'have'} started: "
                "the group begins with all of them"
            )
            self._set_obstacle(group, started)
            return
        members = frozenset(each.store_id for each in alive)
        fact = GroupFact(group.name, 0, b"", members, report.min_in_sync, report.segment_bytes)
        group.is_changing = True
        self._start(self._check_lost(group, sorted(grown)) if grown else self._create(group, fact))

    async def _check_lost(self, group: ReportedGroup, grown: list[str]) -> None:
        """Say that the store lost a group whose replicas ``grown`` have records, if it says so."""
        try:
            with self._health.asking():
                state = await self._store.read(group.name)
            if state is None and group.state is None:  # it may have been recovered since
                have = "has" if len(grown) == 1 else "have"
                self._note_obstacle(
                    group,
                    f"the cluster store does not know this group, but {', '.join(grown)} {have} records. "
                    f"Run `litemq cluster recover {group.name}`",
                    is_lost=True,
                )
        except LiteMQError as error:
            self._note_obstacle(group, str(error), is_lost=isinstance(error, GroupFactsLostError))
        finally:
            group.is_changing = False

    async def _create(self, group: ReportedGroup, fact: GroupFact) -> None:
        try:
            with self._health.asking():
                await self._store.create(fact)
        except ChangeRefusedError as error:  # another NameServer was faster
            _LOG.debug("%s", error)
        except LiteMQError as error:
            self._note_obstacle(group, str(error), is_lost=isinstance(error, GroupFactsLostError))
        finally:
            group.is_changing = False

    def _consider(self, group: ReportedGroup) -> None:
        """Elect a master if the group has no lease, or see whether its fact is lost."""
        if group.is_changing or group.state is None:
            return
        listening_ms = (self._clock.elapsed_ns() - self._since) // _MS
        is_leaderless = not group.state.is_leased and listening_ms >= self._limits.replica_silence_ms
        if is_leaderless or (group.is_outdated and group.lost_since is None):
            group.is_changing = True
            self._start(self._elect(group))

    async def _elect(self, group: ReportedGroup) -> None:
        try:
            state = await self._read(group)
            if state is None or state.is_leased:
                return
            now = self._clock.elapsed_ns()
            fact = state.fact
            outcome = elect_master(group.with_settings(fact, now), group.candidates(now, last_master=fact.holder))
            if isinstance(outcome, NoMaster):
                is_lost = outcome.obstacle is Obstacle.FACT_OUTDATED
                self._note_obstacle(group, outcome.explanation, is_lost=is_lost)
                return
            # Not before: reports may be older than that of the master.
            outcome = replace(outcome, confirmed=group.confirmed(fact))
            with self._health.asking():
                elected = await self._store.elect(fact, outcome, self._limits.master_lease_ms)
            group.note_fact(elected)
            master = group.replicas[elected.holder].report
            _LOG.warning("group %s: %s is the master of epoch %d", group.name, master.broker_id, elected.epoch)
        except ChangeRefusedError as error:  # another NameServer was faster
            _LOG.debug("%s", error)
        except GroupFactsLostError:  # the obstacle says so
            pass
        except LiteMQError as error:
            self._note_obstacle(group, str(error))
        finally:
            group.is_changing = False

    def _record_confirmed(self, group: ReportedGroup, now: int) -> None:
        """Store now and then what is confirmed: a member that lacks it later is not elected.

        If the set has changed meanwhile, the store refuses: a new member may lack it.
        """
        if group.state is None or group.is_changing or now - group.fact_at < _RECORD_MS * _MS:
            return
        fact = group.state.fact
        confirmed = group.confirmed(fact)
        if confirmed != fact.confirmed:
            group.is_changing = True
            self._start(self._record(group, fact, replace(fact, confirmed=confirmed)))

    async def _record(self, group: ReportedGroup, before: GroupFact, after: GroupFact) -> None:
        try:
            with self._health.asking():
                await self._store.change(before, after)
        except LiteMQError as error:  # tried again, or another NameServer was faster
            _LOG.debug("%s", error)
        finally:
            group.is_changing = False

    def _note_obstacle(self, group: ReportedGroup, obstacle: str, *, is_lost: bool = False) -> None:
        if is_lost and group.lost_since is None:
            group.lost_since = self._clock.elapsed_ns()
        if self._set_obstacle(group, obstacle):
            is_stopped = all(each.is_stopping for each in group.replicas.values())  # as an operator wants it
            level = logging.INFO if is_stopped else logging.WARNING
            _LOG.log(level, "group %s has no master: %s", group.name, obstacle)

    def _set_obstacle(self, group: ReportedGroup, obstacle: str) -> bool:
        """Publish why ``group`` has no master; return whether that is new."""
        is_new = obstacle != group.obstacle
        if is_new:
            group.obstacle = obstacle
            self._changed(group)
        return is_new

    # Answers --------------------------------------------------------------------------------------

    def _group(self, name: str) -> ReportedGroup:
        group = self._groups.get(name)
        if group is None:
            if len(self._groups) >= MAX_GROUPS:
                raise OverloadedError(f"this NameServer has {MAX_GROUPS} groups already", 1000)
            group = self._groups[name] = ReportedGroup(name, self._next_version(), self._limits)
        return group

    def _next_version(self) -> int:
        self._versions += 1
        return self._versions

    def _changed(self, group: ReportedGroup) -> None:
        """Answer all who wait for a change of ``group``."""
        group.version = self._next_version()
        view = self._view(group)
        for timer, (caller, frame) in group.waiting.items():
            timer.cancel()
            caller.answer(frame, view)
        group.waiting.clear()

    def _end_wait(self, group: ReportedGroup, timer: asyncio.TimerHandle) -> None:
        caller, frame = group.waiting.pop(timer)
        caller.answer(frame, self._view(group))

    def _view(self, group: ReportedGroup) -> bytes:
        view = group.view(self._clock.elapsed_ns(), self._health.problem, self._store.identity)
        return view.SerializeToString()
