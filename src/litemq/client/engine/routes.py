"""Routes: the brokers and queues of a topic, and the queue of an ordering key."""

from __future__ import annotations

import random
from typing import NamedTuple

from litemq.errors import InvalidArgumentError, NoRouteError
from litemq.format.crc import crc32c
from litemq.types import Durability

__all__ = ["BrokerAddress", "Route", "queue_for_key", "random_index"]


class BrokerAddress(NamedTuple):
    """A broker of a route: its address, and its queues of the topic."""

    name: str
    host: str
    port: int
    queues: int
    default_durability: Durability
    alive: bool = True  # False: no heartbeat, but still in the route; messages bound to its queues wait
    has_priorities: bool = False  # each queue is eight physical queues: queue x 8 + priority // 32


class Route(NamedTuple):
    """The brokers of a topic, sorted by name."""

    topic: str
    brokers: tuple[BrokerAddress, ...]

    @property
    def queues(self) -> list[tuple[str, int]]:
        """Return all queues as (broker, number), in the same order on every client."""
        return [(broker.name, number) for broker in self.brokers for number in range(broker.queues)]

    def broker(self, name: str) -> BrokerAddress:
        """Return the broker ``name``; raise ``NoRouteError`` if it is not in the route."""
        for broker in self.brokers:
            if broker.name == name:
                return broker
        raise NoRouteError(f"broker {name!r} has no queue of topic {self.topic!r}")


def queue_for_key(key: str, queues: int, what: str = "ordering_key") -> int:
    """Return the index, among ``queues`` queues, for messages with ``key``.

    Every client gets the same index. ``what`` names the argument in errors.
    """
    try:
        return crc32c(key.encode()) % queues
    except (AttributeError, UnicodeEncodeError):
        raise InvalidArgumentError(
            f"{what}={key!r}: expected a string that UTF-8 can encode, got {type(key).__name__}"
        ) from None


def random_index(count: int) -> int:
    """Return a random number below ``count``."""
    return random.randrange(count)  # noqa: S311  spreads load, keeps no secret
