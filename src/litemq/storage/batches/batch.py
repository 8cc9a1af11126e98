"""Batches of records, the same in every store: validation, grouping by queue, and stamping.

Also builds the control records that create or delete topics and commit offsets.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from litemq.errors import InvalidArgumentError, RecordFormatError
from litemq.format.batches.check import are_of_topic, check_batch
from litemq.format.batches.producer_runs import find_batch_producer_runs
from litemq.format.batches.stamp import QueueRuns, group_by_queue, queue_entries, stamp_batch
from litemq.format.columns.record_columns import RecordColumns
from litemq.format.limits import STORED_LIMITS, RecordLimits
from litemq.format.record import DELAY_TIME_AT, PRODUCER_BYTES_AT, STAMP_AT, Problem
from litemq.format.record_encode import encode_record
from litemq.proto.control_pb2 import Control, GroupOffset, OffsetsCommitted, TopicCreated, TopicDeleted
from litemq.proto.control_pb2 import Topic as WireTopic
from litemq.storage.state import CONTROL_TOPIC, CONTROL_TOPIC_ID, NO_SETTINGS, QueueKey, State, TopicSettings
from litemq.storage.state.jobs.jobs import is_job_number
from litemq.storage.state.producers import TouchedPage
from litemq.storage.state.topics import FIRST_FREE_TOPIC_ID, ROLLBACK_TOPIC, ROLLBACK_TOPIC_ID, TIMER_TOPIC_ID
from litemq.types import PRIORITY_CLASSES, Record, RecordKind, check_name, is_system_name

__all__ = [
    "NO_OFFSET",
    "Batch",
    "Placed",
    "Stamped",
    "commit_control",
    "control_batch",
    "creation_control",
    "deletion_control",
    "placed_batch",
    "record_sequences",
    "sent_batch",
    "stamp",
]

Longs = npt.NDArray[np.int64]

NO_OFFSET: Final = -1
_MAX_QUEUES: Final = 65536
_UNSTAMPED: Final = bytes(PRODUCER_BYTES_AT - STAMP_AT)


class Placed(NamedTuple):
    """A record for the broker to append. It keeps the producer's bytes and gets a new stamp."""

    record: bytes | memoryview
    topic_id: int
    queue_id: int
    kind: RecordKind
    origin: int = -1
    consume_count: int = 0


class Batch(NamedTuple):
    """Valid records with the queue of each.

    If there are several queues, ``runs`` groups the records by queue. ``held`` marks the records
    that wait in the timer topic until they are due.
    """

    columns: RecordColumns
    runs: QueueRuns | None
    topic_id: int | Longs
    queue_ids: Longs | int
    kind: RecordKind | Longs
    origins: Longs | int = -1
    consume_counts: Longs | int = 0
    sent_to: int | None = None
    held: npt.NDArray[np.bool_] | None = None

    @property
    def is_plain(self) -> bool:
        """Whether the batch is one control record, or plain messages without events."""
        return self.kind is RecordKind.MESSAGE or self.kind is RecordKind.CONTROL


class Stamped(NamedTuple):
    """The offsets of a batch in its queues, and its queue entries.

    The entries of queue ``g`` are ``entries[bounds[g] : bounds[g + 1]]``. The queue offset of a
    held record is -1: it is not in its queue yet.
    """

    keys: list[QueueKey]
    start_offsets: list[int]
    end_offsets: list[int]
    queue_offsets: Longs
    entries: npt.NDArray[np.void]
    bounds: list[int]

    @property
    def queues(self) -> Iterator[tuple[QueueKey, int, int, bytes]]:
        """The key of each queue, its first and next offset, and the bytes of its entries."""
        for key, first, end, (begin, until) in zip(
            self.keys, self.start_offsets, self.end_offsets, pairwise(self.bounds), strict=True
        ):
            yield key, first, end, self.entries[begin:until].tobytes()


def sent_batch(
    state: State, buffer: bytearray, topic_id: int, queue_ids: Longs | int, limits: RecordLimits, held_after: int | None
) -> Batch:
    """Build a batch of a producer's records; records due after ``held_after`` (ms) are held.

    Raise ``InvalidArgumentError`` or ``RecordFormatError`` unless every record is valid.
    """
    topic = state.topics.get(topic_id)
    if topic is None or topic.deleted or topic_id < FIRST_FREE_TOPIC_ID:
        raise InvalidArgumentError(f"no topic has id {topic_id}")
    if isinstance(queue_ids, int):
        min_queue = max_queue = queue_ids
    else:
        min_queue, max_queue = int(queue_ids.min(initial=0)), int(queue_ids.max(initial=0))
    if max_queue >= topic.queues or min_queue < 0:
        wrong = max_queue if max_queue >= topic.queues else min_queue
        raise InvalidArgumentError(f"queue {wrong}: topic {topic.name!r} has {topic.queues} queues")
    try:
        columns = check_batch(buffer, limits=limits)
    except RecordFormatError as error:
        _check_size(error, buffer, limits.max_record_bytes)
        raise
    if len(columns) == 0:
        raise InvalidArgumentError("the batch is empty")
    if not are_of_topic(columns, topic.name.encode()):
        raise InvalidArgumentError(f"a record in the batch is not of topic {topic.name!r}")
    if not isinstance(queue_ids, int) and queue_ids.shape != (len(columns),):
        raise InvalidArgumentError(f"{queue_ids.size} queue ids for {len(columns)} records: send one for each record")
    if held_after is not None:
        held = columns.header["delay_time"] > held_after
        if held.any():
            return _partly_held(columns, topic_id, queue_ids, held)
    if isinstance(queue_ids, int):
        return Batch(columns, None, topic_id, queue_ids, RecordKind.MESSAGE, sent_to=topic_id)
    runs = group_by_queue(np.full(len(columns), topic_id), queue_ids)
    return Batch(columns, runs, topic_id, queue_ids, RecordKind.MESSAGE, sent_to=topic_id)


