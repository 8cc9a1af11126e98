"""URLs of clusters, and the addresses of their NameServers."""

import pytest

from litemq.client.addresses import parse_addresses
from litemq.errors import InvalidArgumentError


def test_addresses() -> None:
    assert parse_addresses("litemq://a:1,b:2") == [("a", 1), ("b", 2)]
    assert parse_addresses("litemq://host") == [("host", 9876)]
    assert parse_addresses("litemq://[::1]:5/") == [("::1", 5)]
    assert parse_addresses("litemq://[::1]") == [("::1", 9876)]
    for url in (
        "litemq://",
        "litemq://a:b",
        "litemq://a:1,",
        "litemq://a:99999",
        "litemq://me@a:1",
        "litemq://a/topic",
    ):
        with pytest.raises(InvalidArgumentError, match="write litemq:"):
            parse_addresses(url)
