"""Destination queues of rows: by ordering key, or round-robin."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import cycle
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from litemq.client.engine.routes import Route, random_index
from litemq.errors import InvalidArgumentError, NoRouteError
from litemq.format.crc import crc32c_of_strings
from litemq.types import DEFAULT_PRIORITY, PRIORITY_CLASSES, Durability

__all__ = ["Portion", "Queue", "TopicQueues", "portions"]

_CLASS_FACTOR: Final = 1 << 32  # of the class in a row's code: a topic has fewer queues


class Queue(NamedTuple):
    """A queue of a topic, and its broker's default durability."""

    broker: str
    queue_id: int
    durability: Durability


class TopicQueues:
    """The queues of one topic, by priority class."""

    def __init__(self, route: Route) -> None:
        self.topic = route.topic
        if not route.brokers:
            raise NoRouteError(f"no broker has topic {route.topic!r}")
        self.has_priorities = any(address.has_priorities for address in route.brokers)
        # A broker whose topic has another priority setting would reject the records.
        addresses = [address for address in route.brokers if address.has_priorities is self.has_priorities]
        queues = [
            Queue(address.name, number, address.default_durability)
            for address in addresses
            for number in range(address.queues)
        ]
        alive = {address.name for address in addresses if address.alive}
        # Keys are hashed over all queues of a class in this order, as in every client.
        self.by_key = [[queue for queue in queues if self._class(queue) == number] for number in range(self._classes)]
        self._turns = [
            _turns([queue for queue in class_queues if queue.broker in alive] or class_queues)
            for class_queues in self.by_key
        ]

    @property
    def _classes(self) -> int:
        return PRIORITY_CLASSES if self.has_priorities else 1

    def _class(self, queue: Queue) -> int:
        return queue.queue_id % self._classes

    def next(self, priority_class: int) -> Queue:
        """Return the next queue of a class, round-robin."""
        return next(self._turns[priority_class])

    def priority_classes(self, priorities: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Return the class of each priority. Raise if the topic has no priorities."""
        if self.has_priorities:
            return priorities * PRIORITY_CLASSES // 256
        if (priorities != DEFAULT_PRIORITY).any():
            raise InvalidArgumentError(
                f"priority={int(priorities[priorities != DEFAULT_PRIORITY][0])}: "
                f"topic {self.topic!r} has no priorities. Remove the column, "
                "or create a topic with priorities: `litemq topic create NAME --priorities strict`"
            )
        return np.zeros(priorities.size, np.int64)


def _turns(queues: list[Queue]) -> Iterator[Queue]:
    """Cycle through ``queues``, alternating between brokers, from a random start."""
    in_turn = sorted(queues, key=lambda queue: (queue.queue_id, queue.broker))
    begin = random_index(len(in_turn))
    return cycle(in_turn[begin:] + in_turn[:begin])


class Portion(NamedTuple):
    """Rows for one queue, in order; ``queue`` is ``None`` if any queue of the class will do."""

    to: TopicQueues
    priority_class: int
    queue: Queue | None
    rows: pa.RecordBatch


def portions(rows: pa.RecordBatch, topic: str, topic_queues: Callable[[str], TopicQueues]) -> Iterator[Portion]:
    """Split ``rows`` by destination. ``topic`` is the topic of rows without one."""
    for name, topic_rows in _by_topic(rows, topic):
        to = topic_queues(name)
        codes = _codes(topic_rows, to)
        for code, same in _by_code(topic_rows, codes):
            priority_class, number = divmod(code, _CLASS_FACTOR)
            yield Portion(to, priority_class, None if number == 0 else to.by_key[priority_class][number - 1], same)


def _by_topic(rows: pa.RecordBatch, topic: str) -> Iterator[tuple[str, pa.RecordBatch]]:
    if "topic" not in rows.schema.names:
        yield topic, rows
        return
    topics = rows.column("topic").cast(pa.string())
    if topics.null_count:
        if not topic:
            raise InvalidArgumentError(f"topic is null in {topics.null_count} rows: set it, or use .option('topic', …)")
        topics = pc.fill_null(topics, topic)
    encoded = topics.dictionary_encode()
    names = encoded.dictionary.to_pylist()
    for number, same in _by_code(rows, encoded.indices.to_numpy().astype(np.int64)):
        yield names[number], same


def _codes(rows: pa.RecordBatch, to: TopicQueues) -> npt.NDArray[np.int64]:
    """Return a code per row: its class, and its key's queue from 1 on, or 0 for any."""
    count = rows.num_rows
    classes = to.priority_classes(_priorities(rows))
    if "ordering_key" not in rows.schema.names:
        return classes * _CLASS_FACTOR
    keys = pc.fill_null(rows.column("ordering_key").cast(pa.binary()), b"")
    bounds = np.frombuffer(keys.buffers()[1], np.int32, count + 1, keys.offset * 4).astype(np.int64)
    data = keys.buffers()[2]
    octets = np.frombuffer(data, np.uint8) if data is not None and data.size else np.zeros(1, np.uint8)
    lengths = np.diff(bounds)
    sizes = np.array([len(class_queues) for class_queues in to.by_key])
    numbers = crc32c_of_strings(octets, bounds[:-1], lengths) % sizes[classes] + 1
    return classes * _CLASS_FACTOR + np.where(lengths > 0, numbers, 0)


def _priorities(rows: pa.RecordBatch) -> npt.NDArray[np.int64]:
    if "priority" not in rows.schema.names:
        return np.full(rows.num_rows, DEFAULT_PRIORITY, np.int64)
    priorities: npt.NDArray[np.int64] = pc.fill_null(
        rows.column("priority").cast(pa.int64()), DEFAULT_PRIORITY
    ).to_numpy()
    if priorities.size and (int(priorities.min()) < 0 or int(priorities.max()) > 255):
        raise InvalidArgumentError(f"priority of {int(priorities.min())} … {int(priorities.max())}: choose 0 … 255")
    return priorities


def _by_code(rows: pa.RecordBatch, codes: npt.NDArray[np.int64]) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Yield the rows of each code, in order."""
    if codes.size == 0:
        return
    if (codes == codes[0]).all():
        yield int(codes[0]), rows
        return
    order = np.argsort(codes, kind="stable")
    ordered = codes[order]
    sorted_rows = rows.take(pa.array(order))
    begins = np.flatnonzero(np.concatenate(([True], ordered[1:] != ordered[:-1])))
    for begin, end in zip(begins.tolist(), [*begins[1:].tolist(), codes.size], strict=True):
        yield int(ordered[begin]), sorted_rows.slice(begin, end - begin)
