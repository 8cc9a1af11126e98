"""What may be asked for: delays, times, worth and urgency."""

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

from litemq.client.messages.delivery_options import PLAIN, Terms, terms_of
from litemq.errors import InvalidArgumentError

NOW = 1_700_000_000_000
YEAR_MS = 365 * 24 * 3600 * 1000


def _terms(**asked: Any) -> Terms:
    words = ("delay", "deliver_at", "ttl", "priority", "delay_level")
    return terms_of(NOW, *(asked.get(word) for word in words))


def _moment(ms: int) -> datetime:
    return datetime.fromtimestamp(ms / 1000, UTC)


def test_what_is_asked_for() -> None:
    assert _terms() == PLAIN
    assert _terms(delay=0) == _terms(delay=timedelta(0)) == PLAIN
    assert _terms(delay=0.01).delay_time == NOW + 10
    assert _terms(delay=timedelta(days=365)).delay_time == NOW + YEAR_MS
    assert _terms(deliver_at=_moment(NOW + 5000)).delay_time == NOW + 5000
    assert _terms(deliver_at=_moment(NOW + 5000).astimezone(timezone(timedelta(hours=8)))).delay_time == NOW + 5000
    assert _terms(deliver_at=_moment(NOW - 5000)) == PLAIN
    assert _terms(ttl=5).expire_at == NOW + 5000
    assert _terms(ttl=5, delay=10) == Terms(NOW + 10_000, NOW + 15_000)  # worth something from when it can be received
    levels = [(_terms(delay_level=level).delay_time - NOW) // 1000 for level in range(1, 19)]
    assert levels == [1, 5, 10, 30, *range(60, 601, 60), 1200, 1800, 3600, 7200]
    assert (_terms(priority=0).priority, _terms(priority=255).priority) == (0, 255)


@pytest.mark.parametrize(
    ("asked", "hint"),
    [
        ({"delay": 0.001}, "0.01"),
        ({"delay": -1}, "from 0 on"),
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
        ({"ttl": 0}, "a millisecond or more"),
        ({"ttl": -1}, "from 0 on"),
        ({"priority": 256}, "255"),
        ({"priority": -1}, "255"),
        ({"priority": "high"}, "255"),
    ],
)
def test_what_may_not_be_asked_for(asked: dict[str, Any], hint: str) -> None:
    with pytest.raises(InvalidArgumentError, match=hint):
        _terms(**asked)
