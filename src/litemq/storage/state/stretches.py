"""Records of many producers, cut by column into what is of one producer and one queue, and consecutive."""

from __future__ import annotations

from array import array
from typing import Final, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

__all__ = ["Sent", "Stretches", "stretches_of"]

Longs = npt.NDArray[np.int64]
_Number = TypeVar("_Number", np.int64, np.uint64)
_WORTH_SORTING: Final = 16


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
    """Records of one pair with consecutive sequences: the pair, the sequence behind the last, and where its runs end in ``table``.

    There they stand one behind another, three numbers each: sequence, queue offset and store time of a run's first record.
    """

    pairs: list[tuple[int, int, int]]
    nexts: list[int]
    ends: list[int]
    table: array[int]


def stretches_of(sent: Sent, *, apart_ms: int) -> Stretches:
    """Cut at least one record into stretches; between records that are more than ``apart_ms`` apart, too.

    Stretches of one pair keep their order, however the pairs take turns.
    """
    new = _are_of_another_pair(sent)
    if new.size > _WORTH_SORTING and 4 * np.count_nonzero(new) > new.size:
        sent = sent.subset(np.lexsort([column for column in (*sent[3:1:-1], sent.producer_ids) if not isinstance(column, int)]))
        new = _are_of_another_pair(sent)
    producer_ids, sequences, topic_ids, queue_ids, queue_offsets, times = sent
    new[1:] |= sequences[1:] - sequences[:-1] != 1
    begins_run = new.copy()
    begins_run[1:] |= queue_offsets[1:] - queue_offsets[:-1] != 1
    if not isinstance(times, int):
        begins_run[1:] |= times[1:] != times[:-1]
        new[1:] |= times[1:] - times[:-1] > apart_ms
    at = np.flatnonzero(begins_run)
    runs = np.empty((at.size, 3), np.int64)
    runs[:, 0] = sequences[at]
    runs[:, 1] = queue_offsets[at]
    runs[:, 2] = times if isinstance(times, int) else times[at]
    table = array("q")
    table.frombytes(runs.tobytes())
    firsts = np.flatnonzero(new)
    behind = np.append(firsts[1:], new.size)
    pairs = list(zip(_at(producer_ids, firsts), _at(topic_ids, firsts), _at(queue_ids, firsts), strict=True))
    return Stretches(pairs, (sequences[behind - 1] + 1).tolist(), (3 * np.searchsorted(at, behind)).tolist(), table)


def _are_of_another_pair(sent: Sent) -> npt.NDArray[np.bool_]:
    """Which records are of another pair than the one before them."""
    new = np.ones(sent.sequences.size, np.bool_)
    np.not_equal(sent.producer_ids[1:], sent.producer_ids[:-1], out=new[1:])
    for column in (sent.topic_ids, sent.queue_ids):
        if not isinstance(column, int):
            new[1:] |= column[1:] != column[:-1]
    return new


def _at(column: npt.NDArray[_Number] | int, which: Longs) -> list[int]:
    found: list[int] = [column] * which.size if isinstance(column, int) else column[which].tolist()
    return found
