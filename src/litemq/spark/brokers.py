"""Blocking client of a cluster: brokers, topics, queue bounds, and one connection per broker."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Iterable
from functools import partial
from typing import Final, NamedTuple

from litemq.client.addresses import broker_advice, nameserver_advice, parse_addresses
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
    ReplicaGroup,
    ReplicaGroupsAnswer,
    TopicAnswer,
    TopicRequest,
    TopicsAnswer,
)
from litemq.spark.options import nearest
from litemq.spark.replica_reads import FollowerPeers
from litemq.types import is_system_name

__all__ = ["BlockingCluster", "BrokerTopic", "QueueBounds", "RetryDeadline", "check_topic"]

_RETRY_TIMEOUT_S: Final = 30.0
_ANSWER_TIMEOUT_S: Final = 30.0
_MAX_PAUSE_S: Final = 1.0


class BrokerTopic(NamedTuple):
    """A topic at one broker."""

    broker: str
    topic: str
    queues: int


class QueueBounds(NamedTuple):
    """The confirmed messages ``start_offset … end_offset - 1`` of a queue.

    ``identity`` is the topic's id and creation time at this broker.
    """

    broker: str
    topic: str
    queue_id: int
    start_offset: int
    end_offset: int
    identity: str


class RetryDeadline:
    """The deadline for retries while a broker does not answer, with growing pauses."""

    def __init__(self, seconds: float = _RETRY_TIMEOUT_S) -> None:
        self._until = time.monotonic() + seconds
        self._pause = 0.02

    def wait_or_raise(self, error: LiteMQError) -> None:
        """Pause before the next attempt, or raise ``error`` after the deadline."""
        if time.monotonic() + self._pause > self._until:
            raise error
        time.sleep(self._pause * random.uniform(0.5, 1.0))  # noqa: S311  jitter
        self._pause = min(2 * self._pause, _MAX_PAUSE_S)


class BlockingCluster:
    """The NameServers of a URL, and the brokers that are registered with them."""

    def __init__(self, url: str, *, retry_timeout_s: float = _RETRY_TIMEOUT_S) -> None:
        if not url.startswith("litemq://"):
            raise InvalidArgumentError(f"url={url!r}: write the NameServer's address, like litemq://127.0.0.1:9876")
        self.url = url
        self.retry_timeout_s = retry_timeout_s
        self._nameserver_addresses = parse_addresses(url)
        self._nameserver: BlockingPeer | None = None
        self._addresses: dict[str, tuple[str, int]] = {}
        self._peers: dict[str, BlockingPeer] = {}
        self._client_id = f"spark-{os.getpid()}-{new_suffix()}"
        self.followers = FollowerPeers(
            self.replica_groups,
            partial(BlockingPeer, client_id=self._client_id, answer_timeout=_ANSWER_TIMEOUT_S, reads_replica=True),
        )

    # Brokers --------------------------------------------------------------------------------------

    def brokers(self) -> list[BrokerState]:
        """All brokers that the NameServer knows."""
        answer = BrokersAnswer.FromString(self._ask_nameserver(Opcode.LIST_BROKERS, b""))
        self._addresses = {state.facts.name: (state.facts.host, state.facts.port) for state in answer.brokers}
        return sorted(answer.brokers, key=lambda state: state.facts.name)

    def replica_groups(self) -> list[ReplicaGroup]:
        """All replicated groups that the NameServer knows."""
        return list(ReplicaGroupsAnswer.FromString(self._ask_nameserver(Opcode.LIST_REPLICA_GROUPS, b"")).groups)

    def _ask_nameserver(self, opcode: int, header: bytes) -> bytes:
        failures = []
        if self._nameserver is not None:
            try:
                return self._nameserver.request(opcode, header).header
            except (ConnectionLostError, RequestTimeoutError):
                self._nameserver = None  # idle for too long, or down: reconnect
        for host, port in self._nameserver_addresses:
            try:
                self._nameserver = BlockingPeer(host, port, client_id=self._client_id)
                return self._nameserver.request(opcode, header).header
            except (ConnectionLostError, RequestTimeoutError) as error:
                failures.append(str(error))
        raise NoRouteError(
            f"no NameServer answers at {self.url} ({'; '.join(failures)}): "
            f"{nameserver_advice(self._nameserver_addresses)}"
        )

    def topics(self, include_system: bool = False) -> list[BrokerTopic]:
        """Return every topic of every broker."""
        found = []
        for state in self._known_brokers():
            facts = state.facts
            entries: Iterable[tuple[str, int]]
            if include_system:
                header = ListTopicsRequest(include_system=True).SerializeToString()
                answer = TopicsAnswer.FromString(self.ask(facts.name, Opcode.LIST_TOPICS, header))
                entries = ((entry.topic, entry.queues) for entry in answer.topics)
            else:
                entries = ((entry.topic, entry.queues) for entry in facts.topics if not is_system_name(entry.topic))
            found += [BrokerTopic(facts.name, topic, queues) for topic, queues in entries]
        return sorted(found)

    def _known_brokers(self) -> list[BrokerState]:
        """Return all registered brokers, even if they do not answer: their topics exist."""
        states = self.brokers()
        if not states:
            raise NoRouteError(
                f"the NameServer at {self.url} knows no broker: {broker_advice(self._nameserver_addresses)}"
            )
        return states

    # Requests -------------------------------------------------------------------------------------

    def peer(self, broker: str) -> BlockingPeer:
        """Return the connection to ``broker``; connect if there is none."""
        peer = self._peers.get(broker)
        if peer is None:
            if broker not in self._addresses:
                self.brokers()
            if broker not in self._addresses:
                raise NoRouteError(f"no NameServer at {self.url} knows broker {broker!r}")
            host, port = self._addresses[broker]
            peer = self._peers[broker] = BlockingPeer(
                host, port, client_id=self._client_id, answer_timeout=_ANSWER_TIMEOUT_S
            )
        return peer

    def handle_failure(self, broker: str, error: LiteMQError, deadline: RetryDeadline) -> None:
        """Pause after a failed request to ``broker``.

        Raise ``error`` if it is not retriable, or after the deadline.
        """
        if not error.retriable:
            raise error
        if not isinstance(error, OverloadedError):
            peer = self._peers.pop(broker, None)
            self._addresses.pop(broker, None)  # it may restart at another address
            if peer is not None:
                peer.close()
            error = NoRouteError(
                f"broker {broker!r} does not answer: {error}. Only it has these messages: start it again"
            )
        deadline.wait_or_raise(error)

    def ask(self, broker: str, opcode: int, header: bytes) -> bytes:
        """Send an idempotent request, and retry while the broker does not answer."""
        deadline = RetryDeadline(self.retry_timeout_s)
        while True:
            try:
                return self.peer(broker).request(opcode, header).header
            except LiteMQError as error:
                self.handle_failure(broker, error, deadline)

    # Offsets --------------------------------------------------------------------------------------

    def topic_bounds(self, topic: str, broker: str) -> list[QueueBounds]:
        """Return the bounds of a topic's queues at ``broker``, by queue id."""
        answer = TopicAnswer.FromString(
            self.ask(broker, Opcode.DESCRIBE_TOPIC, TopicRequest(topic=topic).SerializeToString())
        )
        identity = f"{answer.topic_id}@{answer.created_at}"
        return [
            QueueBounds(broker, topic, queue.queue_id, queue.least, queue.confirmed, identity)
            for queue in answer.queues
        ]

    def queue_bounds(self, topics: Iterable[BrokerTopic]) -> list[QueueBounds]:
        """Return the bounds of all queues of ``topics``."""
        return [bounds for each in topics for bounds in self.topic_bounds(each.topic, each.broker)]

    def offset_at_time(self, broker: str, topic: str, queue_id: int, store_timestamp_ms: int) -> int:
        """Return the first offset stored at or after a time, or the end offset."""
        request = OffsetAtTimeRequest(topic=topic, queue_id=queue_id, store_timestamp=store_timestamp_ms)
        return OffsetAnswer.FromString(self.ask(broker, Opcode.OFFSET_AT_TIME, request.SerializeToString())).offset

    def close(self) -> None:
        """Close all connections."""
        for peer in [*self._peers.values(), *([self._nameserver] if self._nameserver else [])]:
            peer.close()
        self.followers.close()
        self._peers.clear()
        self._nameserver = None


def check_topic(topic: str, topics: Iterable[BrokerTopic]) -> None:
    """Raise ``TopicNotFoundError`` if no broker has ``topic``."""
    existing = {each.topic for each in topics}
    if topic not in existing:
        raise TopicNotFoundError(
            f"no broker has topic {topic!r}.{nearest(topic, existing)} Create it with `litemq topic create {topic}`; "
            f"existing topics: {', '.join(sorted(existing)[:20]) or 'none'}"
        )
