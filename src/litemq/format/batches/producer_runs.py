"""Producer runs: records of a batch grouped by producer and queue, with consecutive sequences."""

from __future__ import annotations

from array import array
from itertools import repeat
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from litemq.format import native
from litemq.format.columns.record_columns import RecordColumns

__all__ = ["ProducerColumns", "ProducerRuns", "find_batch_producer_runs", "find_producer_runs"]

Longs = npt.NDArray[np.int64]
_PRODUCER, _QUEUE, _SEQUENCE, _OFFSET, _TIME = range(5)
_WORTH_SORTING: Final = 16
_I64_MAX: Final = (1 << 63) - 1
_NO_SEQUENCE: Final = np.uint64(_I64_MAX)  # from here on: the next sequence must fit 63 bits, too


class ProducerColumns(NamedTuple):
    """Producers and positions of records, by column; a plain int if it is the same for all."""

    producer_ids: npt.NDArray[np.uint64]
    sequences: Longs
    topic_ids: Longs | int
    queue_ids: Longs | int
    queue_offsets: Longs
    store_timestamps: Longs | int

    def subset(self, which: Longs) -> ProducerColumns:
        """Return the rows ``which``, in that order."""
        producer_ids, sequences, topic_ids, queue_ids, queue_offsets, store_timestamps = self
        return ProducerColumns(
            producer_ids[which],
            sequences[which],
            topic_ids if isinstance(topic_ids, int) else topic_ids[which],
            queue_ids if isinstance(queue_ids, int) else queue_ids[which],
            queue_offsets[which],
            store_timestamps if isinstance(store_timestamps, int) else store_timestamps[which],
        )


class ProducerRuns(NamedTuple):
    """Runs of records of one producer and queue with consecutive sequences.

    A run is the key (producer, topic, queue), the next sequence after the run, and the end of its
    spans in ``table``. The records of a span also have consecutive queue offsets and one store
    time. ``table`` has three numbers per span: sequence, queue offset and store time of its first
    record.
    """

    runs: list[tuple[tuple[int, int, int], int, int]]
    table: array[int]


def find_batch_producer_runs(
    columns: RecordColumns, topic_id: int, queue_ids: Longs | int, queue_offsets: Longs, store_timestamp: int
) -> ProducerRuns:
    """Return the producer runs of messages that were stored together."""
    if native.enabled:
        found = native.loops.stretches(
            columns.buffer, columns.starts, topic_id, queue_ids, queue_offsets, store_timestamp
        )
        if found is not None:
            return ProducerRuns(found[0], array("q", bytes(found[1])))
    producer_ids, sequences = columns.producers
    return find_producer_runs(
        ProducerColumns(producer_ids, sequences, topic_id, queue_ids, queue_offsets, store_timestamp)
    )


def find_producer_runs(records: ProducerColumns, *, apart_ms: int = _I64_MAX) -> ProducerRuns:
    """Return the producer runs of ``records``.

    A record that was stored more than ``apart_ms`` after the previous one begins a new run. Records
    without a producer (0), or with a sequence that needs more than 63 bits, are ignored. The runs
    of one key keep their order.
    """
    unsigned = records.sequences.view(np.uint64)
    if not (records.producer_ids.all() and unsigned.max(initial=0) < _NO_SEQUENCE):
        records = records.subset(np.flatnonzero((records.producer_ids != 0) & (unsigned < _NO_SEQUENCE)))
    if records.sequences.size == 0:
        return ProducerRuns([], array("q"))
    rows = _rows(records)
    count = rows.shape[1]
    new = _differs(rows[:2])
    begins = new[0] | new[1]
    if count > _WORTH_SORTING and 4 * np.count_nonzero(begins) > count:
        rows = rows[:, np.lexsort(rows[:2])]
        new = _differs(rows[:2])
        begins = new[0] | new[1]
    # A sequence or offset minus the record's index is constant as long as it rises by one.
    rows[_SEQUENCE : _OFFSET + 1] -= np.arange(count)
    gaps = _differs(rows[_SEQUENCE:])
    begins |= gaps[0]
    begins_span = begins | gaps[1]
    if rows.shape[0] > _TIME:
        begins_span |= gaps[2]
        begins[1:] |= rows[_TIME, 1:] - rows[_TIME, :-1] > apart_ms
    firsts = begins.nonzero()[0]
    run_ends = np.empty_like(firsts)
    run_ends[:-1] = firsts[1:]
    run_ends[-1] = count
    at = begins_span.nonzero()[0]
    spans = np.empty((at.size, 3), np.int64)
    spans[:, 0] = rows[_SEQUENCE][at] + at
    spans[:, 1] = rows[_OFFSET][at] + at
    spans[:, 2] = records.store_timestamps if isinstance(records.store_timestamps, int) else rows[_TIME][at]
    table = array("q", spans.tobytes())
    ends = range(3, len(table) + 1, 3) if at.size == firsts.size else (3 * np.searchsorted(at, run_ends)).tolist()
    queues = rows[_QUEUE][firsts].view(np.uint64)
    topic_ids = repeat(records.topic_ids) if isinstance(records.topic_ids, int) else (queues >> 32).tolist()
    producer_ids = rows[_PRODUCER][firsts].view(np.uint64).tolist()
    keys = zip(producer_ids, topic_ids, (queues & 0xFFFFFFFF).tolist(), strict=False)
    next_sequences = (rows[_SEQUENCE][firsts] + run_ends).tolist()
    return ProducerRuns(list(zip(keys, next_sequences, ends, strict=True)), table)


def _rows(records: ProducerColumns) -> Longs:
    """Return the columns as rows of one matrix; without the times if all are equal."""
    producer_ids, sequences, topic_ids, queue_ids, queue_offsets, store_timestamps = records
    rows = np.empty((_TIME if isinstance(store_timestamps, int) else _TIME + 1, sequences.size), np.int64)
    rows[_PRODUCER] = producer_ids.view(np.int64)
    rows[_QUEUE] = queue_ids if isinstance(topic_ids, int) else topic_ids << 32 | queue_ids
    rows[_SEQUENCE] = sequences
    rows[_OFFSET] = queue_offsets
    if not isinstance(store_timestamps, int):
        rows[_TIME] = store_timestamps
    return rows


def _differs(rows: Longs) -> npt.NDArray[np.bool_]:
    """Mark the numbers of each row that differ from the previous one; the first always does."""
    differs = np.empty(rows.shape, np.bool_)
    differs[:, 0] = True
    np.not_equal(rows[:, 1:], rows[:, :-1], out=differs[:, 1:])
    return differs
