"""The replicas of a group that serve reads beside its master."""

from __future__ import annotations

from litemq.proto.wire_pb2 import ReplicaGroup

__all__ = ["followers_in_sync"]


def followers_in_sync(group: ReplicaGroup) -> list[tuple[str, int]]:
    """Return the addresses of the live in-sync replicas of ``group`` other than its master."""
    return [
        (each.host, each.port)
        for each in group.replicas
        if each.alive and each.store_id in group.members and each.store_id != group.holder
    ]