def _check_size(error: RecordFormatError, buffer: bytearray, limit: int) -> None:
    """Raise an error that names the setting, if ``error`` is that a record is too large."""
    size = int.from_bytes(buffer[error.position : error.position + 4])
    if error.problem == Problem.SIZE and size > limit:
        raise InvalidArgumentError(
            f"the message has {size} bytes with all its fields, and the broker's limit is {limit} bytes: send a "
            "smaller one, or raise storage.max_record_size in the broker's configuration"
        ) from error


def _partly_held(columns: RecordColumns, topic_id: int, queue_ids: Longs | int, held: npt.NDArray[np.bool_]) -> Batch:
    """Build a batch whose ``held`` records go to the timer topic, in the queue with the same id."""
    topic_ids = np.where(held, TIMER_TOPIC_ID, topic_id)
    if isinstance(queue_ids, int):
        queue_ids = np.full(len(columns), queue_ids)
    kinds = np.where(held, int(RecordKind.PENDING), int(RecordKind.MESSAGE))
    return Batch(
        columns, group_by_queue(topic_ids, queue_ids), topic_ids, queue_ids, kinds, sent_to=topic_id, held=held
    )


def placed_batch(state: State, placed: Sequence[Placed]) -> Batch:
    """Build a batch of the broker's own records; raise unless all of them may be appended."""
    if not placed:
        raise InvalidArgumentError("the batch is empty")
    _check_successors(state, placed)
    for each in placed:
        topic = state.topics.get(each.topic_id)
        if topic is None or topic.deleted or not topic.has_queue(each.queue_id):
            raise InvalidArgumentError(f"no topic has id {each.topic_id} and queue {each.queue_id}")
    pieces: list[bytes | memoryview] = []
    for each in placed:
        pieces += each.record[:STAMP_AT], _UNSTAMPED, each.record[PRODUCER_BYTES_AT:]
    columns = check_batch(bytearray().join(pieces), limits=STORED_LIMITS)
    if len(columns) != len(placed):
        raise InvalidArgumentError(f"{len(columns)} records for {len(placed)} queues")
    table = np.array([each[1:] for each in placed], np.int64)
    topic_ids, queue_ids, kinds, origins, counts = (np.ascontiguousarray(table[:, number]) for number in range(5))
    runs = group_by_queue(topic_ids, queue_ids)
    return Batch(columns, runs, topic_ids, queue_ids, kinds, origins, np.minimum(counts, 0xFFFF))


def _check_successors(state: State, placed: Sequence[Placed]) -> None:
    """Refuse a record whose origin was carried forward or redriven after the caller read it."""
    tries, dead_letters = state.parts.tries, state.parts.dead_letters
    ticks: list[tuple[int, int]] = []
    for each in placed:
        if each.kind is RecordKind.RETRY and tries.moved_to(each.origin) != each.origin:
            raise InvalidArgumentError(
                f"retention moved the message to retry at log offset {each.origin}: read it from its new offset"
            )
        if each.kind is RecordKind.MESSAGE and is_job_number(each.origin):
            ticks.append((each.origin, int.from_bytes(each.record[DELAY_TIME_AT], "big")))
        elif each.kind is RecordKind.MESSAGE and each.origin >= 0 and each.origin not in dead_letters:
            raise InvalidArgumentError(f"no dead letter is at log offset {each.origin}, or it was redriven already")
    if ticks:
        _check_ticks(state, ticks)


def _check_ticks(state: State, ticks: list[tuple[int, int]]) -> None:
    """Refuse ticks that were already sent or skipped; each tick is sent once, in order."""
    latest: dict[int, int] = {}
    may_send = state.parts.jobs.may_send(*np.array(ticks, np.int64).T).tolist()
    for (number, tick), may in zip(ticks, may_send, strict=True):
        if not may or 0 < tick <= latest.get(number, 0):
            raise InvalidArgumentError(
                f"tick {tick} of job number {number} was already sent or skipped, or the job was deleted"
            )
        latest[number] = max(tick, latest.get(number, 0))


