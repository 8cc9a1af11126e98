"""The damaged records that an open store has found, by log offset."""

from __future__ import annotations

import logging
from pathlib import Path

from litemq.errors import CorruptStoreError
from litemq.errors.detached import detached

__all__ = ["DamageLog", "log_offset_of"]

_LOG = logging.getLogger(__name__)


def log_offset_of(error: CorruptStoreError) -> int:
    """Return the log offset of the damage that ``error`` reports in a segment."""
    return int(Path(error.path).name) + error.offset


class DamageLog:
    """The damaged records found since the store was opened. Any thread may add one."""

    def __init__(self) -> None:
        self._errors: dict[int, CorruptStoreError] = {}  # by log offset

    def add(self, error: CorruptStoreError) -> None:
        """Add ``error``, and log it unless the record is already known to be damaged."""
        offset = log_offset_of(error)
        if offset not in self._errors:
            self._errors[offset] = detached(error)
            _LOG.error("%s; skipping the record", error)

    def errors(self) -> list[CorruptStoreError]:
        """Return the errors of all damaged records, in the order of the log."""
        return [error for _, error in sorted(self._errors.items())]

    def remove(self, begin: int, end: int) -> None:
        """Forget the damage from log offset ``begin`` to ``end``: the records are intact again."""
        for offset in [offset for offset in tuple(self._errors) if begin <= offset < end]:
            self._errors.pop(offset, None)

    def first_from(self, log_offset: int) -> CorruptStoreError | None:
        """Return the error of the first damaged record from ``log_offset`` on, if any."""
        known = [error for offset, error in sorted(self._errors.items()) if offset >= log_offset]
        return known[0] if known else None
