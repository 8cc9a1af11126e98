"""The settings of a NameServer, with defaults and validation."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, Literal

from litemq.errors import ConfigurationError
from litemq.nameserver.cluster_store.groups import MAX_LEASE_MS
from litemq.nameserver.config import NameServerLimits
from litemq.server.broker_config import check_address

__all__ = ["NameServerConfig"]

_MIN_ETCD_LEASE_MS: Final = 2_000
_ETCD_EXAMPLE: Final = "127.0.0.1:2379"
_ETCD_PREFIX: Final = re.compile(r"(/[A-Za-z0-9_.\-]{1,127}){1,8}", re.ASCII)


@dataclass(frozen=True, slots=True)
class NameServerConfig:
    """The settings of a NameServer: address, data directory, heartbeats."""

    # Port 0: any free one.
    host: str = "127.0.0.1"
    port: int = 9876
    # Required to listen on other than loopback addresses, because there is no authentication yet.
    insecure: bool = False
    data_path: str = "./litemq-data/nameserver"

    # Where the facts of replicated groups are: in data_path, for one NameServer, or in an etcd
    # cluster that three or more NameServers share. etcd_timeout_ms is that of a request with its
    # retries: with half of it, links of 100 ms delay cost leases.
    store_kind: Literal["embedded", "etcd"] = "embedded"
    etcd_endpoints: tuple[str, ...] = ()
    etcd_prefix: str = "/litemq"
    etcd_timeout_ms: int = 3_000

    # The interval of heartbeats, and the silence after which a broker is removed from the routes.
    heartbeat_interval_ms: int = 1_000
    heartbeat_timeout_ms: int = 5_000
    # The interval of the search for silent brokers.
    route_update_interval_ms: int = 500

    # How long a master may be silent before its group elects another one.
    master_lease_ms: int = 5_000

    shutdown_timeout_ms: int = 30_000

    def __post_init__(self) -> None:
        if not self.host:
            raise ConfigurationError("host is empty: choose 127.0.0.1, or the address of a trusted network")
        if not 0 <= self.port <= 65535:
            raise ConfigurationError(f"port={self.port}: choose 1 … 65535, or 0 for any free port")
        if not self.data_path:
            raise ConfigurationError("data_path is empty: choose a directory, such as ./litemq-data/nameserver")
        min_intervals = {
            "heartbeat_interval_ms": 50,
            "heartbeat_timeout_ms": 100,
            "route_update_interval_ms": 10,
            "master_lease_ms": 1_000,
            "etcd_timeout_ms": 100,
        }
        for name, minimum in min_intervals.items():
            maximum = MAX_LEASE_MS if name == "master_lease_ms" else 3_600_000
            if not minimum <= getattr(self, name) <= maximum:
                raise ConfigurationError(f"{name}={getattr(self, name)}: choose {minimum} … {maximum}")
        if self.heartbeat_timeout_ms < 2 * self.heartbeat_interval_ms:
            raise ConfigurationError(
                f"heartbeat_timeout_ms={self.heartbeat_timeout_ms}: choose at least {2 * self.heartbeat_interval_ms}, "
                "two heartbeats, so that one lost heartbeat does not remove a broker"
            )
        if self.route_update_interval_ms > self.heartbeat_timeout_ms:
            raise ConfigurationError(
                f"route_update_interval_ms={self.route_update_interval_ms}: choose at most "
                f"{self.heartbeat_timeout_ms}, the heartbeat timeout"
            )
        if self.shutdown_timeout_ms < 0:
            raise ConfigurationError(f"shutdown_timeout_ms={self.shutdown_timeout_ms}: choose 0 or more")
        self._check_store()

    def _check_store(self) -> None:
        if self.store_kind not in ("embedded", "etcd"):
            raise ConfigurationError(f"store_kind={self.store_kind!r}: choose embedded or etcd")
        if self.store_kind == "embedded" and self.etcd_endpoints:
            raise ConfigurationError(
                "etcd_endpoints has no effect with store_kind='embedded': choose etcd, or omit the endpoints"
            )
        if self.store_kind == "etcd" and not self.etcd_endpoints:
            raise ConfigurationError(
                f"etcd_endpoints is empty: name each member of the etcd cluster, such as {_ETCD_EXAMPLE}"
            )
        if not _ETCD_PREFIX.fullmatch(self.etcd_prefix):
            raise ConfigurationError(
                f"etcd_prefix={self.etcd_prefix[:300]!r}: use 1 to 8 names that begin with /, such as /litemq"
            )
        for endpoint in self.etcd_endpoints:
            check_address("etcd_endpoints", endpoint, example=_ETCD_EXAMPLE)
        if self.store_kind == "etcd" and self.master_lease_ms < _MIN_ETCD_LEASE_MS:
            raise ConfigurationError(
                f"master_lease_ms={self.master_lease_ms}: choose {_MIN_ETCD_LEASE_MS} or more: etcd grants no "
                "shorter leases"
            )

    @property
    def limits(self) -> NameServerLimits:
        """The limits that the ``NameServer`` takes."""
        return NameServerLimits(
            heartbeat_ms=self.heartbeat_interval_ms,
            lease_ms=self.heartbeat_timeout_ms,
            sweep_interval_ms=self.route_update_interval_ms,
            master_lease_ms=self.master_lease_ms,
        )
