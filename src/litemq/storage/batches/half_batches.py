"""Batches of halves: into the half topic, and from there, once decided, into their queues."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from litemq.errors import CorruptStoreError, InvalidArgumentError, SequenceGapError, TransactionRefusedError
from litemq.format.batches.scan import scan
from litemq.format.batches.stamp import group_by_queue
from litemq.format.columns.record_columns import RecordColumns
from litemq.format.columns.string_lists import all_equal
from litemq.format.limits import STORED_LIMITS, RecordLimits
from litemq.proto.control_pb2 import Control, HalvesRolledBack, HalvesSkipped, SinkCommitted, SinkWinner
from litemq.storage.batches.batch import Batch, sent_batch
from litemq.storage.state import QueueKey, State
from litemq.storage.state.topics import HALF_TOPIC_ID, TIMER_TOPIC_ID
from litemq.storage.state.transactions.transaction import HalfRun
from litemq.types import RecordKind

__all__ = [
    "DecidedHalves",
    "UpcomingHalves",
    "check_half_sequence",
    "check_upcoming",
    "committed_batch",
    "decision_controls",
    "half_batch",
    "messages_batch",
    "read_halves",
    "rollback_controls",
    "skip_control",
    "upcoming_halves",
]

Longs = npt.NDArray[np.int64]
ReadQueue = Callable[[QueueKey, int, int, int], bytes | memoryview]

_MAX_NAMES: Final = 256  # transactions in one rollback record
_MAX_HALVES: Final = 1 << 20  # halves in one append


class UpcomingHalves(NamedTuple):
    """The positions of the next halves of a decided transaction."""

    transaction: str
    runs: list[HalfRun]


class DecidedHalves(NamedTuple):
    """The next halves of a decided transaction, as stored records, with their runs."""

    transaction: str
    runs: list[HalfRun]
    records: bytes | memoryview

    @property
    def length(self) -> int:
        """The number of halves."""
        return sum(run.length for run in self.runs)

    @property
    def keys(self) -> list[QueueKey]:
        """The destinations of the halves."""
        return list({QueueKey(run.topic_id, run.queue_id): None for run in self.runs})


def half_batch(
    state: State, buffer: bytearray, topic_id: int, queue_id: int, transaction: str, limits: RecordLimits
) -> Batch:
    """Build a batch of a sink's halves for one queue; raise unless all of them may be appended."""
    columns = sent_batch(state, buffer, topic_id, queue_id, limits, None).columns
    names = columns.part("transaction_id")
    at, length = int(names.positions[0]), int(names.lengths[0])
    if bytes(columns.buffer[at : at + length]) != transaction.encode() or not all_equal(columns.data, names):
        raise InvalidArgumentError(f"a record in the batch is not of transaction {transaction!r}")
    return Batch(columns, None, HALF_TOPIC_ID, queue_id, RecordKind.HALF)


def check_half_sequence(state: State, transaction: str, key: QueueKey, first: int) -> None:
    """Raise unless ``transaction`` is open and has exactly ``first`` halves for the queue.

    Raise ``TransactionRefusedError`` if it was rolled back or decided, ``SequenceGapError`` if the
    number differs.
    """
    halves = state.parts.halves
    sent, known = halves.sent(transaction, key), halves.get(transaction)
    if first and known is None:
        raise TransactionRefusedError(
            f"transaction {transaction!r} was rolled back after {first} records: the batch was aborted, was not "
            "decided in time, or was dropped by retention. Write it again, as another attempt"
        )
    if sent != first:
        raise SequenceGapError(
            f"record {first} of transaction {transaction!r} for queue {key.queue_id}: send record {sent} next",
            sent,
        )
    if known is not None and known.decision_number:
        raise TransactionRefusedError(f"transaction {transaction!r} is already decided and takes no more records")


def decision_controls(
    state: State, query: str, batch: int, winners: Mapping[tuple[int, int], str], plan: bytes = b""
) -> list[Control]:
    """Build the control records that decide a batch.

    They commit ``winners``, the transactions by partition and attempt, and roll back all other
    transactions of the query up to the batch.
    """
    halves = state.parts.halves
    found = [
        (known.first_log_offset, who, known) for who, name in winners.items() if (known := halves.get(name)) is not None
    ]
    found.sort(key=lambda each: each[0])
    decision = SinkCommitted(query=query, batch=batch, plan=plan, dropped=sum(known.dropped for _, _, known in found))
    decision.winners.extend([SinkWinner(partition=partition, attempt=attempt) for _, (partition, attempt), _ in found])
    names = set(winners.values())
    losers = [name for name in halves.undecided(query, batch) if name not in names]
    rollbacks = rollback_controls(losers, f"batch {batch} of {query!r} is committed without them")
    return [*rollbacks, Control(sink_committed=decision)]


