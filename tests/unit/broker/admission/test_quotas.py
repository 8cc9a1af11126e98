"""Quotas: a client that has exceeded one is refused until its throttle is refilled."""

import pytest

from litemq.broker.admission.quotas import Quotas
from litemq.clock import FakeClock
from litemq.errors import QuotaExceededError


def test_the_longer_wait_counts() -> None:
    clock = FakeClock()
    quotas = Quotas(clock, 10, 1_000)
    quotas.take("ann", 20, 5_000)
    for _ in range(2):  # a refused request does not count
        with pytest.raises(
            QuotaExceededError, match=r"10 messages or 1,000 bytes per second: retry in 4\.000 s"
        ) as refused:
            quotas.take("ann", 100, 100)
        assert refused.value.retry_after_ms == 4000
    quotas.take("bob", 1, 1)
    clock.advance(4)
    quotas.take("ann", 1, 1)


def test_a_rate_of_zero_is_no_quota() -> None:
    assert not Quotas(FakeClock(), 0, 0).is_on
    quotas = Quotas(FakeClock(), 0, 100)
    assert quotas.is_on
    quotas.take("ann", 1_000_000, 100)
    quotas.take("ann", 1_000_000, 1)
    with pytest.raises(QuotaExceededError, match="quota of 100 bytes per second"):
        quotas.take("ann", 1, 1)
