"""A cluster without an event loop: where its brokers are, what they have, and a connection to each."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Iterable
from typing import Final, NamedTuple

from litemq.client.addresses import parse_addresses
from litemq.client.identity import new_suffix
from litemq.errors import (
    ConnectionLostError,
    InvalidArgumentError,
    LiteMQError,
    NoRouteError,
    OverloadedError,
    RequestTimeoutError,
    TopicNotFoundError,
)
from litemq.net.blocking import BlockingPeer
from litemq.proto.wire_pb2 import (
    BrokersAnswer,
    BrokerState,
    ListTopicsRequest,
    OffsetAnswer,
    OffsetAtTimeRequest,
    Opcode,
    TopicAnswer,
    TopicRequest,
    TopicsAnswer,
)
from litemq.spark.options import nearest
from litemq.types import is_system_name

__all__ = ["Links", "Patience", "QueueBounds", "TopicPlace", "check_topic"]

_PATIENCE_S: Final = 30.0
_ANSWERED_WITHIN_S: Final = 30.0
_LONGEST_PAUSE_S: Final = 1.0


class TopicPlace(NamedTuple):
    """A topic at one broker."""

    broker: str
    topic: str
    queues: int


class QueueBounds(NamedTuple):
    """What can be read of a queue: offsets ``least … next - 1``, all of them confirmed. ``identity`` is its topic's at this broker."""

    broker: str
    topic: str
    queue_id: int
    least: int
    next: int
    identity: str


class Patience:
    """How long a broker is waited for that does not answer, and with which pauses."""

    def __init__(self, seconds: float = _PATIENCE_S) -> None:
        self._until = time.monotonic() + seconds
        self._pause = 0.02

    def spend(self, error: LiteMQError) -> None:
        """Wait a moment; raises ``error`` where that was done for long enough."""
        if time.monotonic() + self._pause > self._until:
            raise error
        time.sleep(self._pause * random.uniform(0.5, 1.0))  # noqa: S311  only so that not all come at once
        self._pause = min(2 * self._pause, _LONGEST_PAUSE_S)


