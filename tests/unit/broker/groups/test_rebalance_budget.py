"""``RebalanceBudget``: a burst, then a rate."""

from __future__ import annotations

from litemq.broker.groups.rebalance_budget import RebalanceBudget

SECOND = 1_000_000_000


def test_a_burst_is_followed_by_a_rate() -> None:
    budget = RebalanceBudget()
    burst = 0
    while budget.take(4096, 0):
        burst += 1
    assert burst == 16
    later = 0
    for now in range(0, 10 * SECOND, SECOND // 100):
        later += budget.take(4096, now)
    assert 600 < later < 660


def test_work_larger_than_the_burst_is_done_and_paid_for() -> None:
    budget = RebalanceBudget()
    assert budget.take(1_000_000, 0)
    assert not budget.take(1, SECOND)
    wait = budget.wait_ns(SECOND)
    assert not budget.take(1, SECOND + wait - SECOND // 1000)
    assert budget.take(1, SECOND + wait)
