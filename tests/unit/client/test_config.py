"""Settings: their defaults, their limits, and that the clients take the same."""

import dataclasses
import inspect

import pytest

from litemq.client.addresses import parse_addresses
from litemq.client.async_client import AsyncClient
from litemq.client.config import ClientConfig
from litemq.client.identity import MessageIds
from litemq.client.times import seconds, to_ms
from litemq.errors import InvalidArgumentError


def test_the_client_takes_every_setting_with_the_same_default() -> None:
    parameters = inspect.signature(AsyncClient.__init__).parameters
    for field in dataclasses.fields(ClientConfig):
        assert parameters[field.name].default == field.default, field.name
        assert parameters[field.name].kind is inspect.Parameter.KEYWORD_ONLY


@pytest.mark.parametrize(
    ("settings", "word"),
    [
        ({"linger_ms": -1}, "linger_ms"),
        ({"linger_ms": True}, "linger_ms"),
        ({"max_batch_messages": 2000}, "1024"),
        ({"compression_type": "gzip"}, "zstd"),
        ({"queue_choice": "best"}, "round_robin"),
        ({"auto_offset_reset": "newest"}, "latest"),
        ({"durability": "safe"}, "replicas"),
        ({"request_timeout_ms": 40_000}, "delivery_timeout_ms"),
        ({"max_batch_bytes": 8 << 20, "buffer_bytes": 1 << 20}, "buffer_bytes"),
    ],
)
def test_what_cannot_be_used_says_what_to_choose(settings: dict[str, object], word: str) -> None:
    with pytest.raises(InvalidArgumentError, match=word):
        ClientConfig(**settings)  # type: ignore[arg-type]


def test_two_clients_have_two_names() -> None:
    assert ClientConfig().client_id != ClientConfig().client_id
    assert ClientConfig(client_id="me").client_id == "me"


def test_addresses() -> None:
    assert parse_addresses("litemq://a:1,b:2") == [("a", 1), ("b", 2)]
    assert parse_addresses("litemq://host") == [("host", 9876)]
    assert parse_addresses("litemq://[::1]:5/") == [("::1", 5)]
    assert parse_addresses("litemq://[::1]") == [("::1", 9876)]
    for url in ("litemq://", "litemq://a:b", "litemq://a:1,", "litemq://a:99999", "litemq://me@a:1", "litemq://a/topic"):
        with pytest.raises(InvalidArgumentError, match="write it like"):
            parse_addresses(url)


def test_message_ids_are_unique_and_rise() -> None:
    ids = MessageIds()
    made = [ids.next()[0] for _ in range(10_000)]
    assert len(set(made)) == len(made)
    assert made == sorted(made)
    assert max(map(len, made)) <= 64
    assert MessageIds().next()[0] != MessageIds().next()[0]


def test_durations_and_moments() -> None:
    from datetime import UTC, datetime, timedelta

    assert seconds(timedelta(minutes=1), "wait") == 60.0
    assert seconds(2, "wait") == 2.0
    assert to_ms(datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC), "start") == 1000
    assert to_ms(datetime(2026, 11, 15, 12, 0, 0, 1, tzinfo=UTC), "deliver_at") % 1000 == 1  # rather late than early
    for wrong in (-1, float("nan"), "5", True):
        with pytest.raises(InvalidArgumentError, match="wait="):
            seconds(wrong, "wait")  # type: ignore[arg-type]
    with pytest.raises(InvalidArgumentError, match="time zone"):
        to_ms(datetime(2030, 1, 1), "start")  # noqa: DTZ001
