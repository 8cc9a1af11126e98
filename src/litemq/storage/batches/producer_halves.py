"""Halves of producers' transactions on their way: many transactions in one write, into the half topic and out of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

from litemq.errors import InvalidArgumentError
from litemq.format.batches.check import check_batch
from litemq.format.batches.stamp import queue_runs
from litemq.format.limits import STORED_LIMITS, RecordLimits
from litemq.format.record import Stage
from litemq.format.transactions import is_producers
from litemq.storage.batches.batch import Batch, sent_batch
from litemq.storage.batches.half_batches import messages_of
from litemq.storage.state import State
from litemq.storage.state.topics import HALF_TOPIC_ID
from litemq.storage.state.transactions.half_runs import HalfRun
from litemq.types import RecordKind

__all__ = ["producers_batch", "transactions_batch"]

Longs = npt.NDArray[np.int64]


def producers_batch(state: State, buffer: bytearray, topic_id: int, queue_ids: Longs, limits: RecordLimits) -> Batch:
    """Halves that producers sent to a topic, each for its queue; raises unless all of them may be appended."""
    columns = sent_batch(state, buffer, topic_id, queue_ids, limits, None).columns
    runs = queue_runs(np.full(len(columns), HALF_TOPIC_ID), queue_ids)
    return Batch(columns, runs, HALF_TOPIC_ID, queue_ids, RecordKind.HALF)


def transactions_batch(state: State, transactions: Sequence[str], read: Callable[[int, int], bytes | memoryview], held_after: int) -> Batch:
    """The messages of transactions, one behind another; those that are due later than ``held_after`` wait for their time.

    ``read`` gives the log's bytes between two offsets. Raises ``InvalidArgumentError`` where a transaction cannot be committed so, and
    ``RecordFormatError`` where a half is damaged. Called while nobody else writes.
    """
    halves = state.delivery.halves
    runs: list[HalfRun] = []
    for name in transactions:
        known = halves.get(name)
        if known is None or known.number or known.dead or known.dropped or not is_producers(name):
            raise InvalidArgumentError(f"transaction {name!r} has ended, is decided, or has lost a topic")
        runs += known.runs
    buffer = bytearray().join([read(run.first_log_offset, run.first_log_offset + run.bytes) for run in runs])
    columns = check_batch(buffer, stage=Stage.STORED, limits=STORED_LIMITS)
    if columns.header["commitlog_offset"].tolist() != [run.first_log_offset for run in runs]:
        raise InvalidArgumentError("halves do not stand where they should")
    return messages_of(columns, runs, held_after)
