"""Failures that Kafka had with replicas, by the numbers of its improvement proposals."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

from litemq.broker.replication.common_end import EpochStart, common_end
from litemq.broker.replication.in_sync_set import InSyncSet, InSyncTracker
from litemq.clock import SystemClock
from litemq.errors import NotMasterError
from litemq.nameserver.cluster_store.groups import GroupFact
from litemq.nameserver.election import NoMaster, Obstacle, ReplicaReport, elect_master
from litemq.storage.files.disk import DISK
from litemq.storage.log.store_id import open_store_id
from litemq.storage.replica_store import ReplicaStore
from support.group_stores import A, B, C
from support.replicas import open_replica
from support.stores import CONFIG

LAG_NS: Final = 2_000_000_000
BEGUN: Final = 100
FACT: Final = GroupFact("orders", 1, A, frozenset({A, B, C}), 2, 1 << 30, revision=3)


def test_kip_903_a_replica_with_an_empty_disk_is_no_member(tmp_path: Path, is_guarded: bool) -> None:
    """Guard: store ids name the members (rule 1).

    A replica that came back with an empty disk was a member by its name, and was elected.
    """
    member = open_store_id(DISK, _made(tmp_path / "before"))
    wiped = open_store_id(DISK, _made(tmp_path / "wiped")) if is_guarded else member
    fact = GroupFact("orders", 1, A, frozenset({A, member}), 2, 1 << 30, revision=3)
    outcome = elect_master(fact, [ReplicaReport(wiped, last_epoch=0, log_end=0)])
    if is_guarded:
        assert isinstance(outcome, NoMaster)
        assert outcome.obstacle is Obstacle.NO_MEMBER_ALIVE
    else:
        assert isinstance(outcome, GroupFact)
        assert outcome.holder == wiped


def _made(folder: Path) -> Path:
    folder.mkdir()
    return folder


def test_kip_903_the_newcomer_joins_once_it_has_everything_confirmed(is_guarded: bool) -> None:
    """Guard: a newcomer joins once it has flushed everything that is confirmed (rule 7)."""
    newcomer, confirmed = bytes(16), 500
    tracker = _tracker(frozenset({A, B}))
    tracker.connected(newcomer, 1, log_end=confirmed, now=0)
    tracker.reported(newcomer, 1, confirmed - 1, confirmed - 1, log_end=confirmed, now=0)
    wanted = tracker.wanted(confirmed if is_guarded else 0, 0)
    assert (wanted is None) is is_guarded


def test_kip_966_the_last_one_standing_confirms_nothing(is_guarded: bool) -> None:
    """Guard: the set never gets smaller than ``min_in_sync`` (rule 3).

    The set had only its leader left, which acknowledged, and then lost what it had.
    """
    tracker = _tracker(FACT.members, min_in_sync=2 if is_guarded else 1)
    for number, follower in enumerate((B, C)):
        tracker.connected(follower, number, log_end=BEGUN, now=0)
        tracker.reported(follower, number, BEGUN, BEGUN, log_end=BEGUN, now=0)
        tracker.lost(follower, number)
    wanted = tracker.wanted(BEGUN, 2 * LAG_NS)
    assert wanted is not None
    tracker.propose(wanted)
    tracker.settled(InSyncSet(wanted, 4))
    assert (tracker.confirmed(900) is None) is is_guarded
    fact = GroupFact("orders", 1, A, wanted, 2 if is_guarded else 1, 1 << 30, revision=4)
    others = [ReplicaReport(follower, last_epoch=1, log_end=BEGUN) for follower in (B, C)]
    outcome = elect_master(fact, others)  # the last one's disk is lost
    assert isinstance(outcome, GroupFact) is is_guarded


def test_kip_279_an_epoch_without_records_says_nothing(tmp_path: Path, is_guarded: bool) -> None:
    """Guard: only epochs that have records are compared, and each epoch begins with one (rule 5).

    A master of epoch 2 has written nothing when it is replaced. Its log's end was taken for the
    start of that epoch, and records that the other log does not have were not cut off.
    """
    a = open_replica(tmp_path / "a", CONFIG, SystemClock())
    a.begin_writing(1)
    a.create_topic("unreplicated", 1)
    a.stop_writing(NotMasterError("another replica was elected"))
    _begin_without_a_record(a, 2)
    mine = [EpochStart(epoch.number, epoch.start_offset) for epoch in (a.epochs if is_guarded else _noted(a))]
    shipped = 50  # of the records of epoch 1; then another master of epoch 2 wrote its own
    other = [EpochStart(1, 0), EpochStart(2, shipped)]
    assert (common_end(mine, a.log_end, other, shipped + 1000) == shipped) is is_guarded
    a.abandon()


def _begin_without_a_record(store: ReplicaStore, epoch: int) -> None:
    """Leave what a power cut leaves before the first record of an epoch is written."""
    store._parts.files.begin_epoch(epoch, store.log_end)


def _noted(store: ReplicaStore) -> list[EpochStart]:
    return [EpochStart(epoch.number, epoch.start_offset) for epoch in store._parts.files.epochs.entries]


@pytest.mark.parametrize("away", [B, C])
def test_rule_5_nothing_is_confirmed_before_the_set_has_the_record_that_begins_the_epoch(
    away: bytes, is_guarded: bool
) -> None:
    """Without that record, a member with a longer log of an older epoch would win an election."""
    tracker = _tracker(FACT.members, begun=BEGUN if is_guarded else 0)
    for number, follower in enumerate((B, C)):
        end = BEGUN - 1 if follower == away else BEGUN
        tracker.connected(follower, number, log_end=BEGUN, now=0)
        tracker.reported(follower, number, end, end, log_end=BEGUN, now=0)
    assert (tracker.confirmed(BEGUN) is None) is is_guarded


def _tracker(members: frozenset[bytes], *, min_in_sync: int = 2, begun: int = BEGUN) -> InSyncTracker:
    return InSyncTracker(A, begun, InSyncSet(members, 3), min_in_sync=min_in_sync, max_lag_ns=LAG_NS, now=0)
