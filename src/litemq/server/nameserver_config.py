"""A NameServer's settings, with their defaults."""

from __future__ import annotations

from dataclasses import dataclass

from litemq.errors import ConfigurationError
from litemq.nameserver.config import NameServerLimits

__all__ = ["NameServerConfig"]


@dataclass(frozen=True, slots=True)
class NameServerConfig:
    """Where a NameServer listens, where its facts are, and how long it waits for a broker."""

    # Port 0: any that is free.
    host: str = "127.0.0.1"
    port: int = 9876
    # Until users and rights are checked, listening on more than this machine must be asked for.
    insecure: bool = False
    data_path: str = "./litemq-data/nameserver"

    # How often a broker says that it is there, and after how much silence it leaves the routes.
    heartbeat_interval_ms: int = 1_000
    heartbeat_timeout_ms: int = 5_000
    # The interval at which silent brokers are removed from the routes.
    route_update_interval_ms: int = 500

    shutdown_timeout_ms: int = 30_000

    def __post_init__(self) -> None:
        if not self.host:
            raise ConfigurationError("host is empty: choose 127.0.0.1, or the address of a network that is yours alone")
        if not 0 <= self.port <= 65535:
            raise ConfigurationError(f"port={self.port}: choose 1 … 65535, or 0 for any that is free")
        if not self.data_path:
            raise ConfigurationError("data_path is empty: choose a directory, such as ./litemq-data/nameserver")
        for name, least in (("heartbeat_interval_ms", 50), ("heartbeat_timeout_ms", 100), ("route_update_interval_ms", 10)):
            if not least <= getattr(self, name) <= 3_600_000:
                raise ConfigurationError(f"{name}={getattr(self, name)}: choose {least} … 3600000")
        if self.heartbeat_timeout_ms < 2 * self.heartbeat_interval_ms:
            raise ConfigurationError(
                f"heartbeat_timeout_ms={self.heartbeat_timeout_ms}: choose at least {2 * self.heartbeat_interval_ms}, two heartbeats, "
                "or one that is lost looks like a broker that is gone"
            )
        if self.route_update_interval_ms > self.heartbeat_timeout_ms:
            raise ConfigurationError(
                f"route_update_interval_ms={self.route_update_interval_ms}: choose at most {self.heartbeat_timeout_ms}, the heartbeat timeout"
            )
        if self.shutdown_timeout_ms < 0:
            raise ConfigurationError(f"shutdown_timeout_ms={self.shutdown_timeout_ms}: choose 0 or more")

    @property
    def limits(self) -> NameServerLimits:
        """The same for the services."""
        return NameServerLimits(
            heartbeat_ms=self.heartbeat_interval_ms, lease_ms=self.heartbeat_timeout_ms, sweep_interval_ms=self.route_update_interval_ms
        )
