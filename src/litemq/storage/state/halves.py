"""Halves: records that nobody sees until their transaction is decided, and then become messages.

They stand in the half topic, in the queue with the number of the one that they are meant for. What is known of a transaction is where its
halves stand, in runs: thousands of records that were sent together are one. Once it is decided, copies with the halves as their origins are
appended to the queues that they are meant for, in the order of the halves; a copy ends the half, so that how many copies there are says how far
that has come. A transaction that is copied or rolled back is forgotten.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from litemq.proto.control_pb2 import Control, HalvesRow, Row
from litemq.proto.control_pb2 import HalfRun as HalfRunRow
from litemq.storage.state.facts import QueueKey
from litemq.storage.state.half_runs import DELETED, HalfRun, HalvesCopied, HalvesPlaced, Transaction

if TYPE_CHECKING:
    from litemq.storage.state.delivery import Touch

__all__ = ["Halves", "sink_transaction"]

_PAGE: Final = 256  # runs of which one row tells


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
        self.bytes = 0
        self.runs = 0

    def __len__(self) -> int:
        return len(self._of)

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
        """The transactions that are not decided, and have halves before a log offset."""
        return [name for name, known in self._of.items() if not known.number and known.first_log_offset < log_offset]

    def is_copied_before(self, log_offset: int) -> bool:
        """Whether all decided halves before a log offset are copied."""
        return all(self._of[name].first_log_offset >= log_offset for name in self._decided.values())

    def holds(self, transaction: str, origin: int) -> bool:
        """Whether a record that waits for its time is the copy of a half at ``origin``: a copy of that copy has an origin behind all halves."""
        known = self._of.get(transaction)
        return known is not None and known.number > 0 and origin <= known.last_log_offset

    # What records say ---------------------------------------------------------------------------------------------------------

    def take(self, event: HalvesPlaced | HalvesCopied) -> list[Touch]:
        """Take in halves, or copies of them."""
        if isinstance(event, HalvesCopied):
            return self._advance(event.transaction, event.length)
        known = self._of.get(event.transaction)
        if known is None:
            known = Transaction()
            self._put(event.transaction, known)
        known.latest_at = event.store_timestamp
        before = len(known.runs)
        number = known.add(HalfRun(*event[2:9]))
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
            case "topic_deleted":
                return [touch for name in list(self._of) for touch in self._drop_topic(name, control.topic_deleted.topic_id)]
            case _:
                return []

    def _decide(self, winners: list[str], undecided: list[str]) -> list[Touch]:
        touched: list[Touch] = []
        number = max(self._decided, default=0)
        for name in set(undecided) - set(winners):
            touched += self._roll_back(name)
        for name in winners:
            known = self._of.get(name)
            if known is not None and not known.number:
                number += 1
                known.number = number
                self._decided[number] = name
                touched += self._advance(name, 0)
        return touched

    def _advance(self, name: str, count: int) -> list[Touch]:
        known = self._of.get(name)
        if known is None or not known.number:
            return []
        return self._end(name) if known.advance(count) else [("halves", name, 0)]

    def _roll_back(self, name: str) -> list[Touch]:
        known = self._of.get(name)
        return [] if known is None or known.number else self._end(name)

    def _drop_topic(self, name: str, topic_id: int) -> list[Touch]:
        changed = self._of[name].drop_topic(topic_id)
        return [*self._pages(name, changed), *self._advance(name, 0)] if changed else []

    def _put(self, name: str, known: Transaction) -> None:
        self._of[name] = known
        place = _batch_of(name)
        if place is not None:
            self._of_queries.setdefault(place[0], {}).setdefault(place[1], {})[name] = None

    def _end(self, name: str) -> list[Touch]:
        known = self._of.pop(name)
        self._decided.pop(known.number, None)
        self.bytes -= known.bytes
        self.runs -= len(known.runs)
        place = _batch_of(name)
        if place is not None:
            batches = self._of_queries[place[0]]
            del batches[place[1]][name]
            if not batches[place[1]]:
                del batches[place[1]]
            if not batches:
                del self._of_queries[place[0]]
        return self._pages(name, set(range(0, len(known.runs), _PAGE)))

    @staticmethod
    def _pages(name: str, runs: set[int]) -> list[Touch]:
        return [("halves", name, page) for page in sorted({run // _PAGE for run in runs})]

    # The whole of it ----------------------------------------------------------------------------------------------------------

    def row(self, touch: Touch) -> Row | None:
        """The row that a touch names."""
        match touch:
            case ("halves", str(name), int(page)):
                return self._row(name, page)
            case _:
                return None

    def rows(self) -> Iterator[Row]:
        """All of it, in one order."""
        for name in sorted(self._of):
            for page in range(-(-len(self._of[name].runs) // _PAGE)):
                yield self._row(name, page)

    def put(self, row: Row) -> bool:
        """Take in a row of a snapshot; those of one transaction come in the order of their pages."""
        if not row.HasField("halves"):
            return False
        told = row.halves
        known = self._of.get(told.transaction)
        if known is None:
            known = Transaction()
            self._put(told.transaction, known)
            known.latest_at, known.number, known.copied = told.latest_at, told.number, told.copied
            if known.number:
                self._decided[known.number] = told.transaction
        for run in told.runs:
            known.runs.append(HalfRun(*(getattr(run, name) for name in HalfRun._fields)))
            known.count += run.length
            known.bytes += run.bytes
            self.bytes += run.bytes
            if run.topic_id != DELETED:
                key = QueueKey(run.topic_id, run.queue_id)
                known.sent[key] = known.sent.get(key, 0) + run.length
        self.runs += len(told.runs)
        if known.number:
            known.find_place()
        return True

    def copy(self) -> Halves:
        """As it is now."""
        other = Halves()
        for name, known in self._of.items():
            other._put(name, known.copy())
        other._decided, other.bytes, other.runs = dict(self._decided), self.bytes, self.runs
        return other

    def _row(self, name: str, page: int) -> Row:
        known = self._of.get(name)
        if known is None:
            return Row(halves=HalvesRow(transaction=name, page=page, gone=True))
        row = HalvesRow(transaction=name, page=page)
        if page == 0:
            row.latest_at, row.number, row.copied = known.latest_at, known.number, known.copied
        row.runs.extend([HalfRunRow(**run._asdict()) for run in known.runs[page * _PAGE : (page + 1) * _PAGE]])
        return Row(halves=row)
