"""Elections: who wins, what happens to the in-sync set, and why there may be no master."""

import itertools
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from litemq.errors import InvalidArgumentError
from litemq.nameserver.cluster_store.groups import Confirmed, GroupFact, check_election
from litemq.nameserver.election import MAX_CLOCK_DEVIATION_MS, NoMaster, Obstacle, ReplicaReport, elect_master
from model.protocol import BOUNDS, MIN_IN_SYNC, REPLICAS, VARIANTS, World

A, B, C, D = (bytes([number]) * 16 for number in (1, 2, 3, 4))
FACT = GroupFact("orders", 5, A, frozenset({A, B, C}), 2, 1 << 30, revision=12)


def _report(store_id: bytes, last_epoch: int = 5, log_end: int = 100, **more: Any) -> ReplicaReport:
    return ReplicaReport(store_id, last_epoch, log_end, **more)


def _elected(*reports: ReplicaReport, fact: GroupFact = FACT) -> GroupFact:
    after = elect_master(fact, reports)
    assert isinstance(after, GroupFact), after
    return after


def test_the_next_epoch_has_the_new_master() -> None:
    after = _elected(_report(A), _report(B, log_end=101), _report(C))
    assert after == replace(FACT, epoch=6, holder=B)


@pytest.mark.parametrize(
    ("better", "worse"),
    [
        ({"last_epoch": 4, "log_end": 10}, {"last_epoch": 5, "log_end": 900, "lacks_space": True}),
        ({"log_end": 101, "lacks_space": True}, {"log_end": 100, "lacks_space": True}),
        ({"last_epoch": 5, "log_end": 10}, {"last_epoch": 4, "log_end": 900, "priority": 9}),
        ({"log_end": 101}, {"log_end": 100, "priority": 9}),
        ({"priority": 2}, {"priority": 1}),
    ],
)
def test_order_of_the_criteria(better: dict[str, Any], worse: dict[str, Any]) -> None:
    for first, second in ((A, B), (B, A)):
        assert _elected(_report(first, **better), _report(second, **worse)).holder == first
    assert _elected(_report(A), _report(B)).holder == B  # the store id decides at last


def test_of_equals_the_last_master_is_not_elected_again() -> None:
    for last in (A, B, C):
        assert _elected(_report(A), _report(B), _report(C), fact=replace(FACT, holder=last)).holder != last
    ahead = _report(A, log_end=101)
    assert _elected(ahead, _report(B), _report(C)).holder == A  # the others lack records


def test_silent_members_leave_the_set_unless_it_gets_too_small() -> None:
    assert _elected(_report(A), _report(B)).members == frozenset({A, B})
    assert _elected(_report(A), _report(B), _report(C, is_alive=False)).members == frozenset({A, B})
    assert _elected(_report(A)).members == FACT.members
    assert _elected(_report(A), fact=replace(FACT, min_in_sync=1)).members == frozenset({A})
    assert _elected(_report(A), _report(B), fact=replace(FACT, min_in_sync=3)).members == FACT.members
    alone = replace(FACT, members=frozenset({A}))
    assert _elected(_report(A), fact=alone).members == frozenset({A})


def test_only_members_are_elected_and_counted() -> None:
    after = _elected(_report(A), _report(D, log_end=900, priority=9))
    assert (after.holder, after.members) == (A, FACT.members)


def test_a_member_with_a_wrong_clock_stays_in_the_set_but_is_not_elected() -> None:
    for deviation in (MAX_CLOCK_DEVIATION_MS + 1, -MAX_CLOCK_DEVIATION_MS - 1):
        after = _elected(_report(A), _report(B, log_end=900, clock_deviation_ms=deviation))
        assert (after.holder, after.members) == (A, frozenset({A, B}))
    for deviation in (MAX_CLOCK_DEVIATION_MS, -MAX_CLOCK_DEVIATION_MS):
        assert _elected(_report(A), _report(B, log_end=900, clock_deviation_ms=deviation)).holder == B


@pytest.mark.parametrize(
    ("reports", "obstacle", "explanation"),
    [
        ([], Obstacle.NO_MEMBER_ALIVE, A.hex()),
        (
            [_report(A, is_alive=False, broker_id="node-1"), _report(B, is_alive=False, broker_id="node-2")],
            Obstacle.NO_MEMBER_ALIVE,
            f"Start one of its replicas: node-1, node-2, store {C.hex()}",
        ),
        ([_report(B, clock_deviation_ms=-501)], Obstacle.CLOCKS_WRONG, f"{B.hex()} by -501 ms"),
        ([_report(A), _report(B, last_epoch=6)], Obstacle.FACT_OUTDATED, "litemq cluster recover orders"),
        ([_report(B, clock_deviation_ms=-501, broker_id="node-2")], Obstacle.CLOCKS_WRONG, "off: node-2 by -501 ms"),
        ([_report(A), _report(D, last_epoch=6, is_alive=False)], Obstacle.FACT_OUTDATED, D.hex()),
        ([_report(A, last_epoch=6, broker_id="node-1")], Obstacle.FACT_OUTDATED, "the log of replica node-1 has epoch"),
    ],
)
def test_why_there_is_no_master(reports: list[ReplicaReport], obstacle: Obstacle, explanation: str) -> None:
    outcome = elect_master(FACT, reports)
    assert isinstance(outcome, NoMaster)
    assert outcome.obstacle is obstacle
    assert explanation in outcome.explanation


def test_a_lone_member_is_named() -> None:
    outcome = elect_master(replace(FACT, members=frozenset({A})), [_report(A, is_alive=False, broker_id="node-1")])
    assert isinstance(outcome, NoMaster)
    assert outcome.explanation == "no member of the in-sync set is alive. Start node-1"


