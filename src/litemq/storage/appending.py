"""What happens to a batch before it is written, the same in every store: checked, grouped by queue, stamped."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from litemq.errors import InvalidArgumentError
from litemq.format.check import are_of_topic, check_batch
from litemq.format.columns import RecordColumns
from litemq.format.limits import STORED_LIMITS, RecordLimits
from litemq.format.record import encode_record
from litemq.format.stamp import QueueRuns, queue_entries, queue_runs, stamp_batch
from litemq.format.stretches import stretches_of_batch
from litemq.proto.control_pb2 import Control, GroupOffset, OffsetsCommitted, Topic, TopicCreated, TopicDeleted
from litemq.storage.state import CONTROL_TOPIC, CONTROL_TOPIC_ID, QueueKey, State
from litemq.storage.state.producers import Touched
from litemq.types import Record, RecordKind, check_name

__all__ = ["Batch", "Stamped", "commit_of", "control_batch", "creation_of", "deletion_of", "sent_batch", "stamp", "took"]

Longs = npt.NDArray[np.int64]

_MOST_QUEUES = 65536


class Batch(NamedTuple):
    """Valid records of one topic, and the queue of each; ``runs`` groups them where there are several queues."""

    columns: RecordColumns
    runs: QueueRuns | None
    topic_id: int
    queue_ids: Longs | int
    kind: RecordKind


class Stamped(NamedTuple):
    """A batch's places in its queues, and its entries there: those of queue g are ``entries[bounds[g] : bounds[g + 1]]``."""

    keys: list[QueueKey]
    firsts: list[int]
    nexts: list[int]
    queue_offsets: Longs
    entries: npt.NDArray[np.void]
    bounds: list[int]


def sent_batch(state: State, buffer: bytearray, topic_id: int, queue_ids: Longs | int, limits: RecordLimits) -> Batch:
    """What a producer sent; raises unless all of it may be appended."""
    facts = state.topics.get(topic_id)
    if facts is None or facts.deleted or topic_id == CONTROL_TOPIC_ID:
        raise InvalidArgumentError(f"no topic has the number {topic_id}")
    least, most = (queue_ids, queue_ids) if isinstance(queue_ids, int) else (int(queue_ids.min(initial=0)), int(queue_ids.max(initial=0)))
    if most >= facts.queues or least < 0:
        raise InvalidArgumentError(f"queue {most if most >= facts.queues else least}: topic {facts.name!r} has {facts.queues}")
    columns = check_batch(buffer, limits=limits)
    if len(columns) == 0:
        raise InvalidArgumentError("an empty batch")
    if not are_of_topic(columns, facts.name.encode()):
        raise InvalidArgumentError(f"a record in the batch is not of topic {facts.name!r}")
    if isinstance(queue_ids, int):
        return Batch(columns, None, topic_id, queue_ids, RecordKind.MESSAGE)
    if queue_ids.shape != (len(columns),):
        raise InvalidArgumentError(f"{queue_ids.size} queues for {len(columns)} records")
    return Batch(columns, queue_runs(np.full(len(columns), topic_id), queue_ids), topic_id, queue_ids, RecordKind.MESSAGE)


def control_batch(control: Control, now_ms: int) -> Batch:
    """A change, as the one record that says it."""
    record = Record(CONTROL_TOPIC, control.SerializeToString(deterministic=True), born_timestamp=now_ms)
    columns = check_batch(bytearray(encode_record(record, limits=STORED_LIMITS)), limits=STORED_LIMITS)
    return Batch(columns, None, CONTROL_TOPIC_ID, 0, RecordKind.CONTROL)


def stamp(batch: Batch, state: State, log_offsets: Longs, store_timestamp: int, epoch: int) -> Stamped:
    """Write the broker's fields into the records, at the next offsets of their queues."""
    runs = batch.runs
    if runs is None:
        key = QueueKey(batch.topic_id, int(batch.queue_ids))
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
    )
    entries = queue_entries(batch.columns, runs, commitlog_offsets=log_offsets, store_timestamps=store_timestamp)
    return Stamped(keys, firsts, nexts, queue_offsets, entries, bounds)


def took(batch: Batch, state: State, stamped: Stamped, store_timestamp: int) -> list[Touched]:
    """What a batch that was written changes in the sequences of producers, there and in the answer."""
    producers = state.producers
    if batch.kind is not RecordKind.MESSAGE:
        return producers.expire(store_timestamp)
    sent = stretches_of_batch(batch.columns, batch.topic_id, batch.queue_ids, stamped.queue_offsets, store_timestamp)
    return producers.take(sent) + producers.expire(store_timestamp)


def commit_of(state: State, group: str, offsets: Iterable[tuple[QueueKey, int]]) -> Control:
    """The record that says how far a group has come. A queue that is not known yet has no offset but 0."""
    rows = []
    for key, offset in offsets:
        facts, following = state.topics.get(key.topic_id), state.next.get(key, 0)
        if facts is None or not 0 <= key.queue_id < facts.queues:
            raise InvalidArgumentError(f"no topic has the number {key.topic_id} and a queue {key.queue_id}")
        if not 0 <= offset <= following:
            raise InvalidArgumentError(f"offset {offset} of queue {key.queue_id} of {facts.name!r}: choose 0 … {following}")
        rows.append(GroupOffset(group=group, topic_id=key.topic_id, queue_id=key.queue_id, offset=offset))
    check_name(group)
    return Control(offsets_committed=OffsetsCommitted(offsets=rows))


def creation_of(state: State, name: str, queues: int) -> Control:
    """The record that creates a topic."""
    if not 1 <= queues <= _MOST_QUEUES:
        raise InvalidArgumentError(f"queues={queues}: choose 1 … {_MOST_QUEUES}")
    topic = Topic(topic_id=state.free_topic_id, name=check_name(name), queues=queues)
    return Control(topic_created=TopicCreated(topic=topic))


def deletion_of(state: State, name: str) -> Control:
    """The record that deletes a topic."""
    there = state.topic(name)
    if there is None or there.topic_id == CONTROL_TOPIC_ID:
        raise InvalidArgumentError(f"no topic {name!r}")
    return Control(topic_deleted=TopicDeleted(topic_id=there.topic_id))
