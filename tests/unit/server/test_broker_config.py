"""Broker settings: invalid values are refused with the valid ones."""

from dataclasses import replace
from typing import Any

import pytest

from litemq.errors import ConfigurationError, UnsupportedFeatureError
from litemq.server.broker_config import BrokerConfig, check_address
from litemq.storage.config import StoreConfig
from litemq.types import Durability


def test_the_defaults_are_the_stores() -> None:
    config, store = BrokerConfig(), StoreConfig()
    assert config.file_size == store.segment_bytes
    assert (config.max_record_bytes, config.retention_ms, config.max_log_bytes) == (
        store.max_record_bytes,
        store.retention_ms,
        store.max_log_bytes,
    )
    assert (config.disk_clean_percent, config.disk_refuse_percent) == (
        store.disk_clean_percent,
        store.disk_refuse_percent,
    )


def test_the_default_durability_follows_the_flush_mode() -> None:
    assert BrokerConfig().default_durability is Durability.DISK
    assert BrokerConfig(flush_mode="async").default_durability is Durability.MEMORY


def test_the_reachable_host_is_the_host_unless_advertised_host_is_set() -> None:
    assert BrokerConfig().reachable_host == "127.0.0.1"
    assert BrokerConfig(advertised_host="mq-1.internal").reachable_host == "mq-1.internal"


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"broker_id": ""}, "broker_id=''"),
        ({"broker_name": "a b"}, "use 1 to 127"),
        ({"host": ""}, "choose 127.0.0.1"),
        ({"port": 65536}, "choose 1 … 65535"),
        ({"nameservers": ()}, "name at least one"),
        ({"nameservers": ("localhost",)}, "write host:port"),
        ({"data_path": ""}, "choose a directory"),
        ({"flush_mode": "fast"}, "choose sync"),
        ({"file_size": 1 << 20}, "multiple of 8 of at least 4259840"),
        ({"file_size": (1 << 30) + 1}, "multiple of 8"),
        ({"max_record_bytes": 1}, "choose 1024"),
        ({"retention_ms": 0}, "omit it"),
        ({"max_log_bytes": -1}, "omit it"),
        ({"disk_clean_percent": 95}, "disk_clean_percent <= disk_refuse_percent"),
        ({"disk_clean_percent": 101}, "disk_clean_percent=101: choose 1 … 100"),
        ({"disk_clean_percent": 0}, "disk_clean_percent=0: choose 1 … 100"),
        ({"disk_refuse_percent": 101}, "disk_refuse_percent=101: choose 1 … 100"),
        ({"default_queues": 0}, "choose 1 … 65536"),
        ({"quota_bytes_per_s": -1}, "choose 0 or more"),
        ({"half_lifetime_ms": 0}, "choose a positive number"),
        ({"shutdown_timeout_ms": -1}, "choose 0 or more"),
        ({"replication_mode": "maybe"}, "choose async or sync"),
        ({"replication_role": "king"}, "choose master"),
    ],
)
def test_invalid_settings_are_refused_with_valid_values(changes: dict[str, Any], says: str) -> None:
    with pytest.raises(ConfigurationError, match=says):
        replace(BrokerConfig(), **changes)


def test_a_replica_has_no_configured_role() -> None:
    with pytest.raises(UnsupportedFeatureError, match="choose master"):
        BrokerConfig(replication_role="slave")


def test_an_address_is_split() -> None:
    assert check_address("x", "127.0.0.1:9876") == ("127.0.0.1", 9876)
    assert check_address("x", "[::1]:1") == ("::1", 1)
