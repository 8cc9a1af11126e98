"""Entries of timers that are not in the bucket files yet. Pure; the owner does the locking."""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from litemq.storage.timers.entries import MINUTE_MS

__all__ = ["CAUSE", "DUE", "PENDING", "SIZE", "PendingEntries", "Row", "Rows"]

Row = tuple[int, int, int, int]  # due, pending, cause, size: as in an entry of a bucket file
Rows = npt.NDArray[np.int64]  # a table of rows, with four columns
DUE: Final = 0
PENDING: Final = 1
CAUSE: Final = 2
SIZE: Final = 3
_NONE: Final = np.empty((0, 4), np.int64)


class PendingEntries:
    """Rows in the order of the log, which are added one by one or in bulk."""

    def __init__(self) -> None:
        self._joined = _NONE
        self._chunks: list[Rows] = []
        self._single: list[Row] = []  # after all chunks

    def add(self, row: Row) -> None:
        self._single.append(row)

    def add_many(self, rows: Rows) -> None:
        """Add ``rows``, which are in the order of the log."""
        self._close_single()
        self._chunks.append(rows)

    def _close_single(self) -> None:
        if self._single:
            self._chunks.append(np.array(self._single, np.int64))
            self._single = []

    def all(self) -> Rows:
        """Return all rows. The array is never changed."""
        self._close_single()
        if self._chunks:
            self._joined = np.concatenate((self._joined, *self._chunks))
            self._chunks = []
        return self._joined

    def between(self, first: int, end: int) -> Rows:
        """Return the rows that are due in the minutes ``first`` to ``end``, exclusive."""
        rows = self.all()
        return rows[(rows[:, DUE] >= first * MINUTE_MS) & (rows[:, DUE] < end * MINUTE_MS)]

    def first_minute(self, minute: int) -> int | None:
        """Return the first minute at or after ``minute`` that has rows, or ``None``."""
        dues = self.all()[:, DUE]
        dues = dues[dues >= minute * MINUTE_MS]
        return int(dues.min()) // MINUTE_MS if dues.size else None

    def take_below(self, log_offset: int) -> Rows:
        """Remove and return the rows whose cause is below ``log_offset``."""
        rows = self.all()
        count = int(np.searchsorted(rows[:, CAUSE], log_offset))
        self._joined = rows[count:].copy() if count < len(rows) else _NONE
        return rows[:count]

    def insert(self, rows: Rows) -> None:
        """Add ``rows`` at the positions of their causes."""
        rows = np.concatenate((self.all(), rows))
        self._joined = rows[np.argsort(rows[:, CAUSE], kind="stable")]

    def put_back(self, rows: Rows) -> None:
        """Return rows that ``take_below`` removed."""
        self._joined = np.concatenate((rows, self.all()))
