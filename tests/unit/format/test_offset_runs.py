"""Runs of offsets agree with plain sets."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from litemq.errors import InvalidArgumentError
from litemq.format.offset_runs import RunSet, pack_runs, unpack_runs

RUNS = st.tuples(st.integers(0, 40), st.integers(0, 12)).map(lambda run: (run[0], run[0] + run[1]))


def _offsets(runs: RunSet | list[tuple[int, int]]) -> set[int]:
    return {offset for begin, end in runs for offset in range(begin, end)}


@given(st.lists(st.tuples(st.booleans(), RUNS)), RUNS)
def test_a_run_set_is_a_set(steps: list[tuple[bool, tuple[int, int]]], looked_at: tuple[int, int]) -> None:
    runs, plain = RunSet(), set[int]()
    for adds, run in steps:
        if adds:
            runs.add(*run)
            plain |= set(range(*run))
        else:
            runs.remove(*run)
            plain -= set(range(*run))
        assert _offsets(runs) == plain
        assert runs.count == len(plain)
        pairs = list(runs)
        assert all(before[1] < after[0] for before, after in itertools.pairwise(pairs)), "runs touch"
        assert all(begin < end for begin, end in pairs)
    assert _offsets(runs.within(*looked_at)) == plain & set(range(*looked_at))
    assert _offsets(runs.without(*looked_at)) == set(range(*looked_at)) - plain
    assert all((offset in runs) == (offset in plain) for offset in range(60))
    assert (runs.first() or (0, 0))[0] == min(plain, default=0)
    assert runs.end == max(plain, default=-1) + 1
    assert RunSet(unpack_runs(pack_runs(runs))) == runs
    copy = runs.copy()
    copy.add(100, 101)
    assert _offsets(runs) == plain
    assert copy != runs


@pytest.mark.parametrize("packed", [[1], [0, 0], [5, 1 << 63], [1 << 63, 1]])
def test_invalid_runs_are_refused(packed: list[int]) -> None:
    with pytest.raises(InvalidArgumentError):
        unpack_runs(packed)
