"""The interface of the store that keeps broker registrations."""

from __future__ import annotations

from typing import NamedTuple, Protocol

from litemq.proto.wire_pb2 import BrokerFacts

__all__ = ["ClusterStore", "StoredBroker"]


class StoredBroker(NamedTuple):
    """A broker's last registration; ``silent`` if its lease has expired since."""

    facts: BrokerFacts
    silent: bool


class ClusterStore(Protocol):
    """A store of broker registrations that survives restarts.

    A write that fails raises ``StorageError`` and changes nothing. Losing the content is safe:
    brokers register again within a heartbeat.
    """

    def brokers(self) -> list[StoredBroker]:
        """Return all brokers, sorted by name."""

    def put_broker(self, broker: StoredBroker) -> None:
        """Save a broker, replacing any with the same name."""

    def remove_broker(self, name: str) -> None:
        """Delete a broker, if it exists."""

    def close(self) -> None: ...
