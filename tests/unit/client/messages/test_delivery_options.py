"""Delivery options: delays, delivery times, TTLs and priorities."""

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

from litemq.client.messages.delivery_options import NO_OPTIONS, DeliveryOptions, delivery_options
from litemq.errors import InvalidArgumentError

NOW = 1_700_000_000_000
YEAR_MS = 365 * 24 * 3600 * 1000


def _options(**given: Any) -> DeliveryOptions:
    names = ("delay", "deliver_at", "ttl", "priority", "delay_level")
    return delivery_options(NOW, *(given.get(name) for name in names))


def _moment(ms: int) -> datetime:
    return datetime.fromtimestamp(ms / 1000, UTC)


def test_options_are_converted() -> None:
    assert _options() == NO_OPTIONS
    assert _options(delay=0) == _options(delay=timedelta(0)) == NO_OPTIONS
    assert _options(delay=0.01).delay_time == NOW + 10
    assert _options(delay=timedelta(days=365)).delay_time == NOW + YEAR_MS
    assert _options(deliver_at=_moment(NOW + 5000)).delay_time == NOW + 5000
    assert _options(deliver_at=_moment(NOW + 5000).astimezone(timezone(timedelta(hours=8)))).delay_time == NOW + 5000
    assert _options(ttl=5).expire_at == NOW + 5000
    assert _options(ttl=5, delay=10) == DeliveryOptions(
        NOW + 10_000, NOW + 15_000
    )  # the TTL starts when the message is due
    levels = [(_options(delay_level=level).delay_time - NOW) // 1000 for level in range(1, 19)]
    assert levels == [1, 5, 10, 30, *range(60, 601, 60), 1200, 1800, 3600, 7200]
    assert (_options(priority=0).priority, _options(priority=255).priority) == (0, 255)


def test_a_client_whose_clock_is_ahead_sends_the_time_all_the_same() -> None:
    # By this client's clock it has passed. Whether it has, the broker decides by its own.
    for ago in (0, 1, 5000):
        assert _options(deliver_at=_moment(NOW - ago)).delay_time == NOW - ago
    assert _options(deliver_at=_moment(NOW - 5000), ttl=5).expire_at == NOW + 5000
    assert _options(deliver_at=_moment(-5000)) == NO_OPTIONS  # a record has no time before 1970


@pytest.mark.parametrize(
    ("given", "hint"),
    [
        ({"delay": 0.001}, "0.01"),
        ({"delay": -1}, "0 or more seconds"),
        ({"delay": timedelta(days=366)}, "365 days"),
        ({"delay": True}, "seconds"),
        ({"delay": float("nan")}, "seconds"),
        ({"delay": 1, "deliver_at": _moment(NOW)}, "choose one"),
        ({"delay": 1, "delay_level": 1}, "choose one"),
        ({"delay_level": 1, "deliver_at": _moment(NOW)}, "choose one"),
        ({"delay_level": 0}, "1 … 18"),
        ({"delay_level": 19}, "1 … 18"),
        ({"delay_level": "3"}, "1 … 18"),
        ({"deliver_at": _moment(NOW + YEAR_MS + 1000)}, "365 days"),
        ({"deliver_at": datetime(2030, 1, 1)}, "time zone"),  # noqa: DTZ001
        ({"deliver_at": "tomorrow"}, "datetime"),
        ({"ttl": 0}, "at least one millisecond"),
        ({"ttl": -1}, "0 or more seconds"),
        ({"priority": 256}, "255"),
        ({"priority": -1}, "255"),
        ({"priority": "high"}, "255"),
    ],
)
def test_an_invalid_option_says_what_to_choose(given: dict[str, Any], hint: str) -> None:
    with pytest.raises(InvalidArgumentError, match=hint):
        _options(**given)
