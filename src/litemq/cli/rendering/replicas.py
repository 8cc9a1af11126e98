"""Output of replicated groups: one row per replica."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final

from litemq.cli.rendering.messages import format_time

if TYPE_CHECKING:
    from litemq.client.engine.replicas import ReplicaGroupInfo, ReplicaInfo

__all__ = ["REPLICA_COLUMNS", "cut_off_notes", "describe_state", "group_value", "replica_rows"]

REPLICA_COLUMNS: Final = ("group", "epoch", "replica", "address", "role", "state", "log_end", "lag", "bytes_cut")


def group_value(group: ReplicaGroupInfo) -> dict[str, object]:
    """Return a group for JSON and YAML."""
    return {
        "group": group.name,
        "epoch": group.epoch,
        "master": group.master.broker_id if group.master else None,
        "min_in_sync": group.min_in_sync,
        "replicas": [_replica(each, facts_lost=group.facts_lost) for each in group.replicas],
        "problems": group.problems,
    }


def replica_rows(groups: Iterable[Mapping[str, Any]]) -> list[dict[str, object]]:
    """Return a table's rows, of the values of groups: one per replica."""
    return [
        {"group": group["group"], "epoch": group["epoch"], **replica}
        for group in groups
        for replica in group["replicas"]
    ]


def cut_off_notes(groups: Iterable[Mapping[str, Any]]) -> str:
    """Return what to do with the parts of logs that were cut off, of the values of groups."""
    return "".join(
        f"{replica['replica']} keeps {replica['bytes_cut']} bytes that its masters lacked, in files cut-off-… in its "
        f"data directory; the last is of {replica['cut_at']}. When you have checked them, delete the files.\n"
        for group in groups
        for replica in group["replicas"]
        if replica["bytes_cut"]
    )


def _replica(replica: ReplicaInfo, *, facts_lost: bool) -> dict[str, object]:
    return {
        "replica": replica.broker_id,
        "address": replica.address,
        "role": "master" if replica.is_master else "follower",
        "state": describe_state(replica, facts_lost=facts_lost),
        "log_end": replica.log_end,
        "damaged_stretches": replica.damaged_stretches,
        "lag": replica.lag,
        "bytes_cut": replica.bytes_cut,
        "cut_at": format_time(replica.cut_at) if replica.cut_at else "",
    }


def describe_state(replica: ReplicaInfo, *, facts_lost: bool) -> str:
    """Return the state of a replica. With lost facts, it is not known whether it is in sync."""
    if facts_lost:
        return "alive" if replica.alive else "silent"
    if not replica.alive:
        return "silent, in sync" if replica.in_sync else "silent"  # the first may become the master
    return "in sync" if replica.in_sync else "catching up"
