"""``RebalanceBudget``: a burst, then a rate."""

from __future__ import annotations

from litemq.broker.groups.rebalance_budget import RebalanceBudget
from litemq.clock import FakeClock


def test_a_burst_is_followed_by_a_rate() -> None:
    clock = FakeClock()
    budget = RebalanceBudget(clock)
    burst = 0
    while budget.take(4096):
        burst += 1
    assert burst == 16
    later = 0
    for _ in range(1000):
        clock.advance(0.01)
        later += budget.take(4096)
    assert 600 < later < 660


def test_work_larger_than_the_burst_is_done_and_paid_for() -> None:
    clock = FakeClock()
    budget = RebalanceBudget(clock)
    assert budget.take(1_000_000)
    clock.advance(1)
    assert not budget.take(1)
    wait_s = budget.wait_ns() / 1e9
    clock.advance(wait_s - 0.001)
    assert not budget.take(1)
    clock.advance(0.001001)
    assert budget.take(1)
