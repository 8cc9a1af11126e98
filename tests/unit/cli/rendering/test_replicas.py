"""States of replicas, as `litemq cluster status` shows them."""

from __future__ import annotations

import pytest

from litemq.cli.rendering.replicas import group_value, replica_rows
from litemq.client.engine.replicas import ReplicaGroupInfo, ReplicaInfo


@pytest.mark.parametrize(
    ("alive", "in_sync", "state"),
    [
        (True, True, "in sync"),
        (True, False, "catching up"),
        (False, True, "silent, in sync"),  # start this one
        (False, False, "silent"),
    ],
)
def test_a_state_says_whether_the_replica_may_become_the_master(alive: bool, in_sync: bool, state: str) -> None:
    replica = ReplicaInfo("a", "host:1", False, in_sync, alive, 1, 100, 2_500, 0, "00", 90, 0, 0)
    group = ReplicaGroupInfo("orders", 1, 3, 2, 1, (replica,), "", False, 1)
    [row] = replica_rows([group_value(group)])
    assert row["state"] == state
    [row] = replica_rows([group_value(group._replace(facts_lost=True))])
    assert row["state"] == ("alive" if alive else "silent")  # the in-sync set is not known
