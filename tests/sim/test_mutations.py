"""The simulation finds a violated invariant if one guard of the replication is missing."""

from __future__ import annotations

import pytest

from support.sim.mutations import MUTATIONS
from support.sim.seeds import play


@pytest.mark.parametrize("name", MUTATIONS)
def test_a_missing_guard_is_found(name: str) -> None:
    mutation, faults = MUTATIONS[name], list[str]()
    with mutation.applied():
        for seed in mutation.seeds:
            found = play(seed, mutation.kinds).faults
            if mutation.shows_in(found):
                return
            faults += found
    pytest.fail(f"no seed violates {' or '.join(mutation.violates)}; other faults: {faults[:5]}")