def test_reports_are_checked() -> None:
    with pytest.raises(InvalidArgumentError, match="same store id"):
        elect_master(FACT, [_report(A), _report(A, log_end=7)])
    wrong: list[dict[str, Any]] = [{"store_id": b"short"}, {"last_epoch": -1}, {"last_epoch": 1 << 32}]
    wrong += [{"log_end": -1}, {"log_end": 1 << 63}, {"priority": -1}, {"priority": 1_001}]
    for changed in wrong:
        with pytest.raises(InvalidArgumentError):
            replace(_report(A), **changed)


STORE_IDS = [bytes([number]) * 16 for number in range(1, 7)]


@st.composite
def elections(draw: st.DrawFn) -> tuple[GroupFact, list[ReplicaReport]]:
    members = draw(st.frozensets(st.sampled_from(STORE_IDS), min_size=1))
    epoch = draw(st.integers(1, 4))
    fact = GroupFact("g", epoch, draw(st.sampled_from([b"", *sorted(members)])), members, draw(st.integers(1, 4)), 8, 9)
    reports = [
        ReplicaReport(
            store_id,
            draw(st.integers(0, epoch)),
            draw(st.integers(0, 3)),
            draw(st.integers(0, 2)),
            draw(st.sampled_from([0, 500, 501, -501])),
            draw(st.booleans()),
            lacks_space=draw(st.booleans()),
        )
        for store_id in draw(st.lists(st.sampled_from(STORE_IDS), unique=True))
    ]
    return fact, reports


@given(elections(), st.randoms(use_true_random=False))
def test_every_outcome_obeys_the_rules(election: tuple[GroupFact, list[ReplicaReport]], order: Any) -> None:
    fact, reports = election
    outcome = elect_master(fact, reports)
    shuffled = list(reports)
    order.shuffle(shuffled)
    again = elect_master(fact, shuffled)
    assert again == outcome or (isinstance(again, NoMaster) and isinstance(outcome, NoMaster))
    alive = {report.store_id: report for report in reports if report.is_alive and report.store_id in fact.members}
    eligible = {name: report for name, report in alive.items() if abs(report.clock_deviation_ms) <= 500}
    if isinstance(outcome, NoMaster):
        assert not eligible
        assert outcome.obstacle is (Obstacle.CLOCKS_WRONG if alive else Obstacle.NO_MEMBER_ALIVE)
        return
    check_election(fact, outcome)  # the store accepts it
    assert (outcome.epoch, outcome.revision) == (fact.epoch + 1, fact.revision)
    assert all(report.rank <= eligible[outcome.holder].rank for report in eligible.values())
    assert alive.keys() <= outcome.members <= fact.members
    assert len(outcome.members) >= min(fact.min_in_sync, len(fact.members))
    assert outcome.members in (fact.members, frozenset(alive))
    if len(alive) >= fact.min_in_sync:
        assert outcome.members == frozenset(alive)


def test_every_election_is_one_that_the_model_allows() -> None:
    """All sets and all silent replicas of the model, which was searched for violations."""
    names = STORE_IDS[:REPLICAS]
    subsets = [
        frozenset(each) for size in range(REPLICAS + 1) for each in itertools.combinations(range(REPLICAS), size)
    ]
    compared = 0
    for members, alive in itertools.product(subsets, subsets):
        if len(members) < MIN_IN_SYNC:
            continue
        world = World(VARIANTS["proposed"], BOUNDS)
        world.isr = members
        fact = GroupFact("g", 3, b"", frozenset(names[number] for number in members), MIN_IN_SYNC, 8)
        for ends in itertools.product((1, 2), repeat=REPLICAS):
            reports = [
                ReplicaReport(names[number], 3, ends[number], is_alive=number in alive) for number in range(REPLICAS)
            ]
            outcome = elect_master(fact, reports)
            if isinstance(outcome, NoMaster):
                assert not any(world.may_elect(number) for number in alive)
                continue
            holder = names.index(outcome.holder)
            assert world.may_elect(holder)
            allowed = world._sets_after_election(holder)
            assert frozenset(names.index(member) for member in outcome.members) in allowed
            compared += 1
    assert compared == 200


KNOWN = replace(FACT, confirmed=Confirmed(100, 4))


@pytest.mark.parametrize("older", [{"log_end": 99}, {"last_epoch": 3, "log_end": 900}, {"last_epoch": 0, "log_end": 0}])
def test_a_member_whose_directory_is_older_than_it_was_is_not_elected(older: dict[str, Any]) -> None:
    """Its directory was restored from a backup, or is a copy of a member's."""
    outcome = elect_master(KNOWN, [_report(A, broker_id="a", **older), _report(B, is_alive=False, broker_id="b")])
    assert outcome == NoMaster(
        Obstacle.MEMBERS_OUTDATED,
        "the data directory of a is older than the replica, like a backup or a copy: it lacks messages below offset "
        f"100, which were confirmed. Start one of its replicas: b, store {C.hex()}",
    )
    assert _elected(_report(A, **older), _report(B), fact=KNOWN).members == KNOWN.members
    after = _elected(_report(A, priority=9, **older), _report(B), _report(C), fact=KNOWN)
    assert (after.members, after.confirmed) == (frozenset({B, C}), KNOWN.confirmed)


def test_if_all_directories_are_older_the_latest_ones_are_needed() -> None:
    reports = [_report(each, log_end=10, broker_id=name) for each, name in ((A, "a"), (B, "b"), (C, "c"))]
    outcome = elect_master(KNOWN, reports)
    assert isinstance(outcome, NoMaster)
    assert outcome.explanation.startswith("the data directories of a, b, c are older")
    assert outcome.explanation.endswith("Start a replica of the in-sync set with its latest directory")
