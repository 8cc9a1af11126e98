"""Assignment: every queue has an owner, the shares are even, and few queues move."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from litemq.broker.groups.assignment import Candidate, Strategy, assign

NAMES = st.lists(st.sampled_from([f"m{number}" for number in range(12)]), unique=True, max_size=12)
QUEUES = st.integers(0, 40).map(range)


def candidates(names: list[str]) -> list[Candidate]:
    return [Candidate(name) for name in names]


@given(
    QUEUES,
    NAMES,
    st.dictionaries(st.integers(0, 60), st.sampled_from([f"m{number}" for number in range(14)])),
    st.sampled_from(Strategy),
)
def test_each_queue_has_one_member(
    queues: range, names: list[str], current: dict[int, str], strategy: Strategy
) -> None:
    given_out = assign(strategy, queues, candidates(names), current, broker="b")
    assert set(given_out) == (set(queues) if names else set())
    assert set(given_out.values()) <= set(names)


@given(
    QUEUES,
    NAMES.filter(bool),
    st.dictionaries(st.integers(0, 60), st.sampled_from([f"m{number}" for number in range(14)])),
)
def test_average_is_even_and_moves_as_few_queues_as_possible(
    queues: range, names: list[str], current: dict[int, str]
) -> None:
    given_out = assign(Strategy.AVERAGE, queues, candidates(names), current)
    counts = sorted(Counter({**dict.fromkeys(names, 0), **Counter(given_out.values())}).values(), reverse=True)
    assert counts[0] - counts[-1] <= 1
    # No even assignment keeps more: those who have most keep the larger shares.
    had = sorted((sum(current.get(queue) == name for queue in queues) for name in names), reverse=True)
    most_kept = sum(min(share, before) for share, before in zip(counts, had, strict=True))
    assert sum(current.get(queue) == name for queue, name in given_out.items()) == most_kept


@given(
    QUEUES, NAMES.filter(lambda names: len(names) > 1), st.sampled_from([Strategy.AVERAGE, Strategy.CONSISTENT_HASH])
)
def test_a_leaving_member_moves_only_its_own_queues(queues: range, names: list[str], strategy: Strategy) -> None:
    before = assign(strategy, queues, candidates(names), {})
    after = assign(strategy, queues, candidates(names[1:]), before)
    assert all(after[queue] == name for queue, name in before.items() if name != names[0])
    back = assign(strategy, queues, candidates(names), after)
    assert all(name in (names[0], after[queue]) for queue, name in back.items())


def test_the_same_members_have_the_same_queues_by_hash() -> None:
    names = [f"m{number}" for number in range(10)]
    given_out = assign(Strategy.CONSISTENT_HASH, range(1000), candidates(names), {}, broker="b")
    assert given_out == assign(
        Strategy.CONSISTENT_HASH, range(1000), candidates(names[::-1]), dict.fromkeys(range(1000), "m3"), broker="b"
    )
    assert given_out != assign(Strategy.CONSISTENT_HASH, range(1000), candidates(names), {}, broker="c")
    assert all(50 < share < 200 for share in Counter(given_out.values()).values())


def test_members_in_the_zone_come_first() -> None:
    members = [Candidate("a", "east"), Candidate("b", "west"), Candidate("c", "west")]
    given_out = assign(Strategy.SAME_ZONE, range(6), members, {0: "a"}, zone="west")
    assert Counter(given_out.values()) == {"b": 3, "c": 3}
    given_out = assign(Strategy.SAME_ZONE, range(6), members, {}, zone="north")
    assert Counter(given_out.values()) == {"a": 2, "b": 2, "c": 2}


@pytest.mark.parametrize("members", [3, 100])
def test_remainders_differ_between_brokers(members: int) -> None:
    names = [f"m{number}" for number in range(members)]
    total: Counter[str] = Counter()
    for broker in range(400):
        total.update(assign(Strategy.AVERAGE, range(1), candidates(names), {}, broker=f"broker-{broker}").values())
    assert max(total.values()) < 3 * 400 / members + 10
