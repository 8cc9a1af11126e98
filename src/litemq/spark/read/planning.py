"""What to read next, decided from what a query wants and what the brokers have. Nothing here talks to anybody.

An offset of a stream is JSON: ``queues`` says for each queue, as ``topic/broker/number``, which message comes next, and ``topics`` which
topic that is, by the id and the time of creation that it has at its broker. A checkpoint that meets other topics of the same names is so found out.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from litemq.errors import CheckpointMismatchError, DataLossError, InvalidArgumentError
from litemq.spark.brokers import QueueBounds, TopicPlace, check_topic
from litemq.spark.fetch import QueueSpan
from litemq.spark.read.options import EARLIEST, LATEST, OfQueues, ReadOptions, Start
from litemq.types import is_system_name

__all__ = [
    "Offsets",
    "admitted",
    "bounded",
    "chosen_places",
    "chosen_queues",
    "edge",
    "followed",
    "packed",
    "queue_name",
    "spans_between",
    "topic_name",
]

_LOG = logging.getLogger(__name__)
PARTITION_BYTES: Final = 64 << 20  # a task costs some 20 ms before its first row
FEW_ROWS: Final = 4_000  # are one task, whatever their size

AtTime = Callable[[QueueBounds, int], int]


class Offsets(NamedTuple):
    """How far a query has come: the next message of each queue, and the identity of each topic at its broker."""

    queues: dict[str, int]
    topics: dict[str, str]

    @classmethod
    def of_json(cls, told: Mapping[str, Any]) -> Offsets:
        """As a checkpoint has it."""
        try:
            queues = {str(name): int(offset) for name, offset in told["queues"].items()}
            return cls(queues, {str(name): str(identity) for name, identity in told["topics"].items()})
        except (KeyError, TypeError, ValueError, AttributeError):
            raise CheckpointMismatchError(
                "the query's checkpoint was not written by the litemq source: give the query a checkpointLocation of its own"
            ) from None

    def to_json(self) -> dict[str, Any]:
        """Equal offsets are equal texts: Spark compares those."""
        return {"queues": dict(sorted(self.queues.items())), "topics": dict(sorted(self.topics.items()))}


def queue_name(queue: QueueBounds | QueueSpan) -> str:
    """``topic/broker/number``."""
    return f"{queue.topic}/{queue.broker}/{queue.queue_id}"


def topic_name(queue: QueueBounds) -> str:
    return f"{queue.topic}/{queue.broker}"


# Which queues ---------------------------------------------------------------------------------------------------------------------


def chosen_places(options: ReadOptions, places: Sequence[TopicPlace]) -> list[TopicPlace]:
    """The topics that a query wants, at all their brokers. Raises where one is not there."""
    there = {place.topic for place in places}
    if options.pattern is not None:
        wanted = {topic for topic in there if options.pattern.fullmatch(topic)}
    else:
        wanted = set(options.topics or options.assigned or ())
        for topic in sorted(wanted - there):
            if is_system_name(topic) and not options.include_system:
                raise InvalidArgumentError(f"topic {topic!r} is the broker's own: set includeSystem to true to read it")
            check_topic(topic, places)
    return [place for place in places if place.topic in wanted]


def chosen_queues(options: ReadOptions, queues: Sequence[QueueBounds]) -> list[QueueBounds]:
    """Of those topics, the queues that a query wants."""
    if options.assigned is None:
        return list(queues)
    return _named(options.assigned, queues, "assign")


def _named(names: Mapping[str, Iterable[str]], queues: Sequence[QueueBounds], option: str) -> list[QueueBounds]:
    chosen = []
    for topic, numbers in names.items():
        for number in numbers:
            found = [
                queue for queue in queues if queue.topic == topic and number in (str(queue.queue_id), f"{queue.broker}/{queue.queue_id}")
            ]
            if not found:
                had = ", ".join(f"{queue.broker}/{queue.queue_id}" for queue in queues if queue.topic == topic)
                raise InvalidArgumentError(f"option {option}: topic {topic!r} has no queue {number!r}; there is {had or 'none'}")
            chosen += found
    return list(dict.fromkeys(chosen))


# Where they begin and end ---------------------------------------------------------------------------------------------------------


def edge(wanted: Start, queues: Sequence[QueueBounds], at_time: AtTime, option: str) -> dict[str, int]:
    """The offset at which each queue begins, or ends."""
    given: OfQueues | None = wanted.offsets if wanted.offsets is not None else wanted.times_ms
    special: dict[QueueBounds, int] = {}
    for topic, numbers in (given or {}).items():
        for number, value in numbers.items():
            for queue in _named({topic: [number]}, queues, option):
                special[queue] = value
    found = {}
    for queue in queues:
        if wanted.time_ms is not None:
            at = min(queue.next, at_time(queue, wanted.time_ms))
        elif queue not in special:
            at = wanted.otherwise
        elif wanted.times_ms is not None:
            at = min(queue.next, at_time(queue, special[queue]))
        else:
            at = special[queue]
        found[queue_name(queue)] = queue.least if at == EARLIEST else queue.next if at == LATEST else at
    return found


def bounded(begin: Mapping[str, int], end: Mapping[str, int], queues: Sequence[QueueBounds], *, fail_on_data_loss: bool) -> list[QueueSpan]:
    """What a batch query reads. What was asked for by its offset, and is not there, is a loss."""
    spans = []
    for queue in queues:
        name = queue_name(queue)
        first, last = begin[name], end[name]
        if fail_on_data_loss and (first < queue.least or first > queue.next or last > queue.next):
            raise DataLossError(
                f"{name}: offsets {first} … {last} were asked for, and it has {queue.least} … {queue.next}. "
                "Ask for those, or set failOnDataLoss to false"
            )
        first, last = max(first, queue.least), min(last, queue.next)
        if first < last:
            spans.append(QueueSpan(queue.broker, queue.topic, queue.queue_id, first, last))
    return spans


# A stream's next step --------------------------------------------------------------------------------------------------------------


def followed(start: Offsets, queues: Sequence[QueueBounds], *, fail_on_data_loss: bool) -> Offsets:
    """Where a stream really goes on: its offsets, those of queues that are new, and none of queues that are gone.

    Raises where messages are lost, or where the offsets are of another cluster's queues.
    """
    found: dict[str, int] = {}
    for queue in queues:
        name = queue_name(queue)
        at = start.queues.get(name)
        found[name] = queue.least if at is None else _still_there(name, at, start.topics.get(topic_name(queue)), queue, fail_on_data_loss)
    read = {queue.topic for queue in queues}
    gone = [name for name in sorted(start.queues) if name not in found and name.split("/", 1)[0] in read]
    if gone:
        _lose(f"{', '.join(gone[:5])}: no broker has these queues any more, which the query has read before", fail_on_data_loss)
    return Offsets(found, {topic_name(queue): queue.identity for queue in queues})


def _still_there(name: str, at: int, identity: str | None, queue: QueueBounds, fail_on_data_loss: bool) -> int:
    is_same = identity in (None, queue.identity)
    if at > queue.next or (not is_same and at > queue.least):
        raise CheckpointMismatchError(
            f"{name}: the query's checkpoint is at offset {at}, and this queue has {queue.least} … {queue.next}"
            f"{'' if is_same else ' in another topic of the same name'}: it is another cluster's, or its broker has lost its data. "
            "Give the query its own cluster's url, or a new checkpointLocation"
        )
    if at < queue.least:
        why = "retention took them" if is_same else "the topic was deleted, and created anew"
        _lose(f"{name}: offsets {at} … {queue.least - 1} are gone before the query has read them, {why}", fail_on_data_loss)
        return queue.least
    return at


def _lose(what: str, fail_on_data_loss: bool) -> None:
    if fail_on_data_loss:
        raise DataLossError(f"{what}. To go on without them, set failOnDataLoss to false")
    _LOG.warning("%s", what)


def admitted(start: Offsets, known: Mapping[str, int], latest: Mapping[str, int], most: int | None) -> Offsets:
    """How far the next batch goes: to the latest messages, or so that it has no more than ``most``, each queue its share of what waits.

    A queue that the query does not know yet comes in at its beginning, and has its messages read from the next batch on: so what a batch
    reads hangs on its two offsets alone, however often it is read.
    """
    waiting = {name: max(0, latest[name] - at) if name in known else 0 for name, at in start.queues.items()}
    total = sum(waiting.values())
    if most is None or total <= most:
        return start._replace(queues={name: at + waiting[name] for name, at in start.queues.items()})
    shares = {name: most * left // total for name, left in waiting.items()}
    over = most - sum(shares.values())
    for name in sorted(waiting, key=lambda name: (-(most * waiting[name] % total), name))[:over]:
        shares[name] += 1
    return start._replace(queues={name: at + shares[name] for name, at in start.queues.items()})


def spans_between(start: Offsets, end: Offsets) -> list[QueueSpan]:
    """What a batch of a stream reads."""
    spans = []
    for name, last in sorted(end.queues.items()):
        first = start.queues.get(name, last)
        if first < last:
            topic, rest = name.split("/", 1)
            broker, number = rest.rsplit("/", 1)
            spans.append(QueueSpan(broker, topic, int(number), first, last))
    return spans


# Tasks ----------------------------------------------------------------------------------------------------------------------------


def packed(
    spans: Sequence[QueueSpan],
    row_bytes: Callable[[str], float],
    *,
    least: int | None = None,
    most_records: int | None = None,
    partition_bytes: int = PARTITION_BYTES,
) -> list[tuple[QueueSpan, ...]]:
    """Spans cut and put together to tasks of about the same size; neighbours ask different brokers, where there are some."""
    ordered = sorted(spans, key=lambda span: (span.topic, span.queue_id, span.broker))
    rows = sum(span.end - span.begin for span in ordered)
    if not rows:
        return []
    if rows <= FEW_ROWS:
        weights = dict.fromkeys((span.topic for span in ordered), 1.0)
        tasks = 1
    else:
        weights = {topic: max(1.0, row_bytes(topic)) for topic in {span.topic for span in ordered}}
        total = sum(weights[span.topic] * (span.end - span.begin) for span in ordered)
        tasks = int(-(-total // partition_bytes))
    if most_records is not None:
        tasks = max(tasks, -(-rows // most_records))
    tasks = min(max(tasks, least or 1), rows)
    share = sum(weights[span.topic] * (span.end - span.begin) for span in ordered) / tasks
    bins: list[list[QueueSpan]] = [[] for _ in range(tasks)]
    done = 0.0
    for span in ordered:
        at = span.begin
        while at < span.end:
            number = min(tasks - 1, int(done / share + 1e-9))
            room = (number + 1) * share - done
            count = span.end - at if number == tasks - 1 else min(span.end - at, max(1, round(room / weights[span.topic])))
            bins[number].append(span._replace(begin=at, end=at + count))
            at += count
            done += count * weights[span.topic]
    whole = [tuple(each) for each in bins if each]
    return [part for each in whole for part in _of_at_most(each, most_records)]


def _of_at_most(spans: tuple[QueueSpan, ...], most: int | None) -> Iterable[tuple[QueueSpan, ...]]:
    """Rounding, and rows of different sizes, must not make a task larger than it may be."""
    if most is None:
        return [spans]
    parts: list[list[QueueSpan]] = [[]]
    room = most
    for span in spans:
        at = span.begin
        while at < span.end:
            if not room:
                parts.append([])
                room = most
            count = min(room, span.end - at)
            parts[-1].append(span._replace(begin=at, end=at + count))
            at += count
            room -= count
    return [tuple(part) for part in parts]
