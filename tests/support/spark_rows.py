"""Comparison of a table's rows with the entries of the queues: each must be there once.

``row_problems`` is pure: tables made by hand, and the bad ones are how it is tested.
"""

from __future__ import annotations

from array import array
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

import litemq

__all__ = ["KEY", "Queue", "bodies_by_position", "named_positions", "queue_entries", "row_problems"]

KEY: Final = ("broker", "topic", "queue_id", "queue_offset")
_SHOWN: Final = 5


class Queue(NamedTuple):
    """One queue of a cluster."""

    broker: str
    topic: str
    queue_id: int


def queue_entries(url: str, topics: Sequence[str]) -> dict[Queue, range]:
    """Return the offsets of each queue, from its broker."""
    with litemq.Client(url) as mq:
        return {
            Queue(queue.broker, topic, queue.queue_id): range(queue.least, queue.next)
            for topic in topics
            for queue in mq.admin.describe_topic(topic).queues
        }


def bodies_by_position(url: str, topic: str) -> dict[tuple[str, int, int], bytes]:
    """Return every message of a topic by the public reader; it shares no code with the source."""
    with litemq.Client(url) as mq, mq.reader(topic, follow=False) as messages:
        return {(message.broker, message.queue_id, message.queue_offset): message.body for message in messages}


def named_positions(url: str, topic: str, of_topic: str) -> pa.Table:
    """Return, by column, the positions (broker/queue/offset) in the bodies of the messages."""
    offsets: dict[bytes, array[int]] = {}
    with litemq.Client(url) as mq, mq.reader(topic, follow=False) as messages:
        for message in messages:
            queue, _, offset = message.body.rpartition(b"/")
            offsets.setdefault(queue, array("q")).append(int(offset))
    parts = []
    for name, found in sorted(offsets.items()):
        broker, _, queue_id = name.decode().partition("/")
        alike = pa.array(np.zeros(len(found), np.int8))
        same = [pa.DictionaryArray.from_arrays(alike, [value]) for value in (broker, of_topic)]
        parts.append(
            pa.table(
                [*same, pa.array(np.full(len(found), int(queue_id))), pa.array(np.frombuffer(found, np.int64))],
                names=KEY,
            )
        )
    return pa.concat_tables(parts).unify_dictionaries()


def row_problems(rows: pa.Table, entries: Mapping[Queue, range]) -> list[str]:
    """Describe missing, repeated and unknown rows; empty if rows and entries are the same."""
    found = []
    offsets = np.asarray(rows["queue_offset"].combine_chunks(), dtype=np.int64)
    # A number for each queue, and each row's.
    names = pa.table({name: rows[name].cast(pa.string() if name != "queue_id" else pa.int64()) for name in KEY[:3]})
    known = names.group_by(list(KEY[:3]), use_threads=False).aggregate([])
    queues = [Queue(str(row["broker"]), str(row["topic"]), int(row["queue_id"])) for row in known.to_pylist()]
    strange = sorted(set(queues) - set(entries))
    if strange:
        found.append(f"rows of queues that are not there: {strange[:_SHOWN]}")
    for queue, expected in sorted(entries.items()):
        mask = pc.and_(
            pc.and_(pc.equal(names["broker"], queue.broker), pc.equal(names["topic"], queue.topic)),
            pc.equal(names["queue_id"], queue.queue_id),
        )
        values, counts = np.unique(offsets[np.asarray(mask)], return_counts=True)
        wanted = np.arange(expected.start, expected.stop, dtype=np.int64)
        for what, which in (
            ("missing", np.setdiff1d(wanted, values)),
            ("unknown", np.setdiff1d(values, wanted)),
            ("there more than once", values[counts > 1]),
        ):
            if len(which):
                found.append(
                    f"{queue.topic}/{queue.broker}/{queue.queue_id}: {len(which)} {what}, {which[:_SHOWN].tolist()} …"
                )
    return found
