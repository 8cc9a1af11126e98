"""Damaged records: what each means for the state, and for the user.

If the broker's part of a record is intact, it tells the kind of the record and its place in its
queue. A damaged message is then a hole in its queue, and the state is complete without it. Any
other damaged record may have changed the state: it is a loss, which a user must accept.
"""

from __future__ import annotations

from typing import Final

from litemq.errors import CorruptStoreError
from litemq.format.limits import STORED_LIMITS
from litemq.format.record import FIXED_BYTES
from litemq.format.record_decode import decode_record
from litemq.proto.control_pb2 import Control, TopicCreated
from litemq.proto.control_pb2 import Topic as WireTopic
from litemq.storage.log.reader import Window
from litemq.storage.state import QueueKey, State
from litemq.storage.state.jobs.jobs import JOB_NUMBER_BITS
from litemq.storage.state.part import PlacedRecord
from litemq.storage.state.persistence.changes import Changes
from litemq.types import RecordKind, Stamp

__all__ = ["apply_damaged", "describe_damage", "is_hole", "restore_topics"]

_CONSEQUENCES: Final = {
    RecordKind.PENDING: "a delayed message or a copy for a retry is lost",
    RecordKind.FIRED: "a delayed message that was delivered here is delivered again, at another offset",
    RecordKind.HALF: "a record of a transaction is lost",
    RecordKind.COMMITTED: "a record of a transaction that was published here is published again, at another offset",
    RecordKind.RETRY: "a retry is lost, and is due again",
    RecordKind.DEAD: "a dead letter is lost, and its message is delivered again",
    RecordKind.CONTROL: "a change of topics, groups, offsets, timers or jobs is lost",
}


def is_hole(stamp: Stamp | None) -> bool:
    """Whether a damaged record with this ``stamp`` is only a hole in its queue."""
    return stamp is not None and stamp.kind is RecordKind.MESSAGE


def describe_damage(error: CorruptStoreError, stamp: Stamp | None, state: State) -> CorruptStoreError:
    """Return ``error`` with what is lost."""
    if stamp is None:
        lost = "an unknown record is lost"
    elif stamp.kind is RecordKind.MESSAGE:
        topic = state.topics.get(stamp.topic_id)
        name = f"topic {topic.name}" if topic is not None else f"the topic with id {stamp.topic_id}"
        lost = f"message {stamp.queue_offset} of queue {stamp.queue_id} of {name} is lost"
    else:
        lost = _CONSEQUENCES[stamp.kind]
    return CorruptStoreError(error.path, error.offset, f"{error.reason}: {lost}")


def apply_damaged(stamp: Stamp, state: State, changes: Changes) -> None:
    """Apply what the broker's part of a damaged record tells: its place, and whose end it is."""
    end = stamp.commitlog_offset + FIXED_BYTES
    key = QueueKey(stamp.topic_id, stamp.queue_id)
    state.extend_queue(key, stamp.queue_offset + 1)
    changes.add_queue_range(end, key, stamp.queue_offset + 1)
    if stamp.kind is RecordKind.MESSAGE and stamp.origin >= 0 and stamp.origin & 7 != JOB_NUMBER_BITS:
        redriven = PlacedRecord(
            stamp.commitlog_offset,
            stamp.kind,
            stamp.origin,
            stamp.topic_id,
            stamp.queue_id,
            stamp.queue_offset,
            stamp.consume_count,
            0,
            FIXED_BYTES,
            stamp.store_timestamp,
        )
        changes.add_event(end, state.place(redriven))


def restore_topics(window: Window, state: State, changes: Changes) -> None:
    """Create the topics of ``window`` that the state lacks, because their creation was lost.

    A message has the name of its topic; other records do not.
    """
    header = window.columns.header
    for topic_id in sorted(set(header["topic_id"].tolist()) - set(state.topics)):
        which = (header["topic_id"] == topic_id).nonzero()[0]
        number = int(which[0])
        name = f"%RETRY%recovered-{topic_id}"
        if header["kind"][number] in (RecordKind.MESSAGE, RecordKind.DEAD):
            name = decode_record(
                window.columns.buffer, int(window.columns.starts[number]), limits=STORED_LIMITS
            ).record.topic
        queues = int(header["queue_id"][which].max()) + 1
        control = Control(topic_created=TopicCreated(topic=WireTopic(topic_id=topic_id, name=name, queues=queues)))
        changes.add_control(window.base + int(window.columns.starts[0]) + FIXED_BYTES, control, state.apply(control))
