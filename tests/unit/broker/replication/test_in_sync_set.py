"""The in-sync set of a master."""

from __future__ import annotations

from litemq.broker.replication.in_sync_set import InSyncSet, InSyncTracker, Shortage

A, B, C = b"a", b"b", b"c"


def _tracker(*members: bytes, min_in_sync: int = 2) -> InSyncTracker:
    return InSyncTracker(A, 100, InSyncSet(frozenset(members), 1), min_in_sync=min_in_sync, max_lag_ns=2_000, now=0)


def test_nothing_is_confirmed_before_the_whole_set_has_the_epochs_record() -> None:
    tracker = _tracker(A, B)
    assert tracker.confirmed(500) is None
    tracker.connected(B, 1, log_end=300, now=0)
    tracker.reported(B, 1, 99, 99, log_end=500, now=1)
    assert tracker.confirmed(500) is None
    tracker.reported(B, 1, 300, 200, log_end=500, now=2)
    assert tracker.confirmed(500) == 200
    assert tracker.confirmed(150) == 150


def test_reports_of_an_earlier_session_do_not_count() -> None:
    tracker = _tracker(A, B)
    tracker.connected(B, 1, log_end=300, now=0)
    tracker.reported(B, 1, 300, 300, log_end=300, now=1)
    tracker.connected(B, 2, log_end=300, now=0)
    assert tracker.confirmed(300) is None
    assert not tracker.reported(B, 1, 300, 300, log_end=300, now=2)
    tracker.lost(B, 1)  # late news of the first session
    tracker.reported(B, 2, 300, 250, log_end=300, now=3)
    assert tracker.confirmed(300) == 250


def test_both_sets_count_until_a_definite_answer() -> None:
    tracker = _tracker(A, B)
    for store in (B, C):
        tracker.connected(store, 1, log_end=300, now=0)
    tracker.reported(B, 1, 300, 300, log_end=300, now=1)
    tracker.reported(C, 1, 200, 200, log_end=300, now=1)
    assert tracker.wanted(150, 2) == frozenset({A, B, C})
    tracker.propose(frozenset({A, B, C}))
    assert tracker.wanted(150, 2) is None
    assert tracker.confirmed(300) == 200
    tracker.settled(InSyncSet(frozenset({A, B}), 1))  # a read of the old set says nothing
    assert tracker.confirmed(300) == 200
    tracker.settled(InSyncSet(frozenset({A, B}), 3))
    assert tracker.confirmed(300) == 300


def test_the_set_is_not_made_smaller_than_the_minimum() -> None:
    tracker = _tracker(A, B, C)
    assert tracker.wanted(100, 2_001) in (frozenset({A, B}), frozenset({A, C}))
    assert _tracker(A, B).wanted(100, 2_001) is None


def test_a_newcomer_replaces_a_dead_member_in_one_change() -> None:
    tracker = _tracker(A, B)
    tracker.connected(C, 1, log_end=300, now=0)
    tracker.reported(C, 1, 300, 300, log_end=300, now=5_000)
    assert tracker.wanted(300, 5_000) == frozenset({A, C})


def test_a_newcomer_needs_what_is_confirmed_and_the_epochs_record() -> None:
    tracker = _tracker(A, B)
    tracker.connected(C, 1, log_end=300, now=0)
    tracker.reported(C, 1, 300, 99, log_end=300, now=1)
    assert tracker.wanted(0, 1) is None
    tracker.reported(C, 1, 300, 249, log_end=300, now=1)
    assert tracker.wanted(250, 1) is None
    tracker.reported(C, 1, 300, 250, log_end=300, now=1)
    assert tracker.wanted(250, 1) == frozenset({A, B, C})


