"""Planning of reads: decides from the query and the brokers' offsets what to read next. No I/O.

A stream's offset is JSON. ``queues`` holds the next offset of each queue, named
``topic/broker/number``; ``topics`` holds the identity of each topic, its id and creation time at
its broker. If a topic was recreated, its identity no longer matches the checkpoint.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from litemq.errors import CheckpointMismatchError, DataLossError, InvalidArgumentError
from litemq.spark.brokers import BrokerTopic, QueueBounds, check_topic
from litemq.spark.fetch import QueueSpan
from litemq.spark.read.options import EARLIEST, LATEST, QueueValues, ReadOptions, Start
from litemq.types import is_system_name

__all__ = [
    "Offsets",
    "admitted_offsets",
    "batch_spans",
    "chosen_queues",
    "chosen_topics",
    "edge_offsets",
    "pack_tasks",
    "queue_name",
    "resumed_offsets",
    "spans_between",
    "topic_name",
]

_LOG = logging.getLogger(__name__)
PARTITION_BYTES: Final = 64 << 20  # a task takes about 20 ms before its first row
FEW_ROWS: Final = 4_000  # up to which one task reads all rows

AtTime = Callable[[QueueBounds, int], int]


class Offsets(NamedTuple):
    """Position of a query: the next offset of each queue, and each topic's identity."""

    queues: dict[str, int]
    topics: dict[str, str]

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> Offsets:
        """Read offsets as a checkpoint stores them."""
        try:
            queues = {str(name): int(offset) for name, offset in stored["queues"].items()}
            return cls(queues, {str(name): str(identity) for name, identity in stored["topics"].items()})
        except (KeyError, TypeError, ValueError, AttributeError):
            raise CheckpointMismatchError(
                "the query's checkpoint was not written by the litemq source: use a new checkpointLocation"
            ) from None

    def to_json(self) -> dict[str, Any]:
        """Return the offsets sorted, since Spark compares them as text."""
        return {"queues": dict(sorted(self.queues.items())), "topics": dict(sorted(self.topics.items()))}


def queue_name(queue: QueueBounds | QueueSpan) -> str:
    """Return ``topic/broker/number``."""
    return f"{queue.topic}/{queue.broker}/{queue.queue_id}"


def topic_name(queue: QueueBounds) -> str:
    return f"{queue.topic}/{queue.broker}"


# Selection of queues ------------------------------------------------------------------------------


def chosen_topics(options: ReadOptions, topics: Sequence[BrokerTopic]) -> list[BrokerTopic]:
    """Return the topics that a query reads, at all their brokers. Raise if one does not exist."""
    existing = {each.topic for each in topics}
    if options.pattern is not None:
        wanted = {topic for topic in existing if options.pattern.fullmatch(topic)}
    else:
        wanted = set(options.topics or options.assigned or ())
        for topic in sorted(wanted - existing):
            if is_system_name(topic) and not options.include_system:
                raise InvalidArgumentError(f"topic {topic!r} is a system topic: set includeSystem to true to read it")
            check_topic(topic, topics)
    return [each for each in topics if each.topic in wanted]


def chosen_queues(options: ReadOptions, queues: Sequence[QueueBounds]) -> list[QueueBounds]:
    """Return the queues that a query reads."""
    if options.assigned is None:
        return list(queues)
    return _named(options.assigned, queues, "assign")


def _named(names: Mapping[str, Iterable[str]], queues: Sequence[QueueBounds], option: str) -> list[QueueBounds]:
    chosen = []
    for topic, numbers in names.items():
        for number in numbers:
            found = [
                queue
                for queue in queues
                if queue.topic == topic and number in (str(queue.queue_id), f"{queue.broker}/{queue.queue_id}")
            ]
            if not found:
                existing = ", ".join(f"{queue.broker}/{queue.queue_id}" for queue in queues if queue.topic == topic)
                raise InvalidArgumentError(
                    f"option {option}: topic {topic!r} has no queue {number!r}; its queues are {existing or 'none'}"
                )
            chosen += found
    return list(dict.fromkeys(chosen))


# Start and end offsets ----------------------------------------------------------------------------


def edge_offsets(wanted: Start, queues: Sequence[QueueBounds], at_time: AtTime, option: str) -> dict[str, int]:
    """Return the offset at which each queue starts or ends, by ``wanted``.

    ``option`` names it in errors.
    """
    given: QueueValues | None = wanted.offsets if wanted.offsets is not None else wanted.times_ms
    special: dict[QueueBounds, int] = {}
    for topic, numbers in (given or {}).items():
        for number, value in numbers.items():
            for queue in _named({topic: [number]}, queues, option):
                special[queue] = value
    found = {}
    for queue in queues:
        if wanted.time_ms is not None:
            at = min(queue.end_offset, at_time(queue, wanted.time_ms))
        elif queue not in special:
            at = wanted.default
        elif wanted.times_ms is not None:
            at = min(queue.end_offset, at_time(queue, special[queue]))
        else:
            at = special[queue]
        found[queue_name(queue)] = queue.start_offset if at == EARLIEST else queue.end_offset if at == LATEST else at
    return found


def batch_spans(
    begin: Mapping[str, int], end: Mapping[str, int], queues: Sequence[QueueBounds], *, fail_on_data_loss: bool
) -> list[QueueSpan]:
    """Return the spans that a batch query reads.

    A requested offset that does not exist is a data loss.
    """
    spans = []
    for queue in queues:
        name = queue_name(queue)
        first, last = begin[name], end[name]
        if fail_on_data_loss and (first < queue.start_offset or first > queue.end_offset or last > queue.end_offset):
            raise DataLossError(
                f"{name}: offsets {first} … {last} were requested, "
                f"but it has {queue.start_offset} … {queue.end_offset}. Request those, or set failOnDataLoss to false"
            )
        first, last = max(first, queue.start_offset), min(last, queue.end_offset)
        if first < last:
            spans.append(QueueSpan(queue.broker, queue.topic, queue.queue_id, first, last))
    return spans


