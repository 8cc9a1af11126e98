"""Replicated groups in the NameServer's answers: their replicas, and why a group cannot serve."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime

from litemq.client.engine.replicas import ReplicaGroupInfo, ReplicaInfo
from litemq.proto.wire_pb2 import ReplicaFacts, ReplicaGroup

__all__ = ["describe_members", "describe_outage", "describe_replicas"]


def describe_replicas(view: ReplicaGroup) -> ReplicaGroupInfo:
    """Return the group in ``view``."""
    members = frozenset(view.members)
    return ReplicaGroupInfo(
        view.name,
        view.epoch,
        view.configured,
        view.min_in_sync,
        len(members),
        describe_members(view.replicas, members, view.holder if view.is_leased else b""),
        view.obstacle,
        view.facts_lost,
        view.revision,
        tuple(view.warnings),
        view.highest_confirm,
        view.highest_confirm_of,
        view.highest_confirm_ms_ago,
    )


def describe_members(
    replicas: Iterable[ReplicaFacts], members: frozenset[bytes], master: bytes
) -> tuple[ReplicaInfo, ...]:
    """Return ``replicas``. ``master`` is a store id; empty: there is none."""
    replicas = list(replicas)
    log_end = next((each.log_end for each in replicas if each.store_id == master), None)
    return tuple(
        ReplicaInfo(
            each.broker_id,
            f"{each.host}:{each.port}",
            each.store_id == master,
            each.store_id in members,
            each.alive,
            each.last_epoch,
            each.log_end,
            each.heard_ms_ago,
            each.damaged_stretches,
            each.store_id.hex(),
            each.confirm,
            None if log_end is None else max(0, log_end - each.log_end),
            each.bytes_cut,
            each.problem,
            each.cut_at_ms,
        )
        for each in replicas
    )


def describe_outage(view: ReplicaGroup, wall_ms: int) -> str:
    """Return why no replica of the group in ``view`` serves clients; empty: its master does."""
    silent = [each for each in view.replicas if not each.alive]
    is_down = bool(silent) and len(silent) == len(view.replicas)  # its lease may last a little longer
    if view.is_leased and not is_down:
        return ""
    members = frozenset(view.members)
    names = {each.store_id: each.broker_id for each in view.replicas}
    since = [
        f"{each.broker_id} since {datetime.fromtimestamp((wall_ms - each.heard_ms_ago) / 1000, UTC):%Y-%m-%d %H:%M:%S}"
        for each in silent
    ]
    unheard = "the election is in progress" if view.replicas else "no replica has reported to this NameServer yet"
    reason = "all replicas are silent" if is_down else view.obstacle or unheard
    text = f"the group {view.name} has no master: {reason}"
    if since:
        text += f". Silent: {', '.join(since)} UTC"
    is_said = bool(view.obstacle) and not is_down  # the obstacle says what to do
    alive = [each.store_id for each in view.replicas if each.alive]
    if members and view.replicas and not is_said and members.isdisjoint(alive):
        needed = ", ".join(sorted(names.get(member, f"store {member.hex()}") for member in members))
        text += f". Start one of {needed}: each of them has all confirmed messages"
    return text
