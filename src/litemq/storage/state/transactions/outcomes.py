"""Outcomes of the latest producers' transactions, for producers that repeat a decision.

A fixed number is kept; the oldest is forgotten first.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import IntEnum
from typing import Final

from litemq.proto.control_pb2 import OutcomesRow, Row
from litemq.storage.state.part import Touch

__all__ = ["Outcome", "Outcomes"]

_PAGE: Final = 256  # outcomes in one row
_MAX_PAGES: Final = 400  # 102,400 transactions


class Outcome(IntEnum):
    """The outcome of a transaction; the values are those of the wire."""

    COMMITTED = 2
    ROLLED_BACK = 3
    DEAD = 4


class Outcomes:
    """The latest ended transactions, each with its outcome."""

    def __init__(self) -> None:
        self._outcomes: dict[str, Outcome] = {}
        self._pages: dict[int, list[str]] = {}  # in ascending order
        self._latest = 0  # the number of the last page

    def get(self, transaction: str) -> Outcome | None:
        """Return the outcome of a transaction, or ``None`` if it is unknown or was forgotten."""
        return self._outcomes.get(transaction)

    def names(self) -> tuple[str, ...]:
        """Return the names of all transactions kept."""
        return tuple(self._outcomes)

    def add(self, transaction: str, outcome: Outcome) -> list[Touch]:
        """Record an outcome and return the touched rows. The first outcome wins."""
        if transaction in self._outcomes:
            return []
        self._outcomes[transaction] = outcome
        page = self._pages.setdefault(self._latest, [])
        if len(page) == _PAGE:
            self._latest += 1
            page = self._pages[self._latest] = []
        page.append(transaction)
        touched: list[Touch] = [("outcomes", self._latest)]
        if len(self._pages) > _MAX_PAGES:
            oldest = next(iter(self._pages))
            for name in self._pages.pop(oldest):
                del self._outcomes[name]
            touched.append(("outcomes", oldest))
        return touched

    def row(self, touch: Touch) -> Row | None:
        """Return the row that ``touch`` names, or ``None`` if it belongs to another part."""
        match touch:
            case ("outcomes", int(page)):
                return self._row(page)
            case _:
                return None

    def rows(self) -> Iterator[Row]:
        """Yield every row, in a fixed order."""
        return map(self._row, tuple(self._pages))

    def put(self, row: Row) -> bool:
        """Load ``row`` from a snapshot; return False if it belongs to another part."""
        if not row.HasField("outcomes"):
            return False
        page = row.outcomes
        self._pages[page.page] = list(page.transactions)
        self._pages = dict(sorted(self._pages.items())) if page.page < self._latest else self._pages
        self._latest = max(self._latest, page.page)
        self._outcomes.update(zip(page.transactions, map(Outcome, page.outcomes), strict=True))
        return True

    def copy(self) -> Outcomes:
        """Return an independent copy."""
        other = Outcomes()
        other._outcomes, other._latest = dict(self._outcomes), self._latest
        other._pages = {number: list(page) for number, page in self._pages.items()}
        return other

    def _row(self, page: int) -> Row:
        names = self._pages.get(page, [])
        outcomes = bytes(self._outcomes[name] for name in names)
        return Row(outcomes=OutcomesRow(page=page, transactions=names, outcomes=outcomes))
