"""Conversion of a transaction's halves to the rows of a snapshot, and back."""

from __future__ import annotations

from typing import Final

from litemq.format.transactions import is_producer_transaction
from litemq.proto.control_pb2 import HalfRun as HalfRunRow
from litemq.proto.control_pb2 import HalvesRow, Row, TransactionCheckRow
from litemq.storage.state.topics import QueueKey
from litemq.storage.state.transactions.transaction import DELETED, CheckRound, HalfRun, Transaction

__all__ = ["PAGE", "add_runs", "halves_row", "transaction_from_row"]

PAGE: Final = 256  # runs in one row


def halves_row(name: str, known: Transaction | None, page: int) -> Row:
    """Return the row of one page; page 0 also has the fields of the whole transaction."""
    if known is None:
        return Row(halves=HalvesRow(transaction=name, page=page, gone=True))
    row = HalvesRow(transaction=name, page=page)
    if page == 0:
        row.latest_at, row.number, row.copied = known.latest_at, known.decision_number, known.copied
        row.first_at, row.check_after_ms, row.max_checks = known.first_at, known.check_after_ms, known.max_checks
        row.checks, row.dead = known.checks, known.dead
        row.story.extend(
            [TransactionCheckRow(at=at, asked=asked, unknown=unknown) for at, asked, unknown in known.history]
        )
    row.runs.extend([HalfRunRow(**run._asdict()) for run in known.runs[page * PAGE : (page + 1) * PAGE]])
    return Row(halves=row)


def transaction_from_row(row: HalvesRow) -> Transaction:
    """Return the transaction of a first page, without its runs."""
    known = Transaction()
    known.latest_at, known.decision_number, known.copied = row.latest_at, row.number, row.copied
    known.first_at, known.check_after_ms, known.max_checks = row.first_at, row.check_after_ms, row.max_checks
    known.checks, known.dead = row.checks, row.dead
    known.history = tuple(CheckRound(each.at, each.asked, each.unknown) for each in row.story)
    return known


def add_runs(known: Transaction, row: HalvesRow) -> int:
    """Add the runs of a page to a transaction; return their size in bytes."""
    before = known.bytes
    for run in row.runs:
        known.runs.append(HalfRun(*(getattr(run, name) for name in HalfRun._fields)))
        known.count += run.length
        known.bytes += run.bytes
        if run.topic_id != DELETED:
            key = QueueKey(run.topic_id, run.queue_id)
            known.sent[key] = known.sent.get(key, 0) + run.length
    if known.decision_number or known.dead:
        known.locate_next()
    if is_producer_transaction(row.transaction):
        known.detect_moved()
    return known.bytes - before
