"""Replicated groups in the NameServer's answers."""

from __future__ import annotations

from litemq.client.engine.replicas import ReplicaGroupInfo, ReplicaInfo
from litemq.proto.wire_pb2 import ReplicaGroup

__all__ = ["describe_replicas"]


def describe_replicas(view: ReplicaGroup) -> ReplicaGroupInfo:
    """Return the group in ``view``."""
    members = frozenset(view.members)
    replicas = tuple(
        ReplicaInfo(
            each.broker_id,
            f"{each.host}:{each.port}",
            view.is_leased and each.store_id == view.holder,
            each.store_id in members,
            each.alive,
            each.last_epoch,
            each.log_end,
            each.heard_ms_ago,
        )
        for each in view.replicas
    )
    return ReplicaGroupInfo(
        view.name, view.epoch, view.configured, view.min_in_sync, len(members), replicas, view.obstacle
    )
