"""Who sent what: records of many producers, cut by column into what is of one producer and one queue, and consecutive."""

from __future__ import annotations

from array import array
from itertools import repeat
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from litemq.format import native
from litemq.format.columns.record_columns import RecordColumns

__all__ = ["Sent", "Stretches", "stretches_of", "stretches_of_batch"]

Longs = npt.NDArray[np.int64]
_PRODUCER, _QUEUE, _SEQUENCE, _OFFSET, _TIME = range(5)
_WORTH_SORTING: Final = 16
_I64_MAX: Final = (1 << 63) - 1
_NO_SEQUENCE: Final = np.uint64(_I64_MAX)  # from here on; the one behind it must be a number, too


class Sent(NamedTuple):
    """Who sent some records, and where they went. One number where it is the same for all."""

    producer_ids: npt.NDArray[np.uint64]
    sequences: Longs
    topic_ids: Longs | int
    queue_ids: Longs | int
    queue_offsets: Longs
    store_timestamps: Longs | int

    def subset(self, which: Longs) -> Sent:
        """Some of them, in the order of ``which``."""
        producer_ids, sequences, topic_ids, queue_ids, queue_offsets, store_timestamps = self
        return Sent(
            producer_ids[which],
            sequences[which],
            topic_ids if isinstance(topic_ids, int) else topic_ids[which],
            queue_ids if isinstance(queue_ids, int) else queue_ids[which],
            queue_offsets[which],
            store_timestamps if isinstance(store_timestamps, int) else store_timestamps[which],
        )


class Stretches(NamedTuple):
    """Records of one pair with consecutive sequences, in runs: those of a run have consecutive queue offsets and one store time.

    A stretch is the pair (producer, topic, queue), the sequence behind the last record, and where its runs end in ``table``. There they stand
    one behind another, three numbers each: sequence, queue offset and store time of a run's first record.
    """

    stretches: list[tuple[tuple[int, int, int], int, int]]
    table: array[int]


def stretches_of_batch(
    columns: RecordColumns, topic_id: int, queue_ids: Longs | int, queue_offsets: Longs, store_timestamp: int
) -> Stretches:
    """Those of messages that were stored together."""
    if native.enabled:
        found = native.loops.stretches(columns.buffer, columns.starts, topic_id, queue_ids, queue_offsets, store_timestamp)
        if found is not None:
            return Stretches(found[0], array("q", bytes(found[1])))
    producer_ids, sequences = columns.producers
    return stretches_of(Sent(producer_ids, sequences, topic_id, queue_ids, queue_offsets, store_timestamp))


def stretches_of(sent: Sent, *, apart_ms: int = _I64_MAX) -> Stretches:
    """Those of any records; one that comes more than ``apart_ms`` after the one before it begins a stretch, too.

    Records without a producer (0) do not count, nor those with a sequence that has no place in 63 bits: no producer gets there. Stretches of
    one pair keep their order, however the pairs take turns.
    """
    unsigned = sent.sequences.view(np.uint64)
    if not (sent.producer_ids.all() and unsigned.max(initial=0) < _NO_SEQUENCE):
        sent = sent.subset(np.flatnonzero((sent.producer_ids != 0) & (unsigned < _NO_SEQUENCE)))
    if sent.sequences.size == 0:
        return Stretches([], array("q"))
    rows = _rows(sent)
    count = rows.shape[1]
    new = _differs(rows[:2])
    begins = new[0] | new[1]
    if count > _WORTH_SORTING and 4 * np.count_nonzero(begins) > count:
        rows = rows[:, np.lexsort(rows[:2])]
        new = _differs(rows[:2])
        begins = new[0] | new[1]
    # Less its place among the records, a sequence or an offset stays the same as long as it rises by one.
    rows[_SEQUENCE : _OFFSET + 1] -= np.arange(count)
    goes_on_elsewhere = _differs(rows[_SEQUENCE:])
    begins |= goes_on_elsewhere[0]
    begins_run = begins | goes_on_elsewhere[1]
    if rows.shape[0] > _TIME:
        begins_run |= goes_on_elsewhere[2]
        begins[1:] |= rows[_TIME, 1:] - rows[_TIME, :-1] > apart_ms
    firsts = begins.nonzero()[0]
    behind = np.empty_like(firsts)
    behind[:-1] = firsts[1:]
    behind[-1] = count
    at = begins_run.nonzero()[0]
    runs = np.empty((at.size, 3), np.int64)
    runs[:, 0] = rows[_SEQUENCE][at] + at
    runs[:, 1] = rows[_OFFSET][at] + at
    runs[:, 2] = sent.store_timestamps if isinstance(sent.store_timestamps, int) else rows[_TIME][at]
    table = array("q", runs.tobytes())
    ends = range(3, len(table) + 1, 3) if at.size == firsts.size else (3 * np.searchsorted(at, behind)).tolist()
    queues = rows[_QUEUE][firsts].view(np.uint64)
    topic_ids = repeat(sent.topic_ids) if isinstance(sent.topic_ids, int) else (queues >> 32).tolist()
    pairs = zip(rows[_PRODUCER][firsts].view(np.uint64).tolist(), topic_ids, (queues & 0xFFFFFFFF).tolist(), strict=False)
    return Stretches(list(zip(pairs, (rows[_SEQUENCE][firsts] + behind).tolist(), ends, strict=True)), table)


def _rows(sent: Sent) -> Longs:
    """The columns, each as a row of its own: what is done to all of them is done at once. Without the times, where there is only one."""
    producer_ids, sequences, topic_ids, queue_ids, queue_offsets, store_timestamps = sent
    rows = np.empty((_TIME if isinstance(store_timestamps, int) else _TIME + 1, sequences.size), np.int64)
    rows[_PRODUCER] = producer_ids.view(np.int64)
    rows[_QUEUE] = queue_ids if isinstance(topic_ids, int) else topic_ids << 32 | queue_ids
    rows[_SEQUENCE] = sequences
    rows[_OFFSET] = queue_offsets
    if not isinstance(store_timestamps, int):
        rows[_TIME] = store_timestamps
    return rows


def _differs(rows: Longs) -> npt.NDArray[np.bool_]:
    """Where in each row a number is another than the one before it; the first always is."""
    differs = np.empty(rows.shape, np.bool_)
    differs[:, 0] = True
    np.not_equal(rows[:, 1:], rows[:, :-1], out=differs[:, 1:])
    return differs
