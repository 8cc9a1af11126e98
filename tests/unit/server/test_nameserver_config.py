"""A NameServer's settings: what cannot be used is refused with what can."""

from typing import Any

import pytest

from litemq.errors import ConfigurationError
from litemq.nameserver.config import NameServerLimits
from litemq.server.nameserver_config import NameServerConfig


def test_the_defaults_are_the_services() -> None:
    assert NameServerConfig().limits == NameServerLimits()


def test_long_times_as_on_slow_hosts_are_taken() -> None:
    config = NameServerConfig(heartbeat_interval_ms=30_000, heartbeat_timeout_ms=90_000, route_update_interval_ms=30_000)
    assert config.limits.lease_ms == 90_000


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"host": ""}, "choose 127.0.0.1"),
        ({"port": 65536}, "choose 1 … 65535"),
        ({"port": -1}, "choose 1 … 65535"),
        ({"data_path": ""}, "choose a directory"),
        ({"heartbeat_interval_ms": 0}, "choose 50 …"),
        ({"heartbeat_timeout_ms": 3_600_001}, "choose 100 …"),
        ({"heartbeat_timeout_ms": 1_999}, "choose at least 2000"),
        ({"route_update_interval_ms": 5_001}, "choose at most 5000"),
        ({"shutdown_timeout_ms": -1}, "choose 0 or more"),
    ],
)
def test_what_cannot_be_used_is_refused(changes: dict[str, Any], says: str) -> None:
    with pytest.raises(ConfigurationError, match=says):
        NameServerConfig(**changes)
