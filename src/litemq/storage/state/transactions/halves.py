"""Halves: records that nobody sees until their transaction is decided, and then become messages.

They stand in the half topic, in the queue with the number of the one that they are meant for. What is known of a transaction is where its
halves stand, in runs: thousands of records that were sent together are one. Once it is decided, copies with the halves as their origins are
appended to the queues that they are meant for, in the order of the halves; a copy ends the half, so that how many copies there are says how far
that has come. A transaction that is copied or rolled back is forgotten.

Jobs have their transactions decided by a record for a whole batch. A producer's is decided by the first of its halves that is copied, or goes to
the dead letters: for what is one message, decision and copy are one record. What became of it is remembered for a while.
"""

from __future__ import annotations

from collections.abc import Iterator

from litemq.format.transactions import is_producers
from litemq.proto.control_pb2 import Control, Row
from litemq.storage.state.part import Touch
from litemq.storage.state.topics import QueueKey
from litemq.storage.state.transactions.half_rows import PAGE, add_runs, row_of, transaction_of
from litemq.storage.state.transactions.half_runs import HalfDied, HalfEvent, HalfMoved, HalfRun, HalvesCopied, Transaction
from litemq.storage.state.transactions.outcomes import Outcome, Outcomes

__all__ = ["Halves", "sink_transaction"]


def sink_transaction(query: str, batch: int, partition: int, attempt: int) -> str:
    """The transaction of one try of a task, as its records have it."""
    return f"{query}/{batch}/{partition}/{attempt}"


def _batch_of(transaction: str) -> tuple[str, int] | None:
    """The query and the batch that a transaction is of, if it is one of a sink."""
    parts = transaction.rsplit("/", 3)
    return (parts[0], int(parts[1])) if len(parts) == 4 and parts[1].isdecimal() else None


