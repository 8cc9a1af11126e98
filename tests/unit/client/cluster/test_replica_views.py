"""Why no replica of a group serves clients: the silent ones, since when, and the needed ones."""

import pytest

from litemq.client.cluster.replica_views import describe_outage
from litemq.proto.wire_pb2 import ReplicaFacts, ReplicaGroup

A, B, C = (bytes([number]) * 16 for number in (1, 2, 3))
NOW = 1_700_000_000_000  # 2023-11-14 22:13:20 UTC


def _view(*alive: bytes, members: tuple[bytes, ...] = (A, B), is_leased: bool = False, obstacle: str = "") -> str:
    replicas = [
        ReplicaFacts(store_id=store, broker_id=name, alive=store in alive, heard_ms_ago=0 if store in alive else 20_000)
        for store, name in ((A, "a"), (B, "b"), (C, "c"))
    ]
    view = ReplicaGroup(name="orders", members=members, is_leased=is_leased, obstacle=obstacle, replicas=replicas)
    return describe_outage(view, NOW)


def test_a_group_with_a_master_serves() -> None:
    assert _view(A, is_leased=True) == ""
    assert _view(A, B, C, is_leased=True) == ""


@pytest.mark.parametrize("is_leased", [False, True])  # the lease of a killed master lasts a little longer
def test_all_replicas_are_silent(is_leased: bool) -> None:
    assert _view(is_leased=is_leased, obstacle="no member is alive") == (
        "the group orders has no master: all replicas are silent. Silent: a since 2023-11-14 22:13:00, "
        "b since 2023-11-14 22:13:00, c since 2023-11-14 22:13:00 UTC. "
        "Start one of a, b: each of them has all confirmed messages"
    )


def test_only_a_replica_that_is_not_in_sync_lives() -> None:
    said = "no member of the in-sync set is alive. Start one of its replicas: a, b"
    assert _view(C, obstacle=said) == (
        f"the group orders has no master: {said}. Silent: a since 2023-11-14 22:13:00, b since 2023-11-14 22:13:00 UTC"
    )


def test_an_election_is_in_progress() -> None:
    assert _view(A, B, C) == "the group orders has no master: the election is in progress"
    assert _view(B, C) == (
        "the group orders has no master: the election is in progress. Silent: a since 2023-11-14 22:13:00 UTC"
    )


def test_a_nameserver_that_has_just_started_has_no_reports() -> None:
    view = ReplicaGroup(name="orders", members=(A,), is_leased=True)
    assert describe_outage(view, NOW) == ""
    view.is_leased = False
    assert describe_outage(view, NOW).startswith(
        "the group orders has no master: no replica has reported to this NameServer yet"
    )


def test_an_unknown_replica_is_named_by_its_store() -> None:
    """The NameServer was restarted, and has heard nothing of it."""
    assert f"Start one of a, store {b'xxxxxxxxxxxxxxxx'.hex()}" in _view(C, members=(A, b"x" * 16))
