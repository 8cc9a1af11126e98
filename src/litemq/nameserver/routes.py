"""Routes: the live brokers of each topic, cached as serialized answers."""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from typing import NamedTuple

from litemq.proto.wire_pb2 import BrokerFacts, BrokerRoute, RouteAnswer

__all__ = ["Routes"]

_NO_ROUTE = RouteAnswer().SerializeToString()


class _Address(NamedTuple):
    """The part of a broker's route that all of its topics share."""

    host: str
    port: int
    default_durability: int


class Routes:
    """The live brokers by topic. Silent brokers have no routes."""

    def __init__(self) -> None:
        self._addresses: dict[str, _Address] = {}
        self._topics: dict[str, dict[str, int]] = {}  # topic -> broker -> queues
        self._topics_by_broker: dict[str, frozenset[str]] = {}
        self._priorities: dict[str, frozenset[str]] = {}  # broker -> its topics with priorities
        self._names: dict[str, str] = {}  # interned topic names: one string for all brokers
        self._answers: dict[str, bytes] = {}

    @property
    def topics(self) -> AbstractSet[str]:
        """The topics that have a route."""
        return self._topics.keys()

    def put(self, facts: BrokerFacts, queues: Mapping[str, int]) -> None:
        """Replace the routes of a live broker; ``queues`` is the number of queues by topic."""
        name = facts.name
        share = self._names.setdefault
        queues = {share(topic, topic): count for topic, count in queues.items()}
        address = _Address(facts.host, facts.port, facts.default_durability)
        before = self._topics_by_broker.get(name, frozenset())
        moved = self._addresses.get(name) != address
        self._addresses[name] = address
        changed = self._set_priorities(name, frozenset(topic.topic for topic in facts.topics if topic.has_priorities))
        for topic in before - queues.keys():
            self._remove_route(topic, name)
        for topic, count in queues.items():
            brokers = self._topics.get(topic)
            if brokers is None:
                brokers = self._topics[topic] = {}
            if moved or brokers.get(name) != count or topic in changed:
                brokers[name] = count
                self._answers.pop(topic, None)
        self._topics_by_broker[name] = frozenset(queues)

    def _set_priorities(self, name: str, topics: frozenset[str]) -> frozenset[str]:
        """Set which ``topics`` of a broker have priorities; return those that changed."""
        before = self._priorities.pop(name, frozenset())
        if topics:
            self._priorities[name] = topics
        return before ^ topics

    def remove(self, name: str) -> None:
        """Remove the routes of a broker, if any."""
        self._priorities.pop(name, None)
        for topic in self._topics_by_broker.pop(name, ()):
            self._remove_route(topic, name)
        self._addresses.pop(name, None)

    def _remove_route(self, topic: str, name: str) -> None:
        brokers = self._topics[topic]
        del brokers[name]
        self._answers.pop(topic, None)
        if not brokers:
            del self._topics[topic], self._names[topic]

    def answer(self, topic: str) -> bytes:
        """Return the serialized ``RouteAnswer``; it is empty if no live broker has ``topic``."""
        answer = self._answers.get(topic)
        if answer is None:
            brokers = self._topics.get(topic)
            if brokers is None:
                return _NO_ROUTE  # not cached: clients can ask for any name
            routes = [self._route(topic, name, brokers[name]) for name in sorted(brokers)]
            answer = self._answers[self._names[topic]] = RouteAnswer(brokers=routes).SerializeToString()
        return answer

    def _route(self, topic: str, name: str, queues: int) -> BrokerRoute:
        host, port, default_durability = self._addresses[name]
        has_priorities = topic in self._priorities.get(name, ())
        return BrokerRoute(
            name=name,
            host=host,
            port=port,
            queues=queues,
            default_durability=default_durability,
            has_priorities=has_priorities,
        )
