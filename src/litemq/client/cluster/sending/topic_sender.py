"""The sends to one topic: which of its queues a message goes to."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import NamedTuple

from litemq.client.cluster.sending.queue_sender import QueueSender
from litemq.client.config import ClientConfig, QueueChoice
from litemq.client.engine.routes import Route, pick, queue_of_key
from litemq.client.messages.delivery_options import Terms
from litemq.client.messages.outgoing import SendReceipt
from litemq.errors import InvalidArgumentError
from litemq.types import DEFAULT_PRIORITY, PRIORITY_CLASSES, BodyCodec, Durability, priority_class

__all__ = ["Posted", "QueueChooser", "TopicSender"]


class Posted(NamedTuple):
    """A message that waits for its topic's route, and who waits for it."""

    body: bytes
    codec: BodyCodec
    content_type: str
    tags: tuple[str, ...]
    keys: Sequence[str]
    properties: tuple[tuple[str, str], ...]
    ordering_key: str
    level: Durability | None
    terms: Terms
    waiter: asyncio.Future[SendReceipt]


class QueueChooser:
    """The queues of one topic that a message may go to, and which of them it does."""

    def __init__(self, config: ClientConfig) -> None:
        self.queues: list[QueueSender] = []  # in the order that keys are hashed to
        self.present: QueueSender | None = None  # where messages without ordering key go, until the next turn
        self._live: list[QueueSender] = []
        self._choice: QueueChoice = config.queue_choice
        self._by_keys = config.queue_choice == "key_hash"
        self._turn = pick(1 << 16)  # clients do not all begin with the same queue
        self._loop = asyncio.get_running_loop()

    def choose_of(self, queues: list[QueueSender]) -> None:
        """These are the queues from now on."""
        self.queues = queues
        self.present = None
        # One queue of each broker after another, so that a turn spreads over brokers first.
        self._live = sorted((sender for sender in queues if sender.alive), key=lambda sender: (sender.queue_id, sender.broker)) or queues

    def for_key(self, key: str) -> QueueSender:
        """The queue of an ordering key, whatever state its broker is in: order goes before speed."""
        return self.queues[queue_of_key(key, len(self.queues))]

    def choose(self, keys: Sequence[str]) -> QueueSender:
        """The queue for a message without ordering key. It stays the same until ``advance``, so that messages travel together."""
        live = self._live
        if keys and self._by_keys:
            return live[queue_of_key(keys[0], len(live))]
        sender = live[self._turn % len(live)]
        if sender.way.channel is None or sender.refusing or not sender.breaker.is_closed:
            sender = self._choose_carefully()
        if not self._by_keys:
            self.present = sender
        return sender

    def advance(self) -> None:
        """The next message goes to another queue."""
        self.present = None
        if self._choice == "round_robin":
            self._turn += 1
        elif self._choice == "random":
            self._turn = pick(1 << 16)
        elif self._choice == "least_latency":
            live = self._live
            best = min(live, key=lambda sender: sender.breaker.latency)
            others = [number for number, sender in enumerate(live) if sender.broker == best.broker]
            self._turn = others[pick(len(others))]
        else:
            self._turn += 1

    def _choose_carefully(self) -> QueueSender:
        """Some broker is not well: prefer one that is connected, and pass by those whose circuit is open."""
        live, now = self._live, self._loop.time()
        in_turn = [live[(self._turn + n) % len(live)] for n in range(len(live))]
        by_health = sorted(in_turn, key=lambda sender: (sender.way.channel is None, sender.refusing))
        # Where no broker is well, there is nothing to choose: the message waits for one, as those with an ordering key do.
        return next((sender for sender in by_health if sender.breaker.may_send(now)), by_health[0])

    def elsewhere(self, sender: QueueSender) -> QueueSender | None:
        """A queue of another broker that is well."""
        for other in self._live:
            if other.broker != sender.broker and other.way.channel is not None and not other.refusing and other.breaker.is_closed:
                return other
        return None


class TopicSender(QueueChooser):
    """All queues of one topic. Until its route is known, messages are kept in ``unrouted``.

    Where the topic has priorities, each queue is eight, and a message chooses among those of its class.
    """

    def __init__(self, topic: str, config: ClientConfig, make_sender: Callable[[str, str, int], QueueSender]) -> None:
        super().__init__(config)
        self.topic = topic
        self.unrouted: list[Posted] = []
        self.routing: asyncio.Task[None] | None = None
        self.classes: list[QueueChooser] = []  # by priority; none where the topic has no priorities
        self._config = config
        self._senders: dict[tuple[str, int], QueueSender] = {}
        self._make_sender = make_sender

    @property
    def senders(self) -> list[QueueSender]:
        """All there have been, also those whose broker has left."""
        return list(self._senders.values())

    def take(self, route: Route) -> None:
        """Follow a route."""
        queues = []
        has_priorities = any(place.has_priorities for place in route.brokers)
        for place in route.brokers:
            if place.has_priorities is not has_priorities:
                continue  # it was created otherwise there, and would refuse what is sent
            for number in range(place.queues):
                sender = self._senders.get((place.name, number))
                if sender is None:
                    sender = self._senders[place.name, number] = self._make_sender(self.topic, place.name, number)
                if sender.default_level is not place.default_durability:
                    sender.default_level, sender.plain = place.default_durability, None
                sender.alive = place.alive
                queues.append(sender)
        gone = set(self._senders) - {(sender.broker, sender.queue_id) for sender in queues}
        for key in gone:
            self._senders[key].alive = False
            if self._senders[key].is_idle:
                del self._senders[key]
        self.choose_of(queues)
        if not has_priorities:
            self.classes = []
            return
        self.classes = self.classes or [QueueChooser(self._config) for _ in range(PRIORITY_CLASSES)]
        for number, chooser in enumerate(self.classes):
            chooser.choose_of([sender for sender in queues if sender.queue_id % PRIORITY_CLASSES == number])

    def of_priority(self, priority: int) -> QueueChooser:
        """Where messages of a priority go."""
        if self.classes:
            return self.classes[priority_class(priority)]
        if priority != DEFAULT_PRIORITY:
            raise InvalidArgumentError(
                f"priority={priority}: topic {self.topic!r} has no priorities. Send without, or to a topic that was created with them: "
                f"litemq topic create NAME --priorities strict"
            )
        return self

    def elsewhere(self, sender: QueueSender) -> QueueSender | None:
        """A queue of another broker that is well, for messages of the same priority."""
        if self.classes:
            return self.classes[sender.queue_id % PRIORITY_CLASSES].elsewhere(sender)
        return super().elsewhere(sender)
