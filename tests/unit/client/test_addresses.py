"""URLs of clusters, and the addresses of their NameServers."""

import pytest

from litemq.client.addresses import broker_advice, nameserver_advice, parse_addresses
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


@pytest.mark.parametrize(
    ("url", "nameserver", "broker"),
    [
        ("litemq://127.0.0.1:9876", "start one with `litemq up`", "`litemq broker`"),
        ("litemq://localhost", "start one with `litemq up`", "`litemq broker`"),
        (
            "litemq://127.0.0.1:9877",
            "correct the URL, or start one at this port with `litemq up --nameserver-port 9877`",
            "`litemq broker --nameserver 127.0.0.1:9877`",
        ),
        (
            "litemq://node-1:9876",
            "start one on node-1 with `litemq nameserver --host node-1 --port 9876`, or correct the URL",
            "`litemq broker --nameserver node-1:9876`",
        ),
        (
            "litemq://node-1:1,[::1]:2",
            "start one of them with `litemq nameserver`, or correct the URL",
            "`litemq broker --nameserver node-1:1,[::1]:2`",
        ),
    ],
)
def test_the_advice_fits_the_address(url: str, nameserver: str, broker: str) -> None:
    addresses = parse_addresses(url)
    assert nameserver_advice(addresses) == nameserver
    assert broker_advice(addresses) == f"start one with {broker}"
