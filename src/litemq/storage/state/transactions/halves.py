"""Halves, a part of the state: records that become messages once their transaction is decided.

A half is stored in the half topic, in the queue with the id of its destination. The state of a
transaction is the positions of its halves, in runs: thousands of records that were sent together
are one run. Once the transaction is decided, the store appends copies to the destinations, in the
order of the halves, each with the half as its origin. A copy ends its half. A transaction that is
copied or rolled back is forgotten.

A sink's transactions are decided by one record for a whole batch. A producer's transaction is
decided by the first of its halves that is copied or dead-lettered: for a single message, decision
and copy are the same record. Its outcome is kept for a while.
"""

from __future__ import annotations

from collections.abc import Iterator

from litemq.format.transactions import is_producer_transaction
from litemq.proto.control_pb2 import Control, Row
from litemq.storage.state.part import Touch
from litemq.storage.state.topics import QueueKey
from litemq.storage.state.transactions.half_events import HalfDied, HalfEvent, HalfMoved, HalvesCopied
from litemq.storage.state.transactions.half_rows import PAGE, add_runs, halves_row, transaction_from_row
from litemq.storage.state.transactions.outcomes import Outcome, Outcomes
from litemq.storage.state.transactions.transaction import HalfRun, Transaction

__all__ = ["Halves", "sink_transaction"]


def sink_transaction(query: str, batch: int, partition: int, attempt: int) -> str:
    """Return the transaction name of one attempt of a sink's task."""
    return f"{query}/{batch}/{partition}/{attempt}"


def _query_batch(transaction: str) -> tuple[str, int] | None:
    """Return the query and the batch of a sink's transaction, or ``None`` for any other."""
    parts = transaction.rsplit("/", 3)
    return (parts[0], int(parts[1])) if len(parts) == 4 and parts[1].isdecimal() else None


