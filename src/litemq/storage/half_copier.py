"""Copying the halves of decided transactions to the queues that they are meant for."""

from __future__ import annotations

import logging
from typing import Final

from litemq.errors import CorruptStoreError, InvalidArgumentError
from litemq.storage.batches.half_batches import (
    DecidedHalves,
    Upcoming,
    check_upcoming,
    committed_batch,
    read_halves,
    rollbacks_of,
    skip_of,
    upcoming_halves,
)
from litemq.storage.reading import StoreReader
from litemq.storage.store import Appended
from litemq.storage.store_parts import StoreParts
from litemq.storage.writing import StoreWriter

__all__ = ["HalfCopier"]

_COPIED_AT_ONCE: Final = 4 << 20
_LOG = logging.getLogger(__name__)


class HalfCopier:
    """Reads decided halves and appends their copies, in order.

    The broker and retention may copy at the same time.
    """

    def __init__(self, parts: StoreParts, writer: StoreWriter, reader: StoreReader) -> None:
        self._parts = parts
        self._writer = writer
        self._reader = reader

    def read_decided(self, most_bytes: int) -> DecidedHalves | None:
        """Read about ``most_bytes`` of the next halves that are decided and confirmed.

        It may wait for the disk.
        """
        parts = self._parts
        while True:
            with parts.writing:
                upcoming = upcoming_halves(parts.state, most_bytes)
            if upcoming is None:
                return None
            try:
                return read_halves(upcoming, self._reader.read_queue)
            except CorruptStoreError as error:
                self._leave_out(upcoming, error)

    def _leave_out(self, upcoming: Upcoming, error: CorruptStoreError) -> None:
        """Skip a half that cannot be read, so that it does not hold up the others.

        The log records the skip.
        """
        with self._parts.writing:
            now = upcoming_halves(self._parts.state, 0)
            if now is not None and (now.transaction, now.runs[0][:5]) == (upcoming.transaction, upcoming.runs[0][:5]):
                _LOG.error(
                    "a committed record of transaction %r cannot be read, and is left out: %s",
                    upcoming.transaction,
                    error,
                )
                self._writer.append_control(skip_of(upcoming, str(error)))

    def append(self, decided: DecidedHalves, held_after: int, *, from_reserve: bool) -> Appended:
        """Append ``decided`` to their queues.

        A message due later than ``held_after`` (ms) becomes a timer. Raise ``InvalidArgumentError``
        if these halves are no longer the next to copy.
        """
        committed = committed_batch(decided, held_after)
        with self._parts.writing:
            check_upcoming(self._parts.state, decided)
            return self._writer.write(committed, from_reserve=from_reserve)

    def end_before(self, log_offset: int) -> None:
        """End the halves before ``log_offset``.

        Copy the decided halves, and roll back the undecided transactions of jobs.
        """
        parts = self._parts
        halves = parts.state.delivery.halves
        while not self._is_copied_before(log_offset):
            decided = self.read_decided(_COPIED_AT_ONCE)
            if decided is None:
                parts.flusher.wait(parts.log.end)
                continue
            try:
                self.append(decided, parts.clock.wall_ms(), from_reserve=True)
            except InvalidArgumentError:
                continue  # the broker was faster
        with parts.writing:
            undecided = halves.undecided_before(log_offset)
            for control in rollbacks_of(undecided, "nobody decided them before retention took them"):
                self._writer.append_control(control)

    def _is_copied_before(self, log_offset: int) -> bool:
        with self._parts.writing:
            return self._parts.state.delivery.halves.is_copied_before(log_offset)