def control_batch(control: Control, now_ms: int) -> Batch:
    """Build a batch of one control record."""
    if control.HasField("halves_rolled_back"):
        topic_id, topic = ROLLBACK_TOPIC_ID, ROLLBACK_TOPIC
    else:
        topic_id, topic = CONTROL_TOPIC_ID, CONTROL_TOPIC
    record = Record(topic, control.SerializeToString(deterministic=True), born_timestamp=now_ms)
    columns = check_batch(bytearray(encode_record(record, limits=STORED_LIMITS)), limits=STORED_LIMITS)
    return Batch(columns, None, topic_id, 0, RecordKind.CONTROL)


def stamp(batch: Batch, state: State, log_offsets: Longs, store_timestamp: int, epoch: int) -> Stamped:
    """Write the broker's fields into the records; assign the next offsets of their queues."""
    runs = batch.runs
    if runs is None:
        key = QueueKey(int(batch.topic_id), int(batch.queue_ids))
        start = state.end_offsets.get(key, 0)
        end = start + len(batch.columns)
        queue_offsets = np.arange(start, end)
        keys, start_offsets, end_offsets, bounds = [key], [start], [end], [0, len(batch.columns)]
    else:
        keys = list(map(QueueKey, runs.topic_ids.tolist(), runs.queue_ids.tolist()))
        start_offsets = [state.end_offsets.get(key, 0) for key in keys]
        starts = np.array(start_offsets)
        queue_offsets = runs.offsets_from(starts)
        end_offsets = (starts + runs.bounds[1:] - runs.bounds[:-1]).tolist()
        bounds = runs.bounds.tolist()
    stamp_batch(
        batch.columns,
        commitlog_offsets=log_offsets,
        queue_offsets=queue_offsets,
        topic_ids=batch.topic_id,
        queue_ids=batch.queue_ids,
        store_timestamp=store_timestamp,
        epoch=epoch,
        kinds=batch.kind,
        origins=batch.origins,
        consume_counts=batch.consume_counts,
    )
    entries = queue_entries(batch.columns, runs, commitlog_offsets=log_offsets, store_timestamps=store_timestamp)
    if batch.held is not None:
        queue_offsets = np.where(batch.held, NO_OFFSET, queue_offsets)
    return Stamped(keys, start_offsets, end_offsets, queue_offsets, entries, bounds)


def record_sequences(batch: Batch, state: State, stamped: Stamped, store_timestamp: int) -> list[TouchedPage]:
    """Add an appended batch to the producers' sequences of ``state``; return the changed pages."""
    producers = state.producers
    if batch.sent_to is None:
        return producers.expire(store_timestamp)
    sent = find_batch_producer_runs(
        batch.columns, batch.sent_to, batch.queue_ids, stamped.queue_offsets, store_timestamp
    )
    return producers.add_runs(sent) + producers.expire(store_timestamp)


def commit_control(state: State, group: str, offsets: Iterable[tuple[QueueKey, int]]) -> Control:
    """Build the control record that commits ``offsets``; raise if one is out of range."""
    rows = []
    for key, offset in offsets:
        topic, end = state.topics.get(key.topic_id), state.end_offsets.get(key, 0)
        if topic is None or not topic.has_queue(key.queue_id):
            raise InvalidArgumentError(f"no topic has id {key.topic_id} and queue {key.queue_id}")
        if not 0 <= offset <= end:
            raise InvalidArgumentError(f"offset {offset} of queue {key.queue_id} of {topic.name!r}: choose 0 … {end}")
        rows.append(GroupOffset(group=group, topic_id=key.topic_id, queue_id=key.queue_id, offset=offset))
    check_name(group)
    return Control(offsets_committed=OffsetsCommitted(offsets=rows))


def creation_control(
    state: State, name: str, queues: int, settings: TopicSettings = NO_SETTINGS, *, now: int
) -> Control:
    """Build the control record that creates a topic; raise if ``name`` or ``queues`` is invalid.

    A system topic may have 0 queues, which means a queue for every id.
    """
    if not is_system_name(name):
        check_name(name)
    if not 1 <= queues <= _MAX_QUEUES and not (queues == 0 and is_system_name(name)):
        raise InvalidArgumentError(f"queues={queues}: choose 1 … {_MAX_QUEUES}")
    if settings.has_priorities and queues % PRIORITY_CLASSES:
        raise InvalidArgumentError(
            f"queues={queues}: a topic with priorities needs a multiple of {PRIORITY_CLASSES}, one for each class"
        )
    topic = WireTopic(topic_id=state.free_topic_id, name=name, queues=queues, created_at=now, **settings._asdict())
    return Control(topic_created=TopicCreated(topic=topic))


def deletion_control(state: State, name: str) -> Control:
    """Build the control record that deletes a topic; raise if it does not exist."""
    topic = state.topic(name)
    if topic is None or topic.topic_id < FIRST_FREE_TOPIC_ID:
        raise InvalidArgumentError(f"topic {name!r} does not exist")
    return Control(topic_deleted=TopicDeleted(topic_id=topic.topic_id))
