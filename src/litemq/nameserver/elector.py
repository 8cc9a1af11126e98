"""The facts of replicated groups: this NameServer begins groups, and elects their masters.

The facts are in the ``GroupStore``, which all NameServers share. Any of them elects a master when a
group has no lease: the store accepts one election.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Coroutine
from dataclasses import replace
from typing import Any, Final

from litemq.clock import Clock
from litemq.errors import ChangeRefusedError, GroupFactsLostError, LiteMQError
from litemq.nameserver.cluster_store.groups import GroupFact, GroupState, GroupStore
from litemq.nameserver.config import NameServerLimits
from litemq.nameserver.election import NoMaster, Obstacle, elect_master
from litemq.nameserver.group_views import GroupViews
from litemq.nameserver.reported_group import ReportedGroup
from litemq.nameserver.store_health import StoreHealth
from litemq.proto.wire_pb2 import ReplicaReport

__all__ = ["Elector"]

_RECORD_MS: Final = 10_000  # between two records of what is confirmed
_MS: Final = 1_000_000
_LOG = logging.getLogger(__name__)


class Elector:
    """Changes the facts of groups when no master asks for it."""

    def __init__(
        self,
        store: GroupStore,
        limits: NameServerLimits,
        clock: Clock,
        health: StoreHealth,
        views: GroupViews,
        *,
        start: Callable[[Coroutine[Any, Any, None]], object],
        since: int,
    ) -> None:
        """``start`` runs a task. For ``since``, see ``OperatorRequests``."""
        self._store = store
        self._limits = limits
        self._clock = clock
        self._health = health
        self._views = views
        self._start = start
        self._since = since

    def state_changed(self, group: ReportedGroup, state: GroupState) -> None:
        """The cluster store has ``state`` of ``group``."""
        if group.state != state:
            if group.state is None or group.state.fact != state.fact:
                group.fact_at = self._clock.elapsed_ns()
            group.change_state(state)
            if not group.is_outdated:
                group.note_fact(state.fact)
                group.lost_since = None
                if state.is_leased:
                    group.obstacle = ""
            self._views.changed(group)
        self.consider(group)

    def facts_gone(self, group: ReportedGroup) -> None:
        """Forget the fact of ``group``. If it had a master, only an operator can replace it."""
        if group.state is None:
            return
        had_master = group.state.fact.epoch > 0
        group.state, group.obstacle, group.lost_since = None, "", None
        if had_master and group.alive(self._clock.elapsed_ns()):  # their reports may be older than its first record
            self._note_obstacle(
                group,
                f"the cluster store has lost the facts of this group. Run `litemq cluster recover {group.name}`",
                is_lost=True,
            )
        else:
            self._views.changed(group)

    async def read(self, group: ReportedGroup) -> GroupState | None:
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

    def begin(self, group: ReportedGroup, report: ReplicaReport) -> None:
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

    def consider(self, group: ReportedGroup) -> None:
        """Elect a master if the group has no lease, or see whether its fact is lost."""
        if group.is_changing or group.state is None:
            return
        now = self._clock.elapsed_ns()
        group.was_whole |= len(group.alive(now)) >= group.configured > 0
        has_listened = group.was_whole or now - self._since >= self._limits.replica_silence_ms * _MS
        if (has_listened and not group.state.is_leased) or (group.is_outdated and group.lost_since is None):
            group.is_changing = True
            self._start(self._elect(group))

    async def _elect(self, group: ReportedGroup) -> None:
        try:
            state = await self.read(group)
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

    def record_confirmed(self, group: ReportedGroup, now: int) -> None:
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
            self._views.changed(group)
        return is_new
