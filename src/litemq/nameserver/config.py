"""What a NameServer allows, and how long it waits. Everything that a peer may grow has a bound here."""

from __future__ import annotations

from dataclasses import dataclass

from litemq.errors import InvalidArgumentError

__all__ = ["NameServerLimits"]


@dataclass(frozen=True, slots=True)
class NameServerLimits:
    """The settings of the services; those of files and sockets are elsewhere."""

    # The interval of heartbeats, the silence after which a broker leaves the routes, and the interval of sweeps.
    heartbeat_ms: int = 1_000
    lease_ms: int = 5_000
    sweep_interval_ms: int = 500

    max_brokers: int = 4_096
    max_topics: int = 100_000  # of one broker
    max_placements: int = 4_000_000  # a topic on a broker is one
    max_queues: int = 65_536  # of one topic on one broker

    def __post_init__(self) -> None:
        for name in self.__slots__:
            if getattr(self, name) < 1:
                raise InvalidArgumentError(f"{name}={getattr(self, name)}: choose a number above 0")
        if self.lease_ms < 2 * self.heartbeat_ms:
            raise InvalidArgumentError(
                f"lease_ms={self.lease_ms}, heartbeat_ms={self.heartbeat_ms}: choose a lease of at least two heartbeats, or one that is lost "
                "looks like a broker that is gone"
            )
