"""What became of producers' transactions, for those who say it again: so many are remembered, and the oldest forgotten first."""

from __future__ import annotations

from collections.abc import Iterator
from enum import IntEnum
from typing import Final

from litemq.proto.control_pb2 import OutcomesRow, Row
from litemq.storage.state.part import Touch

__all__ = ["Outcome", "Outcomes"]

_PAGE: Final = 256  # of which one row tells
_MOST: Final = 400  # pages: 102,400 transactions


class Outcome(IntEnum):
    """How a transaction ended; the numbers are those of the wire."""

    COMMITTED = 2
    ROLLED_BACK = 3
    DEAD = 4


class Outcomes:
    """The latest transactions that have ended, each with its outcome."""

    def __init__(self) -> None:
        self._of: dict[str, Outcome] = {}
        self._pages: dict[int, list[str]] = {}  # in their order
        self._latest = 0  # the number of the last page

    def get(self, transaction: str) -> Outcome | None:
        """How a transaction ended, as far as it is remembered."""
        return self._of.get(transaction)

    def names(self) -> tuple[str, ...]:
        """All that are remembered."""
        return tuple(self._of)

    def add(self, transaction: str, outcome: Outcome) -> list[Touch]:
        """A transaction has ended. What was said first stands."""
        if transaction in self._of:
            return []
        self._of[transaction] = outcome
        page = self._pages.setdefault(self._latest, [])
        if len(page) == _PAGE:
            self._latest += 1
            page = self._pages[self._latest] = []
        page.append(transaction)
        touched: list[Touch] = [("outcomes", self._latest)]
        if len(self._pages) > _MOST:
            oldest = next(iter(self._pages))
            for name in self._pages.pop(oldest):
                del self._of[name]
            touched.append(("outcomes", oldest))
        return touched

    def row(self, touch: Touch) -> Row | None:
        """The row that a touch names."""
        match touch:
            case ("outcomes", int(page)):
                return self._row(page)
            case _:
                return None

    def rows(self) -> Iterator[Row]:
        """All of it, in one order."""
        return map(self._row, tuple(self._pages))

    def put(self, row: Row) -> bool:
        """Take in a row of a snapshot."""
        if not row.HasField("outcomes"):
            return False
        told = row.outcomes
        self._pages[told.page] = list(told.transactions)
        self._pages = dict(sorted(self._pages.items())) if told.page < self._latest else self._pages
        self._latest = max(self._latest, told.page)
        self._of.update(zip(told.transactions, map(Outcome, told.outcomes), strict=True))
        return True

    def copy(self) -> Outcomes:
        """As it is now."""
        other = Outcomes()
        other._of, other._latest = dict(self._of), self._latest
        other._pages = {number: list(page) for number, page in self._pages.items()}
        return other

    def _row(self, page: int) -> Row:
        names = self._pages.get(page, [])
        return Row(outcomes=OutcomesRow(page=page, transactions=names, outcomes=bytes(self._of[name] for name in names)))