# Streams ------------------------------------------------------------------------------------------


def resumed_offsets(start: Offsets, queues: Sequence[QueueBounds], *, fail_on_data_loss: bool) -> Offsets:
    """Return where a stream continues: at its offsets, plus new queues and minus removed ones.

    Raise if messages are lost, or if the offsets belong to another cluster.
    """
    found: dict[str, int] = {}
    for queue in queues:
        name = queue_name(queue)
        at = start.queues.get(name)
        found[name] = (
            queue.start_offset
            if at is None
            else _checked_offset(name, at, start.topics.get(topic_name(queue)), queue, fail_on_data_loss)
        )
    read = {queue.topic for queue in queues}
    gone = [name for name in sorted(start.queues) if name not in found and name.split("/", 1)[0] in read]
    if gone:
        _report_loss(
            f"{', '.join(gone[:5])}: the query has read these queues before, but no broker has them", fail_on_data_loss
        )
    return Offsets(found, {topic_name(queue): queue.identity for queue in queues})


def _checked_offset(name: str, at: int, identity: str | None, queue: QueueBounds, fail_on_data_loss: bool) -> int:
    is_same = identity in (None, queue.identity)
    if at > queue.end_offset or (not is_same and at > queue.start_offset):
        raise CheckpointMismatchError(
            f"{name}: the query's checkpoint is at offset {at}, "
            f"but this queue has {queue.start_offset} … {queue.end_offset}"
            f"{'' if is_same else ' in another topic of the same name'}: it belongs to another cluster, "
            "or its broker has lost its data. Use the url of the original cluster, or a new checkpointLocation"
        )
    if at < queue.start_offset:
        why = "deleted by retention" if is_same else "deleted with their topic, which was then recreated"
        _report_loss(
            f"{name}: offsets {at} … {queue.start_offset - 1} were lost before the query read them: {why}",
            fail_on_data_loss,
        )
        return queue.start_offset
    return at


def _report_loss(what: str, fail_on_data_loss: bool) -> None:
    if fail_on_data_loss:
        raise DataLossError(f"{what}. To continue without them, set failOnDataLoss to false")
    _LOG.warning("%s", what)


def admitted_offsets(start: Offsets, known: Mapping[str, int], latest: Mapping[str, int], limit: int | None) -> Offsets:
    """Return where the next batch ends: at the latest messages, or after ``limit`` messages.

    ``limit`` is divided among the queues by their backlog. A queue that is not in ``known`` enters
    at its start, and its messages are read from the next batch on. So a batch depends only on its
    two offsets, however often it is read.
    """
    waiting = {name: max(0, latest[name] - at) if name in known else 0 for name, at in start.queues.items()}
    total = sum(waiting.values())
    if limit is None or total <= limit:
        return start._replace(queues={name: at + waiting[name] for name, at in start.queues.items()})
    shares = {name: limit * left // total for name, left in waiting.items()}
    over = limit - sum(shares.values())
    for name in sorted(waiting, key=lambda name: (-(limit * waiting[name] % total), name))[:over]:
        shares[name] += 1
    return start._replace(queues={name: at + shares[name] for name, at in start.queues.items()})


def spans_between(start: Offsets, end: Offsets) -> list[QueueSpan]:
    """Return the spans of a stream's batch."""
    spans = []
    for name, last in sorted(end.queues.items()):
        first = start.queues.get(name, last)
        if first < last:
            topic, rest = name.split("/", 1)
            broker, number = rest.rsplit("/", 1)
            spans.append(QueueSpan(broker, topic, int(number), first, last))
    return spans


# Tasks --------------------------------------------------------------------------------------------


def pack_tasks(
    spans: Sequence[QueueSpan],
    row_bytes: Callable[[str], float],
    *,
    min_tasks: int | None = None,
    max_records: int | None = None,
    partition_bytes: int = PARTITION_BYTES,
) -> list[tuple[QueueSpan, ...]]:
    """Cut and pack spans into tasks of about the same size.

    Neighbouring tasks read from different brokers if possible.
    """
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
    if max_records is not None:
        tasks = max(tasks, -(-rows // max_records))
    tasks = min(max(tasks, min_tasks or 1), rows)
    share = sum(weights[span.topic] * (span.end - span.begin) for span in ordered) / tasks
    bins: list[list[QueueSpan]] = [[] for _ in range(tasks)]
    done = 0.0
    for span in ordered:
        at = span.begin
        while at < span.end:
            number = min(tasks - 1, int(done / share + 1e-9))
            free = (number + 1) * share - done
            count = (
                span.end - at if number == tasks - 1 else min(span.end - at, max(1, round(free / weights[span.topic])))
            )
            bins[number].append(span._replace(begin=at, end=at + count))
            at += count
            done += count * weights[span.topic]
    whole = [tuple(each) for each in bins if each]
    return [part for each in whole for part in _split_by_records(each, max_records)]


def _split_by_records(spans: tuple[QueueSpan, ...], limit: int | None) -> Iterable[tuple[QueueSpan, ...]]:
    """Split a task that rounding or uneven row sizes made larger than ``limit`` records."""
    if limit is None:
        return [spans]
    parts: list[list[QueueSpan]] = [[]]
    free = limit
    for span in spans:
        at = span.begin
        while at < span.end:
            if not free:
                parts.append([])
                free = limit
            count = min(free, span.end - at)
            parts[-1].append(span._replace(begin=at, end=at + count))
            at += count
            free -= count
    return [tuple(part) for part in parts]
