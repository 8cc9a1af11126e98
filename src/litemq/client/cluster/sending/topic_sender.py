"""Sends to one topic: choose the queue of each message."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import NamedTuple

from litemq.client.cluster.sending.queue_sender import QueueSender
from litemq.client.config import ClientConfig, QueueChoice
from litemq.client.engine.routes import Route, queue_for_key, random_index
from litemq.client.messages.delivery_options import DeliveryOptions
from litemq.client.messages.outgoing import SendReceipt
from litemq.errors import InvalidArgumentError
from litemq.types import DEFAULT_PRIORITY, PRIORITY_CLASSES, BodyCodec, Durability, priority_class

__all__ = ["PendingMessage", "QueueChooser", "TopicSender"]


class PendingMessage(NamedTuple):
    """A message that waits for its topic's route, and the future of its receipt."""

    body: bytes
    codec: BodyCodec
    content_type: str
    tags: tuple[str, ...]
    keys: Sequence[str]
    properties: tuple[tuple[str, str], ...]
    ordering_key: str
    level: Durability | None
    options: DeliveryOptions
    waiter: asyncio.Future[SendReceipt]


class QueueChooser:
    """The queues of a topic, or of one priority class, and the choice among them.

    The messages of one tick that have no ordering key go to one queue, and to the following one
    when a request is full. The next tick starts one queue further than this one did, however many
    requests it sent. Otherwise, ticks of two requests would give every first one to the same
    broker of two. After a cycle the start moves by one more, for ticks that alternate in size.
    """

    def __init__(self, config: ClientConfig) -> None:
        self.queues: list[QueueSender] = []  # in the order that key hashes refer to
        self.present: QueueSender | None = None  # the queue for messages without ordering key, to fill batches
        self._live: list[QueueSender] = []
        self._chosen: QueueSender | None = None  # as ``present``, but also set with ``key_hash``
        self._choice: QueueChoice = config.queue_choice
        self._by_keys = config.queue_choice == "key_hash"
        self._rotates = config.queue_choice in ("round_robin", "key_hash")
        self._first = random_index(1 << 16)  # random, so that clients start with different queues
        self._ticks = 0  # ticks with a message that any queue could take
        self._turn = self._first
        self._is_used = False  # in this tick
        self._loop = asyncio.get_running_loop()

    def set_queues(self, queues: list[QueueSender]) -> None:
        self.queues = queues
        self.present = self._chosen = None
        self._is_used = False
        # Sorted by queue id first, so that round robin alternates between brokers.
        self._live = (
            sorted((sender for sender in queues if sender.alive), key=lambda sender: (sender.queue_id, sender.broker))
            or queues
        )

    def for_key(self, key: str) -> QueueSender:
        """Return the queue of an ordering key, even if its broker is down: order comes first."""
        return self.queues[queue_for_key(key, len(self.queues))]

    def choose(self, keys: Sequence[str]) -> QueueSender:
        """Return the queue for a message without ordering key.

        It stays the same until ``leave`` or ``advance``, to fill batches.
        """
        live = self._live
        if keys and self._by_keys:
            return live[queue_for_key(keys[0], len(live), "keys")]
        sender = live[self._turn % len(live)]
        if sender.connection.channel is None or sender.refusal is not None or not sender.breaker.is_closed:
            sender = self._choose_carefully()
        self._chosen, self._is_used = sender, True
        if not self._by_keys:
            self.present = sender
        return sender

    def leave(self, full: QueueSender) -> None:
        """Choose the next queue if ``full`` is the present one: its request is full."""
        if full is self._chosen:
            self.present = self._chosen = None
            self._turn += 1
            if not self._rotates:
                self._turn = self._any_turn()

    def advance(self) -> None:
        """Choose the first queue of the next tick, if this tick had messages for any queue."""
        if self._is_used:
            self._is_used = False
            self.present = self._chosen = None
            self._ticks = ticks = self._ticks + 1
            self._turn = self._first + ticks + ticks // len(self._live)
            if not self._rotates:
                self._turn = self._any_turn()

    def _any_turn(self) -> int:
        """Return a turn at random, or that of a random queue of the fastest broker."""
        if self._choice == "random":
            return random_index(1 << 16)
        live = self._live
        best = min(live, key=lambda sender: sender.breaker.latency)
        others = [number for number, sender in enumerate(live) if sender.broker == best.broker]
        return others[random_index(len(others))]

    def _choose_carefully(self) -> QueueSender:
        """Choose among unhealthy brokers: prefer connected ones, skip open circuits."""
        live, now = self._live, self._loop.time()
        rotated = [live[(self._turn + n) % len(live)] for n in range(len(live))]
        by_health = sorted(rotated, key=lambda sender: (sender.connection.channel is None, sender.refusal is not None))
        # If every circuit is open, the message waits for a broker, like one with an ordering key.
        return next((sender for sender in by_health if sender.breaker.may_send(now)), by_health[0])

    def other_broker_queue(self, sender: QueueSender) -> QueueSender | None:
        """Return a queue of another broker that is connected and healthy, or ``None``."""
        for other in self._live:
            if (
                other.broker != sender.broker
                and other.connection.channel is not None
                and other.refusal is None
                and other.breaker.is_closed
            ):
                return other
        return None


