"""Retry policies: delays and the number of retries."""

from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from litemq.client.settling.retry_policy import Retry, RetryPolicy
from litemq.errors import InvalidArgumentError


def test_the_delay_doubles_up_to_a_limit() -> None:
    policy = RetryPolicy(min_backoff=1, max_backoff=timedelta(seconds=10), jitter=0)
    assert [policy.delay(attempt) for attempt in range(1, 7)] == [1, 2, 4, 8, 10, 10]
    assert policy.delay(1_000_000) == 10


@given(st.integers(1, 100), st.floats(0, 1000), st.floats(0, 1000), st.floats(0.01, 1))
def test_jitter_is_a_share_of_the_delay(attempt: int, one: float, other: float, share: float) -> None:
    shortest, longest = sorted((one, other))
    plain, random = (RetryPolicy(min_backoff=shortest, max_backoff=longest, jitter=jitter) for jitter in (0, share))
    full = plain.delay(attempt)
    assert full * (1 - share) <= random.delay(attempt) <= full * (1 + share)
    assert random.delay(attempt, lambda low, _high: low) == full * (1 - share)


def test_of_a_list_of_delays_the_last_repeats() -> None:
    policy = RetryPolicy(delays=[1, timedelta(minutes=1), 0.5])
    assert [policy.delay(attempt) for attempt in range(1, 6)] == [1, 60, 0.5, 0.5, 0.5]


def test_the_last_attempt_follows_all_retries() -> None:
    assert [RetryPolicy(max_retries=2).is_last(attempt) for attempt in (1, 2, 3)] == [False, False, True]
    assert RetryPolicy(max_retries=0).is_last(1)


def test_one_class_of_errors_needs_no_tuple() -> None:
    assert RetryPolicy(throws=ValueError).throws == (ValueError,)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("options", "word"),
    [
        ({"max_retries": -1}, "max_retries"),
        ({"max_retries": True}, "max_retries"),
        ({"max_retries": 1 << 40}, "max_retries"),
        ({"min_backoff": -1}, "min_backoff"),
        ({"min_backoff": 3601}, "longer than max_backoff"),
        ({"max_backoff": timedelta(days=366)}, "365 days"),
        ({"delays": [1, -1]}, "delays"),
        ({"throws": (3,)}, "throws"),
        ({"throws": (KeyboardInterrupt,)}, "throws"),
    ],
)
def test_an_invalid_option_is_rejected(options: dict[str, Any], word: str) -> None:
    with pytest.raises(InvalidArgumentError, match=word):
        RetryPolicy(**options)


def test_a_handler_may_choose_the_delay() -> None:
    assert Retry(timedelta(minutes=2)).delay == 120
    assert Retry().delay is None
    assert str(Retry(1, "the other side sleeps")) == "the other side sleeps"
    with pytest.raises(InvalidArgumentError, match="delay"):
        Retry(-1)
