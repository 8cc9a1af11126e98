"""The rules of a replicated group hold in the model, and each of them is needed."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from model.cluster import hunt, shorten, walk
from model.protocol import (
    BACKUP_BOUNDS,
    BACKUP_VARIANTS,
    RECOVERY_BOUNDS,
    RECOVERY_VARIANTS,
    RESTORE_BOUNDS,
    RESTORE_VARIANTS,
    SAFE,
    VARIANTS,
    Event,
    Rules,
    World,
)

# A seed whose schedule breaks an invariant of the variant; ``all --runs 20000`` finds them.
SEEDS = {
    "no-epoch-record+promise": 17376,
    "design": 14,
    "no-epoch-record": 374,
    "no-store-ids": 2,
    "indefinite-cas": 2198,
    "no-union": 68,
    "no-floor": 15,
    "elect-anyone": 44,
    "cas-without-epoch": 24,
    "report-of-any-epoch": 24,
    "follow-older": 465,
    "truncate-at-masters-end": 3,
    "expand-received": 690,
    "expand-decided-earlier": 1672,
    "cut-tail-on-promotion": 2,
    "restart-keeps-epoch": 295,
    "report-received": 5,
}


@pytest.mark.parametrize("variant", sorted(SAFE))
def test_the_rules_hold(variant: str) -> None:
    found = hunt(variant, 600)
    assert found.problem is None, found
    assert found.acked > 600
    assert found.elections > 600


@pytest.mark.parametrize("variant", sorted(VARIANTS.keys() - SAFE))
def test_each_rule_is_needed(variant: str) -> None:
    schedule, problem, _ = walk(VARIANTS[variant], SEEDS[variant])
    assert problem is not None
    short, problem = shorten(VARIANTS[variant], schedule)
    assert problem
    assert len(short) < 60


def test_the_same_schedules_are_harmless_with_the_rules() -> None:
    for seed in SEEDS.values():
        assert walk(VARIANTS["proposed"], seed)[1] is None


def _harmless(rules: Rules, bounds: dict[str, int], runs: int) -> Iterator[tuple[list[Event], World]]:
    """Run schedules, which break no invariant; return their events and ends."""
    for seed in range(1, runs + 1):
        schedule, problem, world = walk(rules, seed, bounds=bounds)
        assert problem is None, seed
        yield schedule, world


# The same for a group whose facts are lost once, and rebuilt.
RECOVERY_SEEDS = {"recover-lone-epoch": 3958, "recover-all": 5001, "small-set-confirms": 3609}


def test_facts_are_rebuilt_without_a_loss() -> None:
    recovered = 0
    for _, world in _harmless(RECOVERY_VARIANTS["recovery"], RECOVERY_BOUNDS, 300):
        recovered += not world.left["losses"]
    assert recovered > 150


@pytest.mark.parametrize("variant", sorted(RECOVERY_VARIANTS.keys() - {"recovery"}))
def test_each_rule_of_the_recovery_is_needed(variant: str) -> None:
    seed = RECOVERY_SEEDS[variant]
    assert walk(RECOVERY_VARIANTS[variant], seed, bounds=RECOVERY_BOUNDS)[1] is not None
    assert walk(RECOVERY_VARIANTS["recovery"], seed, bounds=RECOVERY_BOUNDS)[1] is None


# The same for a group in which a disk is restored once from a backup, with the name that it had.
BACKUP_SEEDS = {"restored-is-elected": 131, "confirmed-without-epoch": 4167}


def test_a_restored_disk_loses_nothing_and_no_other_member_is_excluded() -> None:
    restored = 0
    for schedule, _ in _harmless(BACKUP_VARIANTS["backup"], BACKUP_BOUNDS, 400):
        restored += any(event[0] == "restore_disk" for event in schedule)
    assert restored > 50


@pytest.mark.parametrize("variant", sorted(BACKUP_VARIANTS.keys() - {"backup"}))
def test_each_rule_of_restored_disks_is_needed(variant: str) -> None:
    seed = BACKUP_SEEDS[variant]
    assert walk(BACKUP_VARIANTS[variant], seed, bounds=BACKUP_BOUNDS)[1] is not None
    assert walk(BACKUP_VARIANTS["backup"], seed, bounds=BACKUP_BOUNDS)[1] is None


def test_an_old_copy_of_the_cluster_store_is_not_believed() -> None:
    recovered = 0
    for schedule, _ in _harmless(RESTORE_VARIANTS["restore"], RESTORE_BOUNDS, 300):
        names = [event[0] for event in schedule]
        recovered += "restore" in names and "recover" in names[names.index("restore") :]
    assert recovered > 50
    assert walk(RESTORE_VARIANTS["restore-believed"], 52, bounds=RESTORE_BOUNDS)[1] is not None
