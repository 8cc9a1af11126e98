"""Batches of halves of producers' transactions, many transactions in one append."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

from litemq.errors import InvalidArgumentError
from litemq.format.batches.check import check_batch
from litemq.format.batches.stamp import group_by_queue
from litemq.format.limits import STORED_LIMITS, RecordLimits
from litemq.format.record import Stage
from litemq.format.transactions import is_producer_transaction
from litemq.storage.batches.batch import Batch, sent_batch
from litemq.storage.batches.half_batches import messages_batch
from litemq.storage.state import State
from litemq.storage.state.topics import HALF_TOPIC_ID
from litemq.storage.state.transactions.transaction import HalfRun
from litemq.types import RecordKind

__all__ = ["producers_batch", "transactions_batch"]

Longs = npt.NDArray[np.int64]


def producers_batch(state: State, buffer: bytearray, topic_id: int, queue_ids: Longs, limits: RecordLimits) -> Batch:
    """Build a batch of halves that producers sent to a topic; raise unless all may be appended."""
    columns = sent_batch(state, buffer, topic_id, queue_ids, limits, None).columns
    runs = group_by_queue(np.full(len(columns), HALF_TOPIC_ID), queue_ids)
    return Batch(columns, runs, HALF_TOPIC_ID, queue_ids, RecordKind.HALF)


def transactions_batch(
    state: State, transactions: Sequence[str], read: Callable[[int, int], bytes | memoryview], held_after: int
) -> Batch:
    """Build the batch that commits ``transactions``; records due after ``held_after`` are held.

    ``read(start, end)`` returns the bytes of the log between two offsets. Raise
    ``InvalidArgumentError`` if a transaction cannot be committed in one append, and
    ``RecordFormatError`` if a half is damaged. The caller must hold the writer's lock.
    """
    halves = state.parts.halves
    runs: list[HalfRun] = []
    for name in transactions:
        known = halves.get(name)
        if known is None or known.decision_number or known.dead or known.dropped or not is_producer_transaction(name):
            raise InvalidArgumentError(f"transaction {name!r} has ended, is already decided, or its topic was deleted")
        runs += known.runs
    buffer = bytearray().join([read(run.first_log_offset, run.first_log_offset + run.bytes) for run in runs])
    columns = check_batch(buffer, stage=Stage.STORED, limits=STORED_LIMITS)
    if columns.header["commitlog_offset"].tolist() != [run.first_log_offset for run in runs]:
        raise InvalidArgumentError("the halves read from the log do not have the expected offsets")
    return messages_batch(columns, runs, held_after)
