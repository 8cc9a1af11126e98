"""NameServer settings: invalid values are refused with the valid ones."""

from typing import Any

import pytest

from litemq.errors import ConfigurationError
from litemq.nameserver.config import NameServerLimits
from litemq.server.nameserver_config import NameServerConfig


def test_the_defaults_are_the_services() -> None:
    assert NameServerConfig().limits == NameServerLimits()


def test_long_intervals_are_accepted() -> None:
    config = NameServerConfig(
        heartbeat_interval_ms=30_000, heartbeat_timeout_ms=90_000, route_update_interval_ms=30_000
    )
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
        ({"store_kind": "consul"}, "choose embedded or etcd"),
        ({"store_kind": "etcd"}, "name each member"),
        ({"etcd_endpoints": ("127.0.0.1:2379",)}, "choose etcd, or omit the endpoints"),
        ({"store_kind": "etcd", "etcd_endpoints": ("127.0.0.1",)}, "write host:port, such as 127.0.0.1:2379"),
        ({"store_kind": "etcd", "etcd_endpoints": ("h:2379",), "master_lease_ms": 1_999}, "choose 2000 or more"),
        *(
            ({"etcd_prefix": prefix}, "use 1 to 8 names that begin with /, such as /litemq")
            for prefix in ("", "litemq", "litemq/", "/litemq/", "/a b", "/" + "x" * 200)
        ),
        ({"etcd_timeout_ms": 99}, "choose 100 …"),
    ],
)
def test_invalid_settings_are_refused(changes: dict[str, Any], says: str) -> None:
    with pytest.raises(ConfigurationError, match=says):
        NameServerConfig(**changes)
