"""``Leases`` against a dictionary with one entry for each offset."""

import itertools

from hypothesis import given
from hypothesis import strategies as st

from litemq.storage.state.delivery.leases import Lease, Leases

RUNS = st.tuples(st.integers(0, 30), st.integers(1, 12)).map(lambda run: (run[0], run[0] + run[1]))
STEPS = st.lists(st.tuples(RUNS, st.none() | st.tuples(st.integers(1, 2), st.just(5), st.integers(1, 2))))


def _by_offset(leases: list[Lease]) -> dict[int, tuple[int, int, int]]:
    return {
        offset: (lease.token, lease.deadline, lease.tries)
        for lease in leases
        for offset in range(lease.begin, lease.end)
    }


@given(STEPS, RUNS)
def test_leases_match_a_dictionary_by_offset(
    steps: list[tuple[tuple[int, int], tuple[int, int, int] | None]], looked_at: tuple[int, int]
) -> None:
    leases = Leases()
    plain: dict[int, tuple[int, int, int]] = {}
    for (begin, end), lease in steps:
        if lease is None:
            leases.remove(begin, end)
        else:
            leases.put(Lease(begin, end, *lease))
        for offset in range(begin, end):
            plain.pop(offset, None)
            if lease is not None:
                plain[offset] = lease
        every = list(leases)
        assert _by_offset(every) == plain
        for before, after in itertools.pairwise(every):
            assert before.end <= after.begin
            assert before.end < after.begin or before[2:] != after[2:], "neighbours that should be merged"
    within = leases.within(*looked_at)
    assert _by_offset(within) == {
        offset: lease for offset, lease in plain.items() if looked_at[0] <= offset < looked_at[1]
    }
    assert all(looked_at[0] <= lease.begin < lease.end <= looked_at[1] for lease in within)
    assert leases.end == max(plain, default=-1) + 1
