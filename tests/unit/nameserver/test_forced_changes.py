"""Facts that are made anew from the logs, and masters that an operator chooses."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from litemq.errors import ChangeRefusedError
from litemq.nameserver.cluster_store.groups import MAX_EPOCH, Confirmed, GroupFact, check_election
from litemq.nameserver.election import ReplicaReport
from litemq.nameserver.forced_changes import Recovery, elect_unclean, plan_recovery
from litemq.nameserver.latest_fact import EPOCH_GAP

A, B, C, D = (bytes([number]) * 16 for number in (1, 2, 3, 4))
_NAMES = {A: "a", B: "b", C: "c", D: "d"}
FACT = GroupFact("orders", 5, A, frozenset({A, B}), 2, 1 << 30, revision=12)


def _report(store_id: bytes, last_epoch: int = 5, log_end: int = 100, **more: Any) -> ReplicaReport:
    return ReplicaReport(store_id, last_epoch, log_end, **more)


def _plan(*reports: ReplicaReport) -> Recovery:
    return plan_recovery("orders", reports, _NAMES, configured=3, min_in_sync=2, segment_bytes=1 << 20)


def test_the_replicas_with_the_latest_record_are_in_sync() -> None:
    fact, uncertainty = _plan(_report(A), _report(B, log_end=101), _report(C, log_end=101))
    assert fact == GroupFact("orders", 5 + EPOCH_GAP, b"", frozenset({B, C}), 2, 1 << 20)
    assert not uncertainty


def test_a_later_epoch_counts_more_than_a_longer_log() -> None:
    fact, uncertainty = _plan(_report(A, 6, 10), _report(B, 5, 900), _report(C, 6, 9))
    assert (fact.members, uncertainty) == (frozenset({A}), "")


def test_the_replicas_of_the_latest_epoch_must_overlap_with_any_in_sync_set() -> None:
    """The model finds a schedule without that: see ``recover-lone-epoch``."""
    fact, uncertainty = _plan(_report(A, 6, 10), _report(B, 5, 900), _report(C))
    assert uncertainty == "of epoch 6, the latest, only a has records, and may not have been in sync"
    assert fact.unclean_epoch == fact.epoch


@pytest.mark.parametrize(
    ("reports", "reason"),
    [
        ((_report(A), _report(B)), "only 2 of 3 replicas report"),
        ((_report(A), _report(B), _report(C, 0, 0)), "the log of c is empty: it is new, or its disk was lost"),
        ((_report(A, 0, 0),), "only 1 of 3 replicas reports"),
        ((_report(A), _report(B, 0, 0)), "only 2 of 3 replicas report; the log of b is empty"),
        (
            (_report(A), _report(B, 0, 0), _report(C, 0, 0)),
            "the logs of b, c are empty: they are new, or their disks were lost",
        ),
    ],
)
def test_a_missing_or_empty_replica_may_have_had_more(reports: tuple[ReplicaReport, ...], reason: str) -> None:
    """Then followers may have to give up confirmed records: the epoch is unclean."""
    fact, uncertainty = _plan(*reports)
    assert reason in uncertainty
    assert fact.unclean_epoch == fact.epoch


def test_a_group_that_never_had_a_record_loses_none() -> None:
    fact, uncertainty = _plan(_report(A, 0, 0), _report(B, 0, 0), _report(C, 0, 0))
    assert (fact.members, fact.epoch, uncertainty) == (frozenset({A, B, C}), EPOCH_GAP, "")


def test_a_group_without_reports_or_epochs_is_not_recovered() -> None:
    with pytest.raises(ChangeRefusedError, match="no replica reports"):
        _plan()
    with pytest.raises(ChangeRefusedError, match="no later one is left"):
        _plan(_report(A, MAX_EPOCH - EPOCH_GAP))
    assert _plan(_report(A, MAX_EPOCH - EPOCH_GAP - 1)).fact.epoch < MAX_EPOCH  # an election follows


def _elected(chosen: bytes, *reports: ReplicaReport) -> GroupFact:
    after = elect_unclean(FACT, reports, _NAMES, chosen)
    check_election(FACT, after)
    return after


def test_an_unclean_master_is_the_whole_set() -> None:
    after = _elected(C, _report(A, is_alive=False), _report(B, is_alive=False), _report(C))
    assert after == replace(FACT, epoch=6, holder=C, members=frozenset({C}), unclean_epoch=6)


def test_no_replica_is_forced_while_a_member_can_be_elected() -> None:
    with pytest.raises(ChangeRefusedError, match="b is in sync and alive, and becomes the master"):
        _elected(C, _report(A, is_alive=False), _report(B), _report(C))
    with pytest.raises(ChangeRefusedError, match="litemq cluster recover orders"):
        _elected(C, _report(A, 6, is_alive=False), _report(C))


def test_a_member_whose_clock_is_wrong_may_be_forced_and_loses_nothing() -> None:
    wrong = (_report(A, clock_deviation_ms=900), _report(B, is_alive=False), _report(C))
    assert _elected(A, *wrong) == replace(FACT, epoch=6, holder=A)
    with pytest.raises(ChangeRefusedError, match=r"Set the clocks of their hosts, or choose one of these"):
        _elected(C, *wrong)


def test_an_old_directory_of_a_member_is_an_unclean_choice() -> None:
    known = replace(FACT, confirmed=Confirmed(100, 5))
    after = elect_unclean(known, [_report(A, log_end=99)], _NAMES, A)
    assert after == replace(FACT, epoch=6, holder=A, members=frozenset({A}), unclean_epoch=6)
    check_election(known, after)
