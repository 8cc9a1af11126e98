"""Limits and intervals of a NameServer. Every structure that a peer can grow has a limit here."""

from __future__ import annotations

from dataclasses import dataclass

from litemq.errors import InvalidArgumentError

__all__ = ["NameServerLimits"]


@dataclass(frozen=True, slots=True)
class NameServerLimits:
    """The limits of a NameServer's requests; files and sockets have settings of their own."""

    # The heartbeat interval, the silence after which routes omit a broker, and the sweep interval.
    heartbeat_ms: int = 1_000
    lease_ms: int = 5_000
    sweep_interval_ms: int = 500

    # The lease of a group's master, and the silence after which a replica is not elected.
    master_lease_ms: int = 5_000
    replica_silence_ms: int = 2_000

    max_brokers: int = 4_096
    max_topics: int = 100_000  # per broker
    max_placements: int = 4_000_000  # pairs of topic and broker
    max_queues: int = 65_536  # per topic and broker

    def __post_init__(self) -> None:
        for name in self.__slots__:
            if getattr(self, name) < 1:
                raise InvalidArgumentError(f"{name}={getattr(self, name)}: choose 1 or more")
        if self.lease_ms < 2 * self.heartbeat_ms:
            raise InvalidArgumentError(
                f"lease_ms={self.lease_ms}, heartbeat_ms={self.heartbeat_ms}: choose a lease of at least two "
                "heartbeats, so that one lost heartbeat does not expire it"
            )
