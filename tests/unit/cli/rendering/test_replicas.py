"""States of replicas, as `litemq cluster status` shows them."""

from __future__ import annotations

import pytest

from litemq.cli.rendering.replicas import cut_off_notes, group_value, replica_rows
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


def test_what_was_cut_off_is_named_until_it_is_deleted() -> None:
    replica = ReplicaInfo("a", "host:1", False, True, True, 1, 100, 0, 0, "00", 90, 0, 24, cut_at=1_000)
    others = replica._replace(broker_id="b", bytes_cut=0, cut_at=0)
    value = group_value(ReplicaGroupInfo("orders", 1, 3, 2, 1, (replica, others), "", False, 1))
    assert cut_off_notes([value]) == (
        "a keeps 24 bytes that its masters lacked, in files cut-off-… in its data directory; the last is of "
        "1970-01-01T00:00:01.000Z. When you have checked them, delete the files.\n"
    )
    assert [row["cut_at"] for row in replica_rows([value])] == ["1970-01-01T00:00:01.000Z", ""]
