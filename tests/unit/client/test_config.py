"""Client settings: defaults, limits, and the parameters of the client."""

import dataclasses
import inspect

import pytest

from litemq.client.async_client import AsyncClient
from litemq.client.config import ClientConfig
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
def test_an_invalid_setting_says_what_to_choose(settings: dict[str, object], word: str) -> None:
    with pytest.raises(InvalidArgumentError, match=word):
        ClientConfig(**settings)  # type: ignore[arg-type]


def test_two_clients_have_different_ids() -> None:
    assert ClientConfig().client_id != ClientConfig().client_id
    assert ClientConfig(client_id="me").client_id == "me"
