"""The simulation finds a fault if one guard of the replication is missing."""

from __future__ import annotations

import pytest

from support.sim.mutations import MUTATIONS
from support.sim.seeds import play

_FOUND_WITHIN = 60  # seeds


@pytest.mark.parametrize("name", MUTATIONS)
def test_a_missing_guard_is_found(name: str) -> None:
    with MUTATIONS[name].applied():
        for seed in range(_FOUND_WITHIN):
            if play(seed).faults:
                return
    pytest.fail(f"{_FOUND_WITHIN} seeds, and none shows the fault")