def test_a_member_that_keeps_up_under_load_is_not_late() -> None:
    tracker = _tracker(A, B, C)
    for store in (B, C):
        tracker.connected(store, 1, log_end=300, now=0)
    for number in range(1, 20):  # never at the end of the log, always at its end of 500 ns before
        now, log_end = number * 500, 300 + number * 100
        tracker.reported(B, 1, log_end - 100, log_end - 100, log_end=log_end, now=now)
        tracker.reported(C, 1, 250, 250, log_end=log_end, now=now)
        assert tracker.wanted(150, now) == (frozenset({A, B}) if now > 2_000 else None)


def test_members_are_missing_if_too_few_are_in_sync() -> None:
    tracker = _tracker(A, B, C)
    assert tracker.shortage(100, 2_000) is None
    assert tracker.shortage(100, 2_001) == Shortage(frozenset({A}), 2, {B: 2_001, C: 2_001})
    tracker.connected(B, 1, log_end=300, now=2_500)
    assert tracker.shortage(100, 2_500) is not None
    tracker.reported(B, 1, 300, 300, log_end=300, now=3_000)
    assert tracker.shortage(100, 3_000) is None  # C is late, but the set can do without it
    assert tracker.shortage(100, 5_001) == Shortage(frozenset({A}), 2, {B: 2_001, C: 5_001})


def test_a_newcomer_that_may_join_ends_the_shortage() -> None:
    tracker = _tracker(A, B)
    tracker.connected(C, 1, log_end=300, now=0)
    tracker.reported(C, 1, 300, 200, log_end=300, now=5_000)
    assert tracker.shortage(300, 5_000) == Shortage(frozenset({A}), 2, {B: 5_000})
    tracker.reported(C, 1, 300, 300, log_end=300, now=5_000)
    assert tracker.shortage(300, 5_000) is None


def test_a_follower_that_is_silent_does_not_join() -> None:
    """It may be stopped: its connection is there until it is idle for too long."""
    tracker = _tracker(A, B, C)
    for store in (B, C):
        tracker.connected(store, 1, log_end=300, now=0)
        tracker.reported(store, 1, 300, 300, log_end=300, now=0)
    tracker.propose(frozenset({A, C}))
    tracker.settled(InSyncSet(frozenset({A, C}), 2))
    assert tracker.wanted(300, 2_000) == frozenset({A, B, C})
    assert tracker.wanted(300, 2_001) is None
    assert tracker.shortage(300, 2_001) == Shortage(frozenset({A}), 2, {C: 2_001})


def test_a_set_that_is_smaller_than_the_minimum_is_short_of_members() -> None:
    assert _tracker(A).shortage(100, 0) == Shortage(frozenset({A}), 2, {})
    assert _tracker(A, min_in_sync=1).shortage(100, 5_000) is None


def test_a_record_is_received_once_the_whole_set_has_it() -> None:
    tracker = _tracker(A, B)
    tracker.connected(B, 1, log_end=300, now=0)
    tracker.reported(B, 1, 400, 99, log_end=500, now=1)
    assert tracker.received(500, 500) is None  # the epoch's record is not confirmed
    tracker.reported(B, 1, 400, 100, log_end=500, now=2)
    assert tracker.received(500, 500) == 400
    assert tracker.received(500, 350) == 350
    tracker.connected(C, 1, log_end=500, now=2)
    tracker.reported(C, 1, 300, 300, log_end=500, now=2)
    tracker.propose(frozenset({A, B, C}))
    assert tracker.received(500, 500) == 300
    tracker.lost(C, 1)
    assert tracker.received(500, 500) is None


def test_a_newcomer_has_received_what_was_acknowledged_in_memory() -> None:
    """Otherwise it could be elected without it, while members that have it are down."""
    tracker = _tracker(A, B)
    for store in (B, C):
        tracker.connected(store, 1, log_end=300, now=0)
    tracker.reported(B, 1, 500, 300, log_end=500, now=1)
    tracker.reported(C, 1, 400, 300, log_end=500, now=1)
    assert tracker.wanted(300, 2, acked_received=401) is None
    assert tracker.wanted(300, 2, acked_received=400) == frozenset({A, B, C})
