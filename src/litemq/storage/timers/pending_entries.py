"""What records have said of timers and is not in the bucket files yet, by column. Pure; whoever has it locks it."""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from litemq.storage.timers.entries import MINUTE_MS

__all__ = ["CAUSE", "DUE", "PENDING", "SIZE", "Row", "Rows", "UnwrittenRows"]

Row = tuple[int, int, int, int]  # due, pending, cause, size: as in an entry of a bucket file
Rows = npt.NDArray[np.int64]  # so many rows, four columns
DUE: Final = 0
PENDING: Final = 1
CAUSE: Final = 2
SIZE: Final = 3
_NONE: Final = np.empty((0, 4), np.int64)


class UnwrittenRows:
    """Rows in the order of the log. They come one by one or by the thousand, and are looked at together."""

    def __init__(self) -> None:
        self._joined = _NONE
        self._chunks: list[Rows] = []
        self._single: list[Row] = []  # behind all chunks

    def add(self, row: Row) -> None:
        """One more, behind all others."""
        self._single.append(row)

    def add_many(self, rows: Rows) -> None:
        """More of them, in the order of the log."""
        self._close_single()
        self._chunks.append(rows)

    def _close_single(self) -> None:
        if self._single:
            self._chunks.append(np.array(self._single, np.int64))
            self._single = []

    def all(self) -> Rows:
        """All of them; nobody changes this array."""
        self._close_single()
        if self._chunks:
            self._joined = np.concatenate((self._joined, *self._chunks))
            self._chunks = []
        return self._joined

    def between(self, first: int, behind: int) -> Rows:
        """Those of some minutes."""
        rows = self.all()
        return rows[(rows[:, DUE] >= first * MINUTE_MS) & (rows[:, DUE] < behind * MINUTE_MS)]

    def first_from(self, minute: int) -> int | None:
        """The first minute from this one on, of which something was said."""
        dues = self.all()[:, DUE]
        dues = dues[dues >= minute * MINUTE_MS]
        return int(dues.min()) // MINUTE_MS if dues.size else None

    def take_below(self, log_offset: int) -> Rows:
        """Those that records below a log offset have said: they are the taker's from now on."""
        rows = self.all()
        count = int(np.searchsorted(rows[:, CAUSE], log_offset))
        self._joined = rows[count:].copy() if count < len(rows) else _NONE
        return rows[:count]

    def insert(self, rows: Rows) -> None:
        """More of them, wherever their records stand in the log."""
        rows = np.concatenate((self.all(), rows))
        self._joined = rows[np.argsort(rows[:, CAUSE], kind="stable")]

    def put_back(self, rows: Rows) -> None:
        """The first of all again, where taking them was in vain."""
        self._joined = np.concatenate((rows, self.all()))
