"""Halves on their way: into the half topic, and from there, once they are decided, into the queues that they are meant for."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from litemq.errors import CorruptStoreError, InvalidArgumentError, SequenceGapError, TransactionRefusedError
from litemq.format.batches.scan import scan
from litemq.format.batches.stamp import queue_runs
from litemq.format.columns.record_columns import RecordColumns
from litemq.format.columns.string_lists import all_alike
from litemq.format.limits import STORED_LIMITS, RecordLimits
from litemq.proto.control_pb2 import Control, HalvesRolledBack, HalvesSkipped, SinkCommitted, SinkWinner
from litemq.storage.batches.batch import Batch, sent_batch
from litemq.storage.state import QueueKey, State
from litemq.storage.state.topics import HALF_TOPIC_ID, TIMER_TOPIC_ID
from litemq.storage.state.transactions.half_runs import HalfRun
from litemq.types import RecordKind

__all__ = [
    "DecidedHalves",
    "Upcoming",
    "check_first",
    "check_upcoming",
    "committed_batch",
    "decision_of",
    "half_batch",
    "messages_of",
    "read_halves",
    "rollbacks_of",
    "skip_of",
    "upcoming_halves",
]

Longs = npt.NDArray[np.int64]
ReadQueue = Callable[[QueueKey, int, int, int], bytes | memoryview]

_MOST_NAMES: Final = 256  # of transactions, in one record
_MOST_HALVES: Final = 1 << 20  # of one append


class Upcoming(NamedTuple):
    """Where the next halves of a decided transaction stand."""

    transaction: str
    runs: list[HalfRun]


class DecidedHalves(NamedTuple):
    """The next halves of a decided transaction, as they are stored, and the runs that they are."""

    transaction: str
    runs: list[HalfRun]
    records: bytes | memoryview

    @property
    def length(self) -> int:
        """How many they are."""
        return sum(run.length for run in self.runs)

    @property
    def keys(self) -> list[QueueKey]:
        """The queues that they are meant for."""
        return list({QueueKey(run.topic_id, run.queue_id): None for run in self.runs})


def half_batch(state: State, buffer: bytearray, topic_id: int, queue_id: int, transaction: str, limits: RecordLimits) -> Batch:
    """Halves that a producer sent for one queue; raises unless all of them may be appended."""
    columns = sent_batch(state, buffer, topic_id, queue_id, limits, None).columns
    names = columns.part("transaction_id")
    at, length = int(names.positions[0]), int(names.lengths[0])
    if bytes(columns.buffer[at : at + length]) != transaction.encode() or not all_alike(columns.data, names):
        raise InvalidArgumentError(f"a record in the batch is not of transaction {transaction!r}")
    return Batch(columns, None, HALF_TOPIC_ID, queue_id, RecordKind.HALF)


def check_first(state: State, transaction: str, key: QueueKey, first: int) -> None:
    """Raises unless so many halves of a transaction are there for a queue, and it takes more."""
    halves = state.delivery.halves
    sent, known = halves.sent(transaction, key), halves.get(transaction)
    if first and known is None:
        raise TransactionRefusedError(
            f"transaction {transaction!r} has no records here, though {first} were sent before: they were rolled back, because the batch was "
            f"aborted, nobody decided it in time, or retention took them. Write it anew, as another try"
        )
    if sent != first:
        raise SequenceGapError(f"record {first} of transaction {transaction!r} for queue {key.queue_id}: {sent} is the next", sent)
    if known is not None and known.number:
        raise TransactionRefusedError(f"transaction {transaction!r} is decided, and takes no more records")


def decision_of(state: State, query: str, batch: int, winners: Mapping[tuple[int, int], str], plan: bytes = b"") -> list[Control]:
    """The records that decide a batch: those that count are named by partition and attempt, all else of the query up to the batch goes."""
    halves = state.delivery.halves
    found = [(known.first_log_offset, who, known) for who, name in winners.items() if (known := halves.get(name)) is not None]
    found.sort(key=lambda each: each[0])
    decision = SinkCommitted(query=query, batch=batch, plan=plan, dropped=sum(known.dropped for _, _, known in found))
    decision.winners.extend([SinkWinner(partition=partition, attempt=attempt) for _, (partition, attempt), _ in found])
    names = set(winners.values())
    losers = [name for name in halves.undecided(query, batch) if name not in names]
    return [*rollbacks_of(losers, f"batch {batch} of {query!r} is committed without them"), Control(sink_committed=decision)]


def rollbacks_of(transactions: list[str], reason: str) -> list[Control]:
    """The records that say that nobody will see the halves of some transactions; none is too large."""
    parts = [transactions[at : at + _MOST_NAMES] for at in range(0, len(transactions), _MOST_NAMES)]
    return [Control(halves_rolled_back=HalvesRolledBack(transactions=part, reason=reason)) for part in parts]


def upcoming_halves(state: State, most_bytes: int) -> Upcoming | None:
    """About so many bytes of the next halves that are decided. Called while nobody else writes."""
    halves = state.delivery.halves
    name = halves.first_decided
    known = None if name is None else halves.get(name)
    return None if name is None or known is None else Upcoming(name, known.upcoming(_MOST_HALVES, most_bytes))


def read_halves(upcoming: Upcoming, read: ReadQueue) -> DecidedHalves | None:
    """Halves as they are stored; those before one that is damaged come without it. ``None``: they are not safe yet.

    Raises ``CorruptStoreError`` where the first of them is damaged.
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
    return DecidedHalves(upcoming.transaction, runs, pieces[0] if len(pieces) == 1 else b"".join(pieces)) if runs else None


def skip_of(upcoming: Upcoming, reason: str) -> Control:
    """The record that says that the first of some halves is left out, because it is damaged."""
    return Control(halves_skipped=HalvesSkipped(transaction=upcoming.transaction, count=1, reason=reason))


def check_upcoming(state: State, decided: DecidedHalves) -> None:
    """Raises unless these are still the next halves of their transaction: no half becomes a message twice."""
    known = state.delivery.halves.get(decided.transaction)
    upcoming = [] if known is None or not known.number else known.upcoming(decided.length)
    if [run[:2] + run[4:6] for run in upcoming] != [run[:2] + run[4:6] for run in decided.runs]:
        raise InvalidArgumentError(f"these halves of transaction {decided.transaction!r} were copied before, or have no topic any more")


def committed_batch(decided: DecidedHalves, held_after: int) -> Batch:
    """The messages that halves become; those that are due later than ``held_after`` wait for their time."""
    # They were checked when they were sent, and their checksums when they were read: only the broker's fields are new.
    buffer = bytearray(decided.records)
    return messages_of(RecordColumns(buffer, scan(buffer, limits=STORED_LIMITS).starts), decided.runs, held_after)


def messages_of(columns: RecordColumns, runs: Sequence[HalfRun], held_after: int) -> Batch:
    """Stored halves, which are these runs, as the messages that they become."""
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
    return Batch(columns, queue_runs(topic_ids, queue_ids), topic_ids, queue_ids, kinds, origins)