class TopicSender(QueueChooser):
    """All queues of one topic. Until its route is known, messages wait in ``unrouted``.

    In a topic with priorities, each queue is eight physical queues, one for each priority class.
    """

    def __init__(self, topic: str, config: ClientConfig, make_sender: Callable[[str, str, int], QueueSender]) -> None:
        super().__init__(config)
        self.topic = topic
        self.unrouted: list[PendingMessage] = []
        self.routing: asyncio.Task[None] | None = None
        self.classes: list[QueueChooser] = []  # by priority class; empty if the topic has no priorities
        self._config = config
        self._senders: dict[tuple[str, int], QueueSender] = {}
        self._make_sender = make_sender

    @property
    def senders(self) -> list[QueueSender]:
        """Return all senders, with those of brokers that left the route."""
        return list(self._senders.values())

    def update_route(self, route: Route) -> None:
        """Use the brokers and queues of ``route`` from now on."""
        queues = []
        has_priorities = any(broker.has_priorities for broker in route.brokers)
        for broker in route.brokers:
            if broker.has_priorities is not has_priorities:
                continue  # created without priorities there, so the broker would refuse these sends
            for number in range(broker.queues):
                sender = self._senders.get((broker.name, number))
                if sender is None:
                    sender = self._senders[broker.name, number] = self._make_sender(self.topic, broker.name, number)
                sender.default_level = broker.default_durability
                sender.alive = broker.alive
                queues.append(sender)
        gone = set(self._senders) - {(sender.broker, sender.queue_id) for sender in queues}
        for key in gone:
            self._senders[key].alive = False
            if self._senders[key].is_idle:
                del self._senders[key]
        self.set_queues(queues)
        if not has_priorities:
            self.classes = []
            return
        self.classes = self.classes or [QueueChooser(self._config) for _ in range(PRIORITY_CLASSES)]
        for number, chooser in enumerate(self.classes):
            chooser.set_queues([sender for sender in queues if sender.queue_id % PRIORITY_CLASSES == number])

    def for_priority(self, priority: int) -> QueueChooser:
        """Return the chooser for messages of ``priority``."""
        if self.classes:
            return self.classes[priority_class(priority)]
        if priority != DEFAULT_PRIORITY:
            raise InvalidArgumentError(
                f"priority={priority}: topic {self.topic!r} has no priorities: "
                "omit priority=, or create a topic with them: "
                "`litemq topic create NAME --priorities strict`"
            )
        return self

    def other_broker_queue(self, sender: QueueSender) -> QueueSender | None:
        """Return a queue of another healthy broker for the same priority class, or ``None``."""
        if self.classes:
            return self.classes[sender.queue_id % PRIORITY_CLASSES].other_broker_queue(sender)
        return super().other_broker_queue(sender)