class Links:
    """The NameServers that a URL names, and the brokers that they know."""

    def __init__(self, url: str, *, patience_s: float = _PATIENCE_S) -> None:
        if not url.startswith("litemq://"):
            raise InvalidArgumentError(f"url={url!r}: write it like litemq://127.0.0.1:9876, as the NameServer's address")
        self.url = url
        self.patience_s = patience_s
        self._name_servers = parse_addresses(url)
        self._names: BlockingPeer | None = None
        self._addresses: dict[str, tuple[str, int]] = {}
        self._peers: dict[str, BlockingPeer] = {}
        self._client_id = f"spark-{os.getpid()}-{new_suffix()}"

    # Who is there ---------------------------------------------------------------------------------------------------------------

    def brokers(self) -> list[BrokerState]:
        """All brokers that the NameServer knows."""
        answer = BrokersAnswer.FromString(self._ask_names(Opcode.LIST_BROKERS, b""))
        self._addresses = {state.facts.name: (state.facts.host, state.facts.port) for state in answer.brokers}
        return sorted(answer.brokers, key=lambda state: state.facts.name)

    def _ask_names(self, opcode: int, header: bytes) -> bytes:
        failures = []
        if self._names is not None:
            try:
                return self._names.request(opcode, header).header
            except (ConnectionLostError, RequestTimeoutError):
                self._names = None  # it was idle for too long, or is gone: asked anew
        for host, port in self._name_servers:
            try:
                self._names = BlockingPeer(host, port, client_id=self._client_id)
                return self._names.request(opcode, header).header
            except (ConnectionLostError, RequestTimeoutError) as error:
                failures.append(str(error))
        raise NoRouteError(f"no NameServer answers at {self.url}: {'; '.join(failures)}. Start one with `litemq up`, or mend the url")

    def topics(self, include_system: bool = False) -> list[TopicPlace]:
        """Every topic at every broker."""
        found = []
        for state in self._alive():
            facts = state.facts
            told: Iterable[tuple[str, int]]
            if include_system:
                header = ListTopicsRequest(include_system=True).SerializeToString()
                answer = TopicsAnswer.FromString(self.ask(facts.name, Opcode.LIST_TOPICS, header))
                told = ((entry.topic, entry.queues) for entry in answer.topics)
            else:
                told = ((entry.topic, entry.queues) for entry in facts.topics if not is_system_name(entry.topic))
            found += [TopicPlace(facts.name, topic, queues) for topic, queues in told]
        return sorted(found)

    def _alive(self) -> list[BrokerState]:
        """The brokers, all of which answer: what a silent one has must not look as if it were not there."""
        states = self.brokers()
        if not states:
            raise NoRouteError(f"the NameServer at {self.url} knows no broker: start one with `litemq broker`, or all with `litemq up`")
        return states

    # Asking a broker -------------------------------------------------------------------------------------------------------------

    def peer(self, broker: str) -> BlockingPeer:
        """The connection to a broker."""
        peer = self._peers.get(broker)
        if peer is None:
            if broker not in self._addresses:
                self.brokers()
            if broker not in self._addresses:
                raise NoRouteError(f"no NameServer knows where broker {broker!r} is ({self.url})")
            host, port = self._addresses[broker]
            peer = self._peers[broker] = BlockingPeer(host, port, client_id=self._client_id, answer_timeout=_ANSWERED_WITHIN_S)
        return peer

    def trouble(self, broker: str, error: LiteMQError, patience: Patience) -> None:
        """A broker failed: wait before it is asked again. Raises what cannot be mended by waiting, and what has lasted too long."""
        if not error.retriable:
            raise error
        if not isinstance(error, OverloadedError):
            peer = self._peers.pop(broker, None)
            self._addresses.pop(broker, None)  # it may come back elsewhere
            if peer is not None:
                peer.close()
            error = NoRouteError(f"broker {broker!r} does not answer: {error}. What it has cannot be had elsewhere: start it again")
        patience.spend(error)

    def ask(self, broker: str, opcode: int, header: bytes) -> bytes:
        """Ask what may be asked twice; a broker that does not answer is waited for."""
        patience = Patience(self.patience_s)
        while True:
            try:
                return self.peer(broker).request(opcode, header).header
            except LiteMQError as error:
                self.trouble(broker, error, patience)

    # What it has -----------------------------------------------------------------------------------------------------------------

    def bounds(self, topic: str, broker: str) -> list[QueueBounds]:
        """The queues of a topic at one broker, by their numbers."""
        answer = TopicAnswer.FromString(self.ask(broker, Opcode.DESCRIBE_TOPIC, TopicRequest(topic=topic).SerializeToString()))
        identity = f"{answer.topic_id}@{answer.created_at}"
        return [QueueBounds(broker, topic, queue.queue_id, queue.least, queue.confirmed, identity) for queue in answer.queues]

    def ranges(self, places: Iterable[TopicPlace]) -> list[QueueBounds]:
        """The queues of these topics, and what can be read of each."""
        return [bounds for place in places for bounds in self.bounds(place.topic, place.broker)]

    def offset_at_time(self, broker: str, topic: str, queue_id: int, store_timestamp_ms: int) -> int:
        """The offset of a queue's first message that was stored at or after a time; the next one, where there is none."""
        request = OffsetAtTimeRequest(topic=topic, queue_id=queue_id, store_timestamp=store_timestamp_ms)
        return OffsetAnswer.FromString(self.ask(broker, Opcode.OFFSET_AT_TIME, request.SerializeToString())).offset

    def close(self) -> None:
        """End all connections."""
        for peer in [*self._peers.values(), *([self._names] if self._names else [])]:
            peer.close()
        self._peers.clear()
        self._names = None


def check_topic(topic: str, places: Iterable[TopicPlace]) -> None:
    """Raises where no broker has a topic."""
    there = {place.topic for place in places}
    if topic not in there:
        raise TopicNotFoundError(
            f"no broker has topic {topic!r}.{nearest(topic, there)} Create it with `litemq topic create {topic}`; "
            f"there is {', '.join(sorted(there)[:20]) or 'none yet'}"
        )
