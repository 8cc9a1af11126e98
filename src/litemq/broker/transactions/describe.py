"""Describes transactions: their state, and the history of checks."""

from __future__ import annotations

from typing import Final

from litemq.broker.transactions.check_schedule import CheckSchedule
from litemq.format.transactions import is_producer_transaction, transaction_group
from litemq.proto.wire_pb2 import (
    TX_COMMITTED,
    TX_DEAD,
    TX_NOT_KNOWN,
    TX_ROLLED_BACK,
    TX_UNDECIDED,
    TransactionCheckFacts,
    TransactionFacts,
    TransactionState,
)
from litemq.storage.state.transactions.halves import Halves
from litemq.storage.state.transactions.outcomes import Outcome
from litemq.storage.state.transactions.transaction import Transaction

__all__ = ["describe_transaction", "transaction_state"]

_STATES: Final = {Outcome.COMMITTED: TX_COMMITTED, Outcome.ROLLED_BACK: TX_ROLLED_BACK, Outcome.DEAD: TX_DEAD}


def describe_transaction(halves: Halves, transaction: str, schedule: CheckSchedule) -> TransactionFacts:
    """Return the facts of ``transaction`` for the wire; of an ended one, its state only."""
    facts = TransactionFacts(
        transaction=transaction, group=transaction_group(transaction), is_sink=not is_producer_transaction(transaction)
    )
    known: Transaction | None = halves.get(transaction)
    facts.state = transaction_state(halves, transaction)
    if known is None:
        return facts
    facts.records, facts.bytes, facts.checks = known.count, known.bytes, known.checks
    facts.stored_at = known.first_at or known.latest_at
    facts.topics.extend([topic.name for topic in schedule.topics(known)])
    facts.story.extend(
        [TransactionCheckFacts(at=at, asked=asked, unknown=unknown) for at, asked, unknown in known.history]
    )
    if facts.state == TX_UNDECIDED and not facts.is_sink:
        facts.next_check_at = schedule.next_at(known)
    return facts


def transaction_state(halves: Halves, transaction: str) -> TransactionState:
    """Return the state of ``transaction`` for the wire."""
    known = halves.get(transaction)
    if known is None:
        outcome = halves.outcomes.get(transaction)
        return TX_NOT_KNOWN if outcome is None else _STATES[outcome]
    return TX_COMMITTED if known.decision_number else TX_DEAD if known.dead else TX_UNDECIDED
