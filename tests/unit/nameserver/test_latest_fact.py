"""Which facts of a group are from an old copy of the cluster store."""

from __future__ import annotations

import pytest

from litemq.nameserver.cluster_store.groups import GroupFact
from litemq.nameserver.latest_fact import EPOCH_GAP, LatestFact
from support.group_stores import A, B


def _fact(epoch: int, revision: int) -> GroupFact:
    return GroupFact("orders", epoch, A if epoch else b"", frozenset({A, B}), 2, 8, revision=revision)


@pytest.mark.parametrize(
    ("epoch", "revision", "is_outdated"),
    [
        (5, 100, False),
        (5, 101, False),
        (6, 101, False),
        (5, 99, True),  # an older in-sync set
        (4, 100, True),
        (4, 200, True),
        (6, 99, True),  # an election that was made from an old copy
        (0, 200, True),
        (5 + EPOCH_GAP, 1, False),  # recovered in another store
        (7 + EPOCH_GAP, 3, False),
        (3 + EPOCH_GAP, 1, False),  # from logs without records of the last epochs
    ],
)
def test_neither_the_epoch_nor_the_revision_falls_before_a_recovery(
    epoch: int, revision: int, is_outdated: bool
) -> None:
    latest = LatestFact(3, 90).joined(5, 100).joined(4, 95)
    assert latest == (5, 100)
    assert latest.outdates(_fact(epoch, revision)) is is_outdated


def test_what_was_seen_before_a_recovery_does_not_count_after_it() -> None:
    recovered = LatestFact(5, 100).joined(5 + EPOCH_GAP, 7)
    assert recovered == (5 + EPOCH_GAP, 7)
    assert recovered.joined(6, 200) == recovered  # from a replica that has not heard of it
    assert recovered.outdates(_fact(6, 200))


def test_a_group_that_never_had_a_master_may_begin_again() -> None:
    assert not LatestFact().outdates(_fact(0, 1))
    assert not LatestFact(0, 50).outdates(_fact(0, 3))
    assert LatestFact(0, 50).joined(1, 4) == (1, 4)
    assert LatestFact(1, 4).joined(0, 0) == (1, 4)
