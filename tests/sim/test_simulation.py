"""Seeds of the simulation: a seed replays exactly, and some keep every promise."""

from __future__ import annotations

from support.sim.seeds import play, totals

_SEEDS = 12  # CI plays 500 in a step of its own


def test_a_seed_replays_exactly() -> None:
    first = play(7)
    play(8)
    again = play(7)
    assert first.digest == again.digest
    assert first.counts == again.counts


def test_no_seed_is_bad() -> None:
    outcomes = [play(seed) for seed in range(_SEEDS)]
    assert {outcome.seed: outcome.faults for outcome in outcomes if outcome.faults} == {}
    counts = totals(outcomes)
    assert min(counts[name] for name in ("acked replicas", "elections", "truncations", "power cuts", "kills")) > 0
