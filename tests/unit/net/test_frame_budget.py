"""The memory budget of unfinished frames: never exceeded, in order, and nothing leaks."""

from hypothesis import given
from hypothesis import strategies as st

from litemq.net.frame_budget import FrameBudget

LIMIT = 100


def test_a_reservation_waits_for_space() -> None:
    budget = FrameBudget(LIMIT)
    resumed: list[str] = []
    assert budget.reserve("a", 60, lambda: resumed.append("a"))
    assert budget.reserve("a", 60, lambda: resumed.append("a"))  # it has them already
    assert not budget.reserve("b", 60, lambda: resumed.append("b"))
    assert not budget.reserve("c", 10, lambda: resumed.append("c"))  # behind b, although it would fit
    assert budget.is_contended
    budget.release("a")
    assert resumed == ["b", "c"]
    assert not budget.is_contended


def test_who_gives_up_does_not_block_others() -> None:
    budget = FrameBudget(LIMIT)
    resumed: list[str] = []
    budget.reserve("a", LIMIT, lambda: None)
    budget.reserve("b", LIMIT, lambda: resumed.append("b"))
    budget.reserve("c", 10, lambda: resumed.append("c"))
    budget.release("b")
    budget.release("a")
    assert resumed == ["c"]


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, LIMIT)), max_size=60))
def test_the_limit_holds_and_everything_comes_back(steps: list[tuple[int, int]]) -> None:
    budget = FrameBudget(LIMIT)
    held: dict[int, int] = {}
    waiting: dict[int, int] = {}

    def resume(owner: int) -> None:
        held[owner] = waiting.pop(owner)
        assert sum(held.values()) <= LIMIT

    for owner, size in steps:
        if owner in held or owner in waiting:
            held.pop(owner, None)
            waiting.pop(owner, None)
            budget.release(owner)
        else:
            waiting[owner] = size
            if budget.reserve(owner, size, lambda owner=owner: resume(owner)):  # type: ignore[misc]
                held[owner] = waiting.pop(owner)
        assert sum(held.values()) <= LIMIT
    for owner in list(held):
        held.pop(owner, None)
        budget.release(owner)
    while held:  # who was resumed meanwhile
        budget.release(held.popitem()[0])
    assert not waiting
    assert budget.reserve("all", LIMIT, lambda: None)
