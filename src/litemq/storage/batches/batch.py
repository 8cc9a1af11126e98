"""What happens to a batch before it is written, the same in every store: checked, grouped by queue, stamped."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from litemq.errors import InvalidArgumentError
from litemq.format.batches.check import are_of_topic, check_batch
from litemq.format.batches.producer_runs import stretches_of_batch
from litemq.format.batches.stamp import QueueRuns, queue_entries, queue_runs, stamp_batch
from litemq.format.columns.record_columns import RecordColumns
from litemq.format.limits import STORED_LIMITS, RecordLimits
from litemq.format.record import DELAY_TIME_AT, PRODUCER_BYTES_AT, STAMP_AT
from litemq.format.record_encode import encode_record
from litemq.proto.control_pb2 import Control, GroupOffset, OffsetsCommitted, Topic, TopicCreated, TopicDeleted
from litemq.storage.state import CONTROL_TOPIC, CONTROL_TOPIC_ID, NO_SETTINGS, QueueKey, State, TopicSettings
from litemq.storage.state.jobs.jobs import is_job_number
from litemq.storage.state.producers import Touched
from litemq.storage.state.topics import FIRST_FREE_TOPIC_ID, ROLLBACK_TOPIC, ROLLBACK_TOPIC_ID, TIMER_TOPIC_ID
from litemq.types import PRIORITY_CLASSES, Record, RecordKind, check_name, is_system_name

__all__ = [
    "NO_OFFSET",
    "Batch",
    "Placed",
    "Stamped",
    "commit_of",
    "control_batch",
    "creation_of",
    "deletion_of",
    "placed_batch",
    "sent_batch",
    "stamp",
    "took",
]

Longs = npt.NDArray[np.int64]

NO_OFFSET: Final = -1
_MOST_QUEUES: Final = 65536
_UNSTAMPED: Final = bytes(PRODUCER_BYTES_AT - STAMP_AT)


class Placed(NamedTuple):
    """A record that the broker itself appends: the producer's part stays as it is, the broker's is stamped anew."""

    record: bytes | memoryview
    topic_id: int
    queue_id: int
    kind: RecordKind
    origin: int = -1
    consume_count: int = 0


class Batch(NamedTuple):
    """Valid records, and the queue of each; ``runs`` groups them where there are several queues.

    Of those that a producer sent to a topic, some may be ``held`` until they are due.
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
        """Whether there are only messages in it that nothing but their queue has to know of, or one change."""
        return self.kind is RecordKind.MESSAGE or self.kind is RecordKind.CONTROL


class Stamped(NamedTuple):
    """A batch's places in its queues, and its entries there: those of queue g are ``entries[bounds[g] : bounds[g + 1]]``.

    What is held has no place yet in the queue that it was sent to: its offset is -1.
    """

    keys: list[QueueKey]
    firsts: list[int]
    nexts: list[int]
    queue_offsets: Longs
    entries: npt.NDArray[np.void]
    bounds: list[int]


def sent_batch(
    state: State, buffer: bytearray, topic_id: int, queue_ids: Longs | int, limits: RecordLimits, held_after: int | None
) -> Batch:
    """What a producer sent; raises unless all of it may be appended. What is due later than ``held_after`` is held until then."""
    facts = state.topics.get(topic_id)
    if facts is None or facts.deleted or topic_id < FIRST_FREE_TOPIC_ID:
        raise InvalidArgumentError(f"no topic has the number {topic_id}")
    least, most = (queue_ids, queue_ids) if isinstance(queue_ids, int) else (int(queue_ids.min(initial=0)), int(queue_ids.max(initial=0)))
    if most >= facts.queues or least < 0:
        raise InvalidArgumentError(f"queue {most if most >= facts.queues else least}: topic {facts.name!r} has {facts.queues}")
    columns = check_batch(buffer, limits=limits)
    if len(columns) == 0:
        raise InvalidArgumentError("an empty batch")
    if not are_of_topic(columns, facts.name.encode()):
        raise InvalidArgumentError(f"a record in the batch is not of topic {facts.name!r}")
    if not isinstance(queue_ids, int) and queue_ids.shape != (len(columns),):
        raise InvalidArgumentError(f"{queue_ids.size} queues for {len(columns)} records")
    if held_after is not None:
        held = columns.header["delay_time"] > held_after
        if held.any():
            return _partly_held(columns, topic_id, queue_ids, held)
    if isinstance(queue_ids, int):
        return Batch(columns, None, topic_id, queue_ids, RecordKind.MESSAGE, sent_to=topic_id)
    runs = queue_runs(np.full(len(columns), topic_id), queue_ids)
    return Batch(columns, runs, topic_id, queue_ids, RecordKind.MESSAGE, sent_to=topic_id)


