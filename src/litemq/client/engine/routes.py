"""Which queue a message goes to."""

from __future__ import annotations

import random
from typing import NamedTuple

from litemq.errors import InvalidArgumentError, NoRouteError
from litemq.format.crc import crc32c
from litemq.types import Durability

__all__ = ["BrokerPlace", "Route", "pick", "queue_of_key"]


class BrokerPlace(NamedTuple):
    """A broker that has queues of a topic, as the NameServer tells it."""

    name: str
    host: str
    port: int
    queues: int
    default_durability: Durability
    alive: bool = True  # False: it is silent, but has not left; what is bound to its queues waits for it
    has_priorities: bool = False  # each queue is 8 of these: queue x 8 + priority // 32


class Route(NamedTuple):
    """The brokers of a topic, by name."""

    topic: str
    brokers: tuple[BrokerPlace, ...]

    @property
    def queues(self) -> list[tuple[str, int]]:
        """All queues, as broker and number, in an order that is the same for every client."""
        return [(broker.name, number) for broker in self.brokers for number in range(broker.queues)]

    def broker(self, name: str) -> BrokerPlace:
        """The broker of this name."""
        for broker in self.brokers:
            if broker.name == name:
                return broker
        raise NoRouteError(f"broker {name!r} has no queue of topic {self.topic!r}")


def queue_of_key(key: str, queues: int) -> int:
    """The number of the queue, among all of a topic, that a key's messages go to: the same for every client that knows the same queues."""
    try:
        return crc32c(key.encode()) % queues
    except (AttributeError, UnicodeEncodeError):
        raise InvalidArgumentError(f"a key of {key!r}: a string is wanted that can be written as UTF-8") from None


def pick(count: int) -> int:
    """Any of so many."""
    return random.randrange(count)  # noqa: S311  spreads load, keeps no secret
