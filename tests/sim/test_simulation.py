"""Seeds of the simulation: a seed replays exactly, and some keep every promise."""

from __future__ import annotations

import pytest

from support.sim.seeds import play, totals

_SEEDS = 12  # CI plays 500 in a step of its own


@pytest.mark.parametrize("seed", [7, 82])  # the runs of seed 82 once depended on addresses in memory
def test_a_seed_replays_exactly(seed: int) -> None:
    first = play(seed)
    play(seed + 1)
    again = play(seed)
    assert first.digest == again.digest
    assert first.counts == again.counts


def test_no_seed_is_bad() -> None:
    outcomes = [play(seed) for seed in range(_SEEDS)]
    assert {outcome.seed: outcome.faults for outcome in outcomes if outcome.faults} == {}
    counts = totals(outcomes)
    assert min(counts[name] for name in ("acked replicas", "elections", "truncations", "power cuts", "kills")) > 0