class Halves:
    """All transactions that have not ended. Changed by records alone; the event loop looks into it while retention may change it."""

    def __init__(self) -> None:
        self._of: dict[str, Transaction] = {}
        self._of_queries: dict[str, dict[int, dict[str, None]]] = {}  # query -> batch -> transactions
        self._decided: dict[int, str] = {}  # by number
        self.outcomes = Outcomes()  # of producers' transactions
        self.bytes = 0
        self.runs = 0

    def __len__(self) -> int:
        return len(self._of)

    def names(self) -> tuple[str, ...]:
        """All that have not ended."""
        return tuple(self._of)

    def get(self, transaction: str) -> Transaction | None:
        """A transaction that has not ended, and has halves here."""
        return self._of.get(transaction)

    def sent(self, transaction: str, key: QueueKey) -> int:
        """How many halves of a transaction are meant for a queue."""
        known = self._of.get(transaction)
        return 0 if known is None else known.sent.get(key, 0)

    @property
    def first_decided(self) -> str | None:
        """The transaction that is copied next."""
        numbers = tuple(self._decided)
        return self._decided.get(min(numbers)) if numbers else None

    def decided_queues(self) -> list[QueueKey]:
        """The queues that decided halves are meant for."""
        decided = [self._of.get(name) for name in tuple(self._decided.values())]
        return list({key: None for known in decided if known is not None for key in known.sent})

    def of_query(self, query: str) -> Iterator[tuple[int, str, Transaction]]:
        """The transactions of a query, with their batches."""
        for batch, transactions in tuple(self._of_queries.get(query, {}).items()):
            for transaction in tuple(transactions):
                known = self._of.get(transaction)
                if known is not None:
                    yield batch, transaction, known

    def batches(self) -> Iterator[tuple[str, int]]:
        """The batches of which there are halves, decided or not."""
        for query, batches in self._of_queries.items():
            for batch in batches:
                yield query, batch

    def undecided(self, query: str, through: int, first: int = 0) -> list[str]:
        """The transactions of a query's batches ``first`` to ``through`` that are not decided."""
        return [name for batch, name, known in self.of_query(query) if first <= batch <= through and not known.number]

    def undecided_before(self, log_offset: int) -> list[str]:
        """The transactions of jobs that are not decided, and have halves before a log offset."""
        waiting = [(name, known) for name, known in self._of.items() if not known.number and not is_producers(name)]
        return [name for name, known in waiting if known.first_log_offset < log_offset]

    def producers_before(self, log_offset: int) -> list[tuple[str, HalfRun]]:
        """The halves of producers' transactions that are not decided, and stand before a log offset."""
        waiting = [(name, known) for name, known in self._of.items() if not known.number and is_producers(name)]
        found = [(name, run) for name, known in waiting for run in known.left if run.first_log_offset < log_offset]
        return sorted(found, key=lambda each: each[1].first_log_offset)

    def is_at(self, transaction: str, log_offset: int) -> bool:
        """Whether a half of a producer's transaction that is not decided stands at a log offset."""
        known = self._of.get(transaction)
        return known is not None and not known.number and any(run.first_log_offset == log_offset for run in known.left)

    def is_copied_before(self, log_offset: int) -> bool:
        """Whether all decided halves before a log offset are copied."""
        return all(self._of[name].first_log_offset >= log_offset for name in self._decided.values())

    def holds(self, transaction: str, origin: int) -> bool:
        """Whether a record that waits for its time is the copy of a half at ``origin``: a copy of that copy has an origin behind all halves."""
        known = self._of.get(transaction)
        if known is None or (not known.number and (known.dead or not is_producers(transaction))):
            return False
        return origin <= known.last_log_offset

    # What records say ---------------------------------------------------------------------------------------------------------

    def take(self, event: HalfEvent) -> list[Touch]:
        """Take in halves, or what became of them."""
        if isinstance(event, HalvesCopied):
            return self._copied(event.transaction, event.length)
        if isinstance(event, HalfMoved):
            return self._moved(event)
        if isinstance(event, HalfDied):
            return self._died(event.transaction)
        known = self._of.get(event.transaction)
        apart = is_producers(event.transaction)
        if known is None:
            known = Transaction()
            self._put(event.transaction, known)
            if apart:
                known.first_at, known.check_after_ms, known.max_checks = event.store_timestamp, event.check_after_ms, event.max_checks
        known.latest_at = event.store_timestamp
        before = len(known.runs)
        number = known.add(HalfRun(*event[2:9]), apart=apart)
        self.bytes += event.bytes
        self.runs += len(known.runs) - before
        return self._pages(event.transaction, {0, number})

    def apply(self, control: Control) -> list[Touch]:
        """Take in a change."""
        match control.WhichOneof("change"):
            case "sink_committed":
                decision = control.sink_committed
                winners = [
                    sink_transaction(decision.query, decision.batch, winner.partition, winner.attempt) for winner in decision.winners
                ]
                return self._decide(winners, self.undecided(decision.query, decision.batch))
            case "halves_rolled_back":
                return [touch for name in control.halves_rolled_back.transactions for touch in self._roll_back(name)]
            case "halves_skipped":
                return self._advance(control.halves_skipped.transaction, control.halves_skipped.count)
            case "transactions_decided":
                return self._decide([name for name in control.transactions_decided.transactions if is_producers(name)], [])
            case "transactions_checked":
                return self._check(control)
            case "topic_deleted":
                # In one order, however they came: what ends is remembered in the order in which it ends.
                return [touch for name in sorted(self._of) for touch in self._drop_topic(name, control.topic_deleted.topic_id)]
            case _:
                return []

    def _decide(self, winners: list[str], undecided: list[str]) -> list[Touch]:
        touched: list[Touch] = []
        number = max(self._decided, default=0)
        for name in set(undecided) - set(winners):
            touched += self._roll_back(name)
        for name in winners:
            known = self._of.get(name)
            if known is not None and not known.number and not known.dead:
                number += 1
                known.number = number
                self._decided[number] = name
                touched += self._advance(name, 0)
        return touched

    def _advance(self, name: str, count: int) -> list[Touch]:
        known = self._of.get(name)
        if known is None or not known.number:
            return []
        return self._end(name, Outcome.COMMITTED) if known.advance(count) else [("halves", name, 0)]

    def _copied(self, name: str, count: int) -> list[Touch]:
        known = self._of.get(name)
        if known is not None and not known.number and not known.dead and is_producers(name):
            # The first of its messages is the decision; where it is the only one, there is nothing left to do.
            if known.advance(count):
                return self._end(name, Outcome.COMMITTED)
            known.number = max(self._decided, default=0) + 1
            self._decided[known.number] = name
            return [("halves", name, 0)]
        return self._advance(name, count)

    def _died(self, name: str) -> list[Touch]:
        known = self._of.get(name)
        if known is None or known.number or not is_producers(name):
            return []
        known.dead = True
        return self._end(name, Outcome.DEAD) if known.advance(1) else [("halves", name, 0)]

    def _moved(self, event: HalfMoved) -> list[Touch]:
        known = self._of.get(event.transaction)
        number = None if known is None else known.move(event.origin, event.log_offset, event.half_offset)
        return [] if number is None else self._pages(event.transaction, {number})

    def _check(self, control: Control) -> list[Touch]:
        touched: list[Touch] = []
        for check in control.transactions_checked.checks:
            known = self._of.get(check.transaction)
            if known is not None and not known.number and is_producers(check.transaction):
                known.tell(control.transactions_checked.at, check.asked, check.before, unknown=check.unknown)
                touched.append(("halves", check.transaction, 0))
        return touched

    def _roll_back(self, name: str) -> list[Touch]:
        known = self._of.get(name)
        if known is None or known.number:
            return []
        return self._end(name, Outcome.DEAD if known.dead else Outcome.ROLLED_BACK)

    def _drop_topic(self, name: str, topic_id: int) -> list[Touch]:
        known = self._of[name]
        changed = known.drop_topic(topic_id)
        if not changed:
            return []
        touched = self._pages(name, changed)
        if known.number:
            return touched + self._advance(name, 0)
        if not is_producers(name):
            return touched
        if known.dead:
            return touched + (self._end(name, Outcome.DEAD) if known.advance(0) else [("halves", name, 0)])
        return touched if known.left else touched + self._end(name, Outcome.ROLLED_BACK)

    def _put(self, name: str, known: Transaction) -> None:
        self._of[name] = known
        place = None if is_producers(name) else _batch_of(name)
        if place is not None:
            self._of_queries.setdefault(place[0], {}).setdefault(place[1], {})[name] = None

    def _end(self, name: str, outcome: Outcome) -> list[Touch]:
        known = self._of.pop(name)
        self._decided.pop(known.number, None)
        self.bytes -= known.bytes
        self.runs -= len(known.runs)
        touched = self._pages(name, set(range(0, len(known.runs), PAGE)))
        if is_producers(name):
            return touched + self.outcomes.add(name, outcome)
        place = _batch_of(name)
        if place is not None:
            batches = self._of_queries[place[0]]
            del batches[place[1]][name]
            if not batches[place[1]]:
                del batches[place[1]]
            if not batches:
                del self._of_queries[place[0]]
        return touched

    @staticmethod
    def _pages(name: str, runs: set[int]) -> list[Touch]:
        if max(runs) < PAGE:
            return [("halves", name, 0)]
        return [("halves", name, page) for page in sorted({run // PAGE for run in runs})]

    # The whole of it ----------------------------------------------------------------------------------------------------------

    def row(self, touch: Touch) -> Row | None:
        """The row that a touch names."""
        match touch:
            case ("halves", str(name), int(page)):
                return row_of(name, self._of.get(name), page)
            case _:
                return self.outcomes.row(touch)

    def rows(self) -> Iterator[Row]:
        """All of it, in one order."""
        for name in sorted(self._of):
            for page in range(-(-len(self._of[name].runs) // PAGE)):
                yield row_of(name, self._of[name], page)
        yield from self.outcomes.rows()

    def put(self, row: Row) -> bool:
        """Take in a row of a snapshot; those of one transaction come in the order of their pages."""
        if not row.HasField("halves"):
            return self.outcomes.put(row)
        told = row.halves
        known = self._of.get(told.transaction)
        if known is None:
            known = transaction_of(told)
            self._put(told.transaction, known)
            if known.number:
                self._decided[known.number] = told.transaction
        self.bytes += add_runs(known, told)
        self.runs += len(told.runs)
        return True

    def copy(self) -> Halves:
        """As it is now."""
        other = Halves()
        for name, known in self._of.items():
            other._put(name, known.copy())
        other._decided, other.bytes, other.runs = dict(self._decided), self.bytes, self.runs
        other.outcomes = self.outcomes.copy()
        return other
