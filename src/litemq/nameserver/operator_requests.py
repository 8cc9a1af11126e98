"""Requests of operators about replicated groups, for when an election cannot help."""

from __future__ import annotations

import logging
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, Final

from litemq.clock import Clock
from litemq.errors import ChangeRefusedError, InvalidArgumentError
from litemq.nameserver.cluster_store.groups import GroupFact, GroupState, GroupStore
from litemq.nameserver.config import NameServerLimits
from litemq.nameserver.forced_changes import elect_unclean, plan_recovery
from litemq.nameserver.reported_group import Caller, ReportedGroup, view_of
from litemq.net.frame import Frame
from litemq.proto.wire_pb2 import (
    ElectUncleanRequest,
    Opcode,
    RecoverGroupAnswer,
    RecoverGroupRequest,
    ReplicaReport,
)
from litemq.types import check_name

__all__ = ["OperatorRequests"]

_MS: Final = 1_000_000
_LOG = logging.getLogger(__name__)


class OperatorRequests:
    """Recovers lost facts, and makes a replica the master that may lack confirmed records."""

    def __init__(
        self,
        store: GroupStore,
        limits: NameServerLimits,
        clock: Clock,
        groups: Mapping[str, ReportedGroup],
        *,
        since: int,
    ) -> None:
        """``since`` is when this NameServer began to listen, on the elapsed-time clock (ns)."""
        self._since = since
        self._store = store
        self._limits = limits
        self._clock = clock
        self._groups = groups
        self.services: dict[int, Callable[[Caller, Frame], Coroutine[Any, Any, bytes | None]]] = {
            Opcode.RECOVER_GROUP: self._recover,
            Opcode.ELECT_UNCLEAN: self._elect_unclean,
        }

    async def _recover(self, _caller: Caller, frame: Frame) -> bytes:
        """Store the facts of a group that the cluster store lost, or plan that."""
        asked = RecoverGroupRequest.FromString(frame.header)
        group = self._known_group(asked.group)
        outdated = self._check_lost(group)
        now = self._clock.elapsed_ns()
        view = group.view(now)
        unflushed = [each.broker_id for each in group.alive(now) if each.flushed < each.log_end]
        if unflushed:
            raise ChangeRefusedError(
                f"group {group.name}: {', '.join(unflushed)} {'has' if len(unflushed) == 1 else 'have'} not synced "
                "the log to disk yet. Try again in 1 s",
                None,
            )
        settings = max(group.alive(now), key=lambda each: (each.last_epoch, each.log_end), default=ReplicaReport())
        plan = plan_recovery(
            group.name,
            [each for each in group.candidates(now) if each.is_alive],
            {each.store_id: each.broker_id for each in group.alive(now)},
            configured=max(view.configured, len(view.replicas)),
            min_in_sync=settings.min_in_sync,
            segment_bytes=settings.segment_bytes,
            known_epoch=group.known_epoch,
        )
        if asked.applies:
            if plan.uncertainty and not asked.forces:
                raise ChangeRefusedError(
                    f"group {group.name}: {plan.uncertainty}. Start the missing replicas, or use --force: what only "
                    "they have is lost then",
                    None,
                )
            group.note_fact(await self._store.recover(plan.fact, self._limits.master_lease_ms, outdated))
            _LOG.warning("the facts of group %s were recovered, at epoch %d", group.name, plan.fact.epoch)
        return RecoverGroupAnswer(
            epoch=plan.fact.epoch,
            members=sorted(plan.fact.members),
            replicas=view.replicas,
            configured=view.configured,
            uncertainty=plan.uncertainty,
            is_applied=asked.applies,
        ).SerializeToString()

    def _check_lost(self, group: ReportedGroup) -> GroupFact | None:
        """Raise unless the facts of ``group`` are lost; return the outdated fact, if there is one.

        The last master may write until its lease has ended, so only later reports count.
        """
        if group.lost_since is None or (group.state is not None and group.state.is_leased):
            raise ChangeRefusedError(
                f"group {group.name}: its facts are not lost. Run `litemq cluster status` to see what is wrong", None
            )
        passed_ms = (self._clock.elapsed_ns() - group.lost_since) // _MS
        wait_ms = self._limits.master_lease_ms + self._limits.replica_silence_ms - passed_ms
        if wait_ms > 0:
            raise ChangeRefusedError(
                f"group {group.name}: its last master may still write. Try again in {-(-wait_ms // 1000)} s", None
            )
        return group.state.fact if group.state is not None else None

    async def _elect_unclean(self, _caller: Caller, frame: Frame) -> bytes:
        """Make a replica the master that may lack confirmed records."""
        asked = ElectUncleanRequest.FromString(frame.header)
        group = self._known_group(asked.group)
        latest = group.latest
        state = await self._store.read(group.name)
        if state is not None and latest.outdates(state.fact):
            raise ChangeRefusedError(f"group {group.name}: its facts are lost. Recover them first", state)
        if state is None or state.fact.revision != asked.revision:
            raise ChangeRefusedError(f"group {group.name} has changed: look at it again", state)
        if state.is_leased:
            raise ChangeRefusedError(
                f"group {group.name} may still have a master: wait until its lease has ended, or use "
                f"`litemq cluster switch {group.name}`",
                state,
            )
        now = self._clock.elapsed_ns()
        if now - self._since < self._limits.replica_silence_ms * _MS:
            raise ChangeRefusedError(
                f"group {group.name}: this NameServer has just started, and may not have heard all replicas. "
                "Try again in a few seconds",
                state,
            )
        names = {store_id: each.report.broker_id for store_id, each in group.replicas.items()}
        chosen = next((store_id for store_id, name in names.items() if name == asked.replica), None)
        if chosen is None or not group.is_alive(group.replicas[chosen], now):
            raise ChangeRefusedError(f"group {group.name}: {asked.replica[:127]!r} does not report: start it", state)
        if group.replicas[chosen].report.cannot_open:
            raise ChangeRefusedError(
                f"group {group.name}: {asked.replica} cannot open its damaged log: choose another replica", state
            )
        after = elect_unclean(group.with_settings(state.fact, now), group.candidates(now), names, chosen)
        elected = await self._store.elect(state.fact, after, self._limits.master_lease_ms)
        group.note_fact(elected)
        _LOG.warning("group %s: %s is the master of epoch %d, by command", group.name, asked.replica, elected.epoch)
        return view_of(GroupState(elected, is_leased=True)).SerializeToString()

    def _known_group(self, name: str) -> ReportedGroup:
        group = self._groups.get(check_name(name, "group"))
        if group is None:
            raise InvalidArgumentError(f"this NameServer knows no replicated group {name}")
        return group