def _partly_held(columns: RecordColumns, topic_id: int, queue_ids: Longs | int, held: npt.NDArray[np.bool_]) -> Batch:
    """Those that are held stand in the timers' topic meanwhile, under the number of the queue that they were sent to."""
    topic_ids = np.where(held, TIMER_TOPIC_ID, topic_id)
    if isinstance(queue_ids, int):
        queue_ids = np.full(len(columns), queue_ids)
    kinds = np.where(held, int(RecordKind.PENDING), int(RecordKind.MESSAGE))
    return Batch(columns, queue_runs(topic_ids, queue_ids), topic_ids, queue_ids, kinds, sent_to=topic_id, held=held)


def placed_batch(state: State, placed: Sequence[Placed]) -> Batch:
    """Records of the broker's own, each with its place; raises unless all of them may be appended."""
    if not placed:
        raise InvalidArgumentError("an empty batch")
    _check_successors(state, placed)
    for each in placed:
        facts = state.topics.get(each.topic_id)
        if facts is None or facts.deleted or not facts.has_queue(each.queue_id):
            raise InvalidArgumentError(f"no topic has the number {each.topic_id} and a queue {each.queue_id}")
    pieces: list[bytes | memoryview] = []
    for each in placed:
        pieces += each.record[:STAMP_AT], _UNSTAMPED, each.record[PRODUCER_BYTES_AT:]
    columns = check_batch(bytearray().join(pieces), limits=STORED_LIMITS)
    if len(columns) != len(placed):
        raise InvalidArgumentError(f"{len(columns)} records in {len(placed)} places")
    places = np.array([each[1:] for each in placed], np.int64)
    topic_ids, queue_ids, kinds, origins, counts = (np.ascontiguousarray(places[:, number]) for number in range(5))
    return Batch(columns, queue_runs(topic_ids, queue_ids), topic_ids, queue_ids, kinds, origins, np.minimum(counts, 0xFFFF))


def _check_successors(state: State, placed: Sequence[Placed]) -> None:
    """Refuse what comes after a record that was carried on, or sent on, since it was read: its place is another now."""
    tries, letters = state.delivery.tries, state.delivery.dead_letters
    ticks: list[tuple[int, int]] = []
    for each in placed:
        if each.kind is RecordKind.RETRY and tries.moved_to(each.origin) != each.origin:
            raise InvalidArgumentError(f"what is tried again was carried on from log offset {each.origin}: read it there")
        if each.kind is RecordKind.MESSAGE and is_job_number(each.origin):
            ticks.append((each.origin, int.from_bytes(each.record[DELAY_TIME_AT], "big")))
        elif each.kind is RecordKind.MESSAGE and each.origin >= 0 and each.origin not in letters:
            raise InvalidArgumentError(f"there is no dead letter at log offset {each.origin}, or it was sent on before")
    if ticks:
        _check_ticks(state, ticks)


def _check_ticks(state: State, ticks: list[tuple[int, int]]) -> None:
    """Refuse ticks of jobs that were sent or given up: each comes once, and later ones behind it."""
    latest: dict[int, int] = {}
    may_send = state.delivery.jobs.may_send(*np.array(ticks, np.int64).T).tolist()
    for (number, tick), may in zip(ticks, may_send, strict=True):
        if not may or 0 < tick <= latest.get(number, 0):
            raise InvalidArgumentError(f"tick {tick} of job number {number} was sent or given up before, or the job is gone")
        latest[number] = max(tick, latest.get(number, 0))


