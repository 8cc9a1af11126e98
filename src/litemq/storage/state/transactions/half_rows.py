"""A transaction's halves as the rows of a snapshot, and back."""

from __future__ import annotations

from typing import Final

from litemq.format.transactions import is_producers
from litemq.proto.control_pb2 import HalfRun as HalfRunRow
from litemq.proto.control_pb2 import HalvesRow, Row, TransactionCheckRow
from litemq.storage.state.topics import QueueKey
from litemq.storage.state.transactions.half_runs import DELETED, CheckRound, HalfRun, Transaction

__all__ = ["PAGE", "add_runs", "row_of", "transaction_of"]

PAGE: Final = 256  # runs of which one row tells


def row_of(name: str, known: Transaction | None, page: int) -> Row:
    """One page of what is known of a transaction; what is true of all of it stands in the first."""
    if known is None:
        return Row(halves=HalvesRow(transaction=name, page=page, gone=True))
    row = HalvesRow(transaction=name, page=page)
    if page == 0:
        row.latest_at, row.number, row.copied = known.latest_at, known.number, known.copied
        row.first_at, row.check_after_ms, row.max_checks = known.first_at, known.check_after_ms, known.max_checks
        row.checks, row.dead = known.checks, known.dead
        row.story.extend([TransactionCheckRow(at=at, asked=asked, unknown=unknown) for at, asked, unknown in known.story])
    row.runs.extend([HalfRunRow(**run._asdict()) for run in known.runs[page * PAGE : (page + 1) * PAGE]])
    return Row(halves=row)


def transaction_of(told: HalvesRow) -> Transaction:
    """A transaction of which its first page tells, still without its runs."""
    known = Transaction()
    known.latest_at, known.number, known.copied = told.latest_at, told.number, told.copied
    known.first_at, known.check_after_ms, known.max_checks = told.first_at, told.check_after_ms, told.max_checks
    known.checks, known.dead = told.checks, told.dead
    known.story = tuple(CheckRound(each.at, each.asked, each.unknown) for each in told.story)
    return known


def add_runs(known: Transaction, told: HalvesRow) -> int:
    """Add the runs of a page to a transaction; returns how many bytes they have."""
    before = known.bytes
    for run in told.runs:
        known.runs.append(HalfRun(*(getattr(run, name) for name in HalfRun._fields)))
        known.count += run.length
        known.bytes += run.bytes
        if run.topic_id != DELETED:
            key = QueueKey(run.topic_id, run.queue_id)
            known.sent[key] = known.sent.get(key, 0) + run.length
    if known.number or known.dead:
        known.find_place()
    if is_producers(told.transaction):
        known.find_moved()
    return known.bytes - before