def rollback_controls(transactions: list[str], reason: str) -> list[Control]:
    """Build the control records that roll back ``transactions``, a limited number in each."""
    parts = [transactions[at : at + _MAX_NAMES] for at in range(0, len(transactions), _MAX_NAMES)]
    return [Control(halves_rolled_back=HalvesRolledBack(transactions=part, reason=reason)) for part in parts]


def upcoming_halves(state: State, max_bytes: int) -> UpcomingHalves | None:
    """Return about ``max_bytes`` of the next decided halves. The caller holds the writer's lock."""
    halves = state.parts.halves
    name = halves.first_decided
    known = None if name is None else halves.get(name)
    return None if name is None or known is None else UpcomingHalves(name, known.upcoming(_MAX_HALVES, max_bytes))


def read_halves(upcoming: UpcomingHalves, read: ReadQueue) -> DecidedHalves | None:
    """Read the halves up to the first damaged one; ``None`` if they are not confirmed yet.

    Raise ``CorruptStoreError`` if the first half is damaged.
    """
    runs: list[HalfRun] = []
    pieces: list[bytes | memoryview] = []
    for run in upcoming.runs:
        try:
            records = read(QueueKey(HALF_TOPIC_ID, run.queue_id), run.first_half_offset, run.length, 1 << 62)
        except CorruptStoreError:
            if not runs:
                raise
            break
        length = scan(records, limits=STORED_LIMITS).starts.size
        if length:
            runs.append(run if length == run.length else run.part(0, length))
            pieces.append(records)
        if length < run.length:
            break
    if not runs:
        return None
    return DecidedHalves(upcoming.transaction, runs, pieces[0] if len(pieces) == 1 else b"".join(pieces))


def skip_control(upcoming: UpcomingHalves, reason: str) -> Control:
    """Build the control record that skips the first of ``upcoming``, because it is damaged."""
    return Control(halves_skipped=HalvesSkipped(transaction=upcoming.transaction, count=1, reason=reason))


def check_upcoming(state: State, decided: DecidedHalves) -> None:
    """Raise unless ``decided`` are still the next halves to copy, so that none is copied twice."""
    known = state.parts.halves.get(decided.transaction)
    upcoming = [] if known is None or not known.decision_number else known.upcoming(decided.length)
    if [run[:2] + run[4:6] for run in upcoming] != [run[:2] + run[4:6] for run in decided.runs]:
        raise InvalidArgumentError(
            f"the halves of transaction {decided.transaction!r} were copied already, or their topic was deleted"
        )


def committed_batch(decided: DecidedHalves, held_after: int) -> Batch:
    """Build the batch that copies ``decided``; records due after ``held_after`` are held."""
    # No check: the records were checked when sent, and their checksums when read.
    buffer = bytearray(decided.records)
    return messages_batch(RecordColumns(buffer, scan(buffer, limits=STORED_LIMITS).starts), decided.runs, held_after)


def messages_batch(columns: RecordColumns, runs: Sequence[HalfRun], held_after: int) -> Batch:
    """Build the messages of stored halves, which form ``runs``."""
    header = columns.header
    origins = header["commitlog_offset"].astype(np.int64)
    held = header["delay_time"] > held_after
    if len(runs) == 1 and not held.any():
        run = runs[0]
        return Batch(columns, None, run.topic_id, run.queue_id, RecordKind.COMMITTED, origins)
    counts = [run.length for run in runs]
    topic_ids, queue_ids = (np.repeat([run[part] for run in runs], counts) for part in (0, 1))
    topic_ids = np.where(held, TIMER_TOPIC_ID, topic_ids)
    kinds = np.where(held, int(RecordKind.PENDING), int(RecordKind.COMMITTED))
    return Batch(columns, group_by_queue(topic_ids, queue_ids), topic_ids, queue_ids, kinds, origins)
