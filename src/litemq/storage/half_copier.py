"""Copies the halves of decided transactions to their target queues."""

from __future__ import annotations

import logging
from typing import Final

from litemq.errors import CorruptStoreError, InvalidArgumentError
from litemq.storage.batches.half_batches import (
    DecidedHalves,
    UpcomingHalves,
    check_upcoming,
    committed_batch,
    read_halves,
    skip_control,
    upcoming_halves,
)
from litemq.storage.reading import StoreReader
from litemq.storage.store import Appended
from litemq.storage.store_parts import StoreParts
from litemq.storage.writing import StoreWriter

__all__ = ["HalfCopier"]

_COPY_BYTES: Final = 4 << 20
_LOG = logging.getLogger(__name__)


class HalfCopier:
    """Reads decided halves and appends their copies, in order.

    The broker and retention may copy at the same time.
    """

    def __init__(self, parts: StoreParts, writer: StoreWriter, reader: StoreReader) -> None:
        self._parts = parts
        self._writer = writer
        self._reader = reader

    def read_decided(self, max_bytes: int) -> DecidedHalves | None:
        """Read about ``max_bytes`` of the next halves that are decided and confirmed.

        It may wait for the disk. If a half of a replica is damaged, raise ``CorruptStoreError``.
        """
        parts = self._parts
        while True:
            with parts.writing:
                upcoming = upcoming_halves(parts.state, max_bytes)
            if upcoming is None:
                return None
            try:
                return read_halves(upcoming, self._reader.read_queue)
            except CorruptStoreError as error:
                if parts.is_replica:  # another replica has the half: the caller tries again
                    raise
                self._leave_out(upcoming, error)

    def _leave_out(self, upcoming: UpcomingHalves, error: CorruptStoreError) -> None:
        """Append a record that skips an unreadable half, so that it does not block the others."""
        with self._parts.writing:
            now = upcoming_halves(self._parts.state, 0)
            if now is not None and (now.transaction, now.runs[0][:5]) == (upcoming.transaction, upcoming.runs[0][:5]):
                _LOG.error(
                    "skipping a committed record of transaction %r that cannot be read: %s",
                    upcoming.transaction,
                    error,
                )
                self._writer.append_control(skip_control(upcoming, str(error)))

    def append(self, decided: DecidedHalves, held_after: int, *, from_reserve: bool) -> Appended:
        """Append ``decided`` to their queues.

        A message due later than ``held_after`` (ms) becomes a timer. Raise ``InvalidArgumentError``
        if these halves are no longer the next to copy.
        """
        committed = committed_batch(decided, held_after)
        with self._parts.writing:
            check_upcoming(self._parts.state, decided)
            return self._writer.write(committed, from_reserve=from_reserve)

    def copy_before(self, log_offset: int) -> None:
        """Copy the halves before ``log_offset`` that are decided.

        It waits until they are confirmed, so the caller must not hold a lock.
        """
        parts = self._parts
        while not self._is_copied_before(log_offset):
            decided = self.read_decided(_COPY_BYTES)
            if decided is None:
                parts.confirmation.wait(parts.log.end)
                continue
            try:
                self.append(decided, parts.clock.wall_ms(), from_reserve=True)
            except InvalidArgumentError:
                continue  # the broker has copied them meanwhile

    def _is_copied_before(self, log_offset: int) -> bool:
        with self._parts.writing:
            return self._parts.state.parts.halves.is_copied_before(log_offset)