class Halves:
    """All open transactions.

    The event loop reads them while retention may change them on another thread.
    """

    def __init__(self) -> None:
        self._transactions: dict[str, Transaction] = {}
        self._queries: dict[str, dict[int, dict[str, None]]] = {}  # query -> batch -> transactions
        self._decided: dict[int, str] = {}  # by number
        self.outcomes = Outcomes()  # of producers' transactions
        self.bytes = 0
        self.runs = 0

    def __len__(self) -> int:
        return len(self._transactions)

    def names(self) -> tuple[str, ...]:
        """Return the names of all open transactions."""
        return tuple(self._transactions)

    def get(self, transaction: str) -> Transaction | None:
        """Return an open transaction, or ``None``."""
        return self._transactions.get(transaction)

    def sent(self, transaction: str, key: QueueKey) -> int:
        """Return the number of halves that a transaction has for a queue."""
        known = self._transactions.get(transaction)
        return 0 if known is None else known.sent.get(key, 0)

    @property
    def first_decided(self) -> str | None:
        """The transaction to copy next."""
        numbers = tuple(self._decided)
        return self._decided.get(min(numbers)) if numbers else None

    def decided_queues(self) -> list[QueueKey]:
        """Return the destinations of all decided halves."""
        decided = [self._transactions.get(name) for name in tuple(self._decided.values())]
        return list({key: None for known in decided if known is not None for key in known.sent})

    def query_transactions(self, query: str) -> Iterator[tuple[int, str, Transaction]]:
        """Yield the transactions of a query as (batch, name, transaction)."""
        for batch, transactions in tuple(self._queries.get(query, {}).items()):
            for transaction in tuple(transactions):
                known = self._transactions.get(transaction)
                if known is not None:
                    yield batch, transaction, known

    def batches(self) -> Iterator[tuple[str, int]]:
        """Yield the (query, batch) of every batch with halves, decided or not."""
        for query, batches in self._queries.items():
            for batch in batches:
                yield query, batch

    def undecided(self, query: str, through: int, first: int = 0) -> list[str]:
        """Return the undecided transactions of a query's batches ``first`` to ``through``."""
        return [
            name
            for batch, name, known in self.query_transactions(query)
            if first <= batch <= through and not known.decision_number
        ]

    def undecided_before(self, log_offset: int) -> list[str]:
        """Return the undecided transactions of sinks with halves before ``log_offset``."""
        undecided = [(name, known) for name, known in self._transactions.items() if not known.decision_number]
        sinks = [(name, known) for name, known in undecided if not is_producer_transaction(name)]
        return [name for name, known in sinks if known.first_log_offset < log_offset]

    def producers_before(self, log_offset: int) -> list[tuple[str, HalfRun]]:
        """Return the undecided halves of producers' transactions before ``log_offset``."""
        undecided = [(name, known) for name, known in self._transactions.items() if not known.decision_number]
        producers = [(name, known) for name, known in undecided if is_producer_transaction(name)]
        found = [(name, run) for name, known in producers for run in known.left if run.first_log_offset < log_offset]
        return sorted(found, key=lambda each: each[1].first_log_offset)

    def is_at(self, transaction: str, log_offset: int) -> bool:
        """Return whether an undecided half of a producer's transaction is at ``log_offset``."""
        known = self._transactions.get(transaction)
        return (
            known is not None
            and not known.decision_number
            and any(run.first_log_offset == log_offset for run in known.left)
        )

    def is_copied_before(self, log_offset: int) -> bool:
        """Return whether all decided halves before ``log_offset`` are copied."""
        return all(self._transactions[name].first_log_offset >= log_offset for name in self._decided.values())

    def holds(self, transaction: str, origin: int) -> bool:
        """Return whether a pending record with this ``origin`` is the copy of a half.

        A carried copy of that copy has an origin after all halves.
        """
        known = self._transactions.get(transaction)
        if known is None or (not known.decision_number and (known.dead or not is_producer_transaction(transaction))):
            return False
        return origin <= known.last_log_offset

    # Events ---------------------------------------------------------------------------------------

    def apply_event(self, event: HalfEvent) -> list[Touch]:
        """Apply new, copied, carried or dead halves and return the rows this touches."""
        if isinstance(event, HalvesCopied):
            return self._copied(event.transaction, event.length)
        if isinstance(event, HalfMoved):
            return self._moved(event)
        if isinstance(event, HalfDied):
            return self._died(event.transaction)
        known = self._transactions.get(event.transaction)
        apart = is_producer_transaction(event.transaction)
        if known is None:
            known = Transaction()
            self._put(event.transaction, known)
            if apart:
                known.first_at = event.store_timestamp
                known.check_after_ms, known.max_checks = event.check_after_ms, event.max_checks
        known.latest_at = event.store_timestamp
        before = len(known.runs)
        number = known.add(HalfRun(*event[2:9]), apart=apart)
        self.bytes += event.bytes
        self.runs += len(known.runs) - before
        return self._pages(event.transaction, {0, number})

    def apply(self, control: Control) -> list[Touch]:
        """Apply ``control`` and return the rows it touches."""
        match control.WhichOneof("change"):
            case "sink_committed":
                decision = control.sink_committed
                winners = [
                    sink_transaction(decision.query, decision.batch, winner.partition, winner.attempt)
                    for winner in decision.winners
                ]
                return self._decide(winners, self.undecided(decision.query, decision.batch))
            case "halves_rolled_back":
                return [touch for name in control.halves_rolled_back.transactions for touch in self._roll_back(name)]
            case "halves_skipped":
                return self._advance(control.halves_skipped.transaction, control.halves_skipped.count)
            case "transactions_decided":
                names = control.transactions_decided.transactions
                return self._decide([name for name in names if is_producer_transaction(name)], [])
            case "transactions_checked":
                return self._check(control)
            case "topic_deleted":
                # Sorted, because the outcomes are kept in the order in which the transactions end.
                topic_id = control.topic_deleted.topic_id
                return [touch for name in sorted(self._transactions) for touch in self._drop_topic(name, topic_id)]
            case _:
                return []

    def _decide(self, winners: list[str], undecided: list[str]) -> list[Touch]:
        touched: list[Touch] = []
        number = max(self._decided, default=0)
        for name in set(undecided) - set(winners):
            touched += self._roll_back(name)
        for name in winners:
            known = self._transactions.get(name)
            if known is not None and not known.decision_number and not known.dead:
                number += 1
                known.decision_number = number
                self._decided[number] = name
                touched += self._advance(name, 0)
        return touched

    def _advance(self, name: str, count: int) -> list[Touch]:
        known = self._transactions.get(name)
        if known is None or not known.decision_number:
            return []
        return self._end(name, Outcome.COMMITTED) if known.advance(count) else [("halves", name, 0)]

    def _copied(self, name: str, count: int) -> list[Touch]:
        known = self._transactions.get(name)
        if known is not None and not known.decision_number and not known.dead and is_producer_transaction(name):
            # The first copy is the decision. If there is only one half, the transaction ends.
            if known.advance(count):
                return self._end(name, Outcome.COMMITTED)
            known.decision_number = max(self._decided, default=0) + 1
            self._decided[known.decision_number] = name
            return [("halves", name, 0)]
        return self._advance(name, count)

    def _died(self, name: str) -> list[Touch]:
        known = self._transactions.get(name)
        if known is None or known.decision_number or not is_producer_transaction(name):
            return []
        known.dead = True
        return self._end(name, Outcome.DEAD) if known.advance(1) else [("halves", name, 0)]

    def _moved(self, event: HalfMoved) -> list[Touch]:
        known = self._transactions.get(event.transaction)
        number = None if known is None else known.move(event.origin, event.log_offset, event.half_offset)
        return [] if number is None else self._pages(event.transaction, {number})

    def _check(self, control: Control) -> list[Touch]:
        touched: list[Touch] = []
        for check in control.transactions_checked.checks:
            known = self._transactions.get(check.transaction)
            if known is not None and not known.decision_number and is_producer_transaction(check.transaction):
                known.record_check(control.transactions_checked.at, check.asked, check.before, unknown=check.unknown)
                touched.append(("halves", check.transaction, 0))
        return touched

    def _roll_back(self, name: str) -> list[Touch]:
        known = self._transactions.get(name)
        if known is None or known.decision_number:
            return []
        return self._end(name, Outcome.DEAD if known.dead else Outcome.ROLLED_BACK)

    def _drop_topic(self, name: str, topic_id: int) -> list[Touch]:
        known = self._transactions[name]
        changed = known.drop_topic(topic_id)
        if not changed:
            return []
        touched = self._pages(name, changed)
        if known.decision_number:
            return touched + self._advance(name, 0)
        if not is_producer_transaction(name):
            return touched
        if known.dead:
            return touched + (self._end(name, Outcome.DEAD) if known.advance(0) else [("halves", name, 0)])
        return touched if known.left else touched + self._end(name, Outcome.ROLLED_BACK)

    def _put(self, name: str, known: Transaction) -> None:
        self._transactions[name] = known
        query_batch = None if is_producer_transaction(name) else _query_batch(name)
        if query_batch is not None:
            query, batch = query_batch
            self._queries.setdefault(query, {}).setdefault(batch, {})[name] = None

    def _end(self, name: str, outcome: Outcome) -> list[Touch]:
        known = self._transactions.pop(name)
        self._decided.pop(known.decision_number, None)
        self.bytes -= known.bytes
        self.runs -= len(known.runs)
        touched = self._pages(name, set(range(0, len(known.runs), PAGE)))
        if is_producer_transaction(name):
            return touched + self.outcomes.add(name, outcome)
        query_batch = _query_batch(name)
        if query_batch is not None:
            query, batch = query_batch
            batches = self._queries[query]
            del batches[batch][name]
            if not batches[batch]:
                del batches[batch]
            if not batches:
                del self._queries[query]
        return touched

    @staticmethod
    def _pages(name: str, runs: set[int]) -> list[Touch]:
        if max(runs) < PAGE:
            return [("halves", name, 0)]
        return [("halves", name, page) for page in sorted({run // PAGE for run in runs})]

    # Rows -----------------------------------------------------------------------------------------

    def row(self, touch: Touch) -> Row | None:
        """Return the row that ``touch`` names, or ``None`` if it belongs to another part."""
        match touch:
            case ("halves", str(name), int(page)):
                return halves_row(name, self._transactions.get(name), page)
            case _:
                return self.outcomes.row(touch)

    def rows(self) -> Iterator[Row]:
        """Yield every row, in a fixed order."""
        for name in sorted(self._transactions):
            for page in range(-(-len(self._transactions[name].runs) // PAGE)):
                yield halves_row(name, self._transactions[name], page)
        yield from self.outcomes.rows()

    def put(self, row: Row) -> bool:
        """Load ``row`` from a snapshot; return False if it belongs to another part.

        The pages of a transaction must come in order.
        """
        if not row.HasField("halves"):
            return self.outcomes.put(row)
        page = row.halves
        known = self._transactions.get(page.transaction)
        if known is None:
            known = transaction_from_row(page)
            self._put(page.transaction, known)
            if known.decision_number:
                self._decided[known.decision_number] = page.transaction
        self.bytes += add_runs(known, page)
        self.runs += len(page.runs)
        return True

    def copy(self) -> Halves:
        """Return an independent copy."""
        other = Halves()
        for name, known in self._transactions.items():
            other._put(name, known.copy())
        other._decided, other.bytes, other.runs = dict(self._decided), self.bytes, self.runs
        other.outcomes = self.outcomes.copy()
        return other
