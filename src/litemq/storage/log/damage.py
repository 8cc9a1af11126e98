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
        return [self._errors[offset] for offset in sorted(self._errors)]

    def first_from(self, log_offset: int) -> CorruptStoreError | None:
        """Return the error of the first damaged record from ``log_offset`` on, if any."""
        known = [offset for offset in tuple(self._errors) if offset >= log_offset]
        return self._errors[min(known)] if known else None
