"""What a NameServer asks of the place where its facts live."""

from __future__ import annotations

from typing import NamedTuple, Protocol

from litemq.proto.wire_pb2 import BrokerFacts

__all__ = ["ClusterStore", "StoredBroker"]


class StoredBroker(NamedTuple):
    """A broker as it last registered, and whether it had fallen silent since."""

    facts: BrokerFacts
    silent: bool


class ClusterStore(Protocol):
    """Keeps the brokers, each with its address and the queues of its topics. What was put is there after a restart.

    A write that fails raises ``StorageError`` and changes nothing. These facts may be lost: brokers tell them again within a heartbeat.
    """

    def brokers(self) -> list[StoredBroker]:
        """All of them, by name."""

    def put_broker(self, broker: StoredBroker) -> None:
        """Keep a broker in place of what was known of that name."""

    def remove_broker(self, name: str) -> None:
        """Forget a broker; if there is none of that name, nothing happens."""

    def close(self) -> None: ...