def control_batch(control: Control, now_ms: int) -> Batch:
    """A change, as the one record that says it."""
    topic_id, topic = (ROLLBACK_TOPIC_ID, ROLLBACK_TOPIC) if control.HasField("halves_rolled_back") else (CONTROL_TOPIC_ID, CONTROL_TOPIC)
    record = Record(topic, control.SerializeToString(deterministic=True), born_timestamp=now_ms)
    columns = check_batch(bytearray(encode_record(record, limits=STORED_LIMITS)), limits=STORED_LIMITS)
    return Batch(columns, None, topic_id, 0, RecordKind.CONTROL)


def stamp(batch: Batch, state: State, log_offsets: Longs, store_timestamp: int, epoch: int) -> Stamped:
    """Write the broker's fields into the records, at the next offsets of their queues."""
    runs = batch.runs
    if runs is None:
        key = QueueKey(int(batch.topic_id), int(batch.queue_ids))
        first = state.next.get(key, 0)
        following = first + len(batch.columns)
        queue_offsets = np.arange(first, following)
        keys, firsts, nexts, bounds = [key], [first], [following], [0, len(batch.columns)]
    else:
        keys = list(map(QueueKey, runs.topic_ids.tolist(), runs.queue_ids.tolist()))
        firsts = [state.next.get(key, 0) for key in keys]
        begins = np.array(firsts)
        queue_offsets = runs.offsets_from(begins)
        nexts = (begins + runs.bounds[1:] - runs.bounds[:-1]).tolist()
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
    return Stamped(keys, firsts, nexts, queue_offsets, entries, bounds)


def took(batch: Batch, state: State, stamped: Stamped, store_timestamp: int) -> list[Touched]:
    """What a batch that was written changes in the sequences of producers, there and in the answer."""
    producers = state.producers
    if batch.sent_to is None:
        return producers.expire(store_timestamp)
    sent = stretches_of_batch(batch.columns, batch.sent_to, batch.queue_ids, stamped.queue_offsets, store_timestamp)
    return producers.take(sent) + producers.expire(store_timestamp)


def commit_of(state: State, group: str, offsets: Iterable[tuple[QueueKey, int]]) -> Control:
    """The record that says how far a group has come. A queue that is not known yet has no offset but 0."""
    rows = []
    for key, offset in offsets:
        facts, following = state.topics.get(key.topic_id), state.next.get(key, 0)
        if facts is None or not facts.has_queue(key.queue_id):
            raise InvalidArgumentError(f"no topic has the number {key.topic_id} and a queue {key.queue_id}")
        if not 0 <= offset <= following:
            raise InvalidArgumentError(f"offset {offset} of queue {key.queue_id} of {facts.name!r}: choose 0 … {following}")
        rows.append(GroupOffset(group=group, topic_id=key.topic_id, queue_id=key.queue_id, offset=offset))
    check_name(group)
    return Control(offsets_committed=OffsetsCommitted(offsets=rows))


def creation_of(state: State, name: str, queues: int, settings: TopicSettings = NO_SETTINGS, *, now: int) -> Control:
    """The record that creates a topic. Only the broker's own may have queues of any number, and so say 0."""
    if not is_system_name(name):
        check_name(name)
    if not 1 <= queues <= _MOST_QUEUES and not (queues == 0 and is_system_name(name)):
        raise InvalidArgumentError(f"queues={queues}: choose 1 … {_MOST_QUEUES}")
    if settings.has_priorities and queues % PRIORITY_CLASSES:
        raise InvalidArgumentError(f"queues={queues}: a topic with priorities has {PRIORITY_CLASSES} for each queue")
    topic = Topic(topic_id=state.free_topic_id, name=name, queues=queues, created_at=now, **settings._asdict())
    return Control(topic_created=TopicCreated(topic=topic))


def deletion_of(state: State, name: str) -> Control:
    """The record that deletes a topic."""
    there = state.topic(name)
    if there is None or there.topic_id < FIRST_FREE_TOPIC_ID:
        raise InvalidArgumentError(f"no topic {name!r}")
    return Control(topic_deleted=TopicDeleted(topic_id=there.topic_id))
