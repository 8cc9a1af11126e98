"""Timer look-up: whether a delayed message waits, was delivered or was cancelled, by its id."""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum
from typing import Final, NamedTuple

import numpy as np

from litemq.format.timer_batches import BATCH_ID
from litemq.storage.store import Store
from litemq.types import RecordKind, StoredRecord

__all__ = ["NOT_FOUND", "FoundTimer", "TimerLookup", "TimerName", "TimerState", "is_pending", "stored_log_offset"]

_MAX_COPIES: Final = 32  # the latest ones decide: a waiting message has no later copy
_DELIVERED: Final = (RecordKind.MESSAGE, RecordKind.FIRED, RecordKind.COMMITTED, RecordKind.RETRY, RecordKind.DEAD)


class TimerName(NamedTuple):
    """The topic and the id of a delayed message."""

    topic: str
    message_id: str


class TimerState(IntEnum):
    """The state of a delayed message."""

    UNKNOWN = 0
    WAITS = 1
    DELIVERED = 2
    CANCELLED = 3


class FoundTimer(NamedTuple):
    """The state, with the latest waiting record without its body, and its log offset."""

    state: TimerState
    stored: StoredRecord | None = None
    pending: int = -1

    @property
    def delay_time(self) -> int:
        return 0 if self.stored is None else self.stored.record.delay_time

    @property
    def size(self) -> int:
        return 0 if self.stored is None else self.stored.size

    @property
    def batch_id(self) -> str:
        return "" if self.stored is None else self.stored.record.properties.get(BATCH_ID, "")


NOT_FOUND: Final = FoundTimer(TimerState.UNKNOWN)


class TimerLookup:
    """Looks up timers in a store. Any thread may call it; it may wait for the disk."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def find(self, names: Iterable[TimerName]) -> dict[TimerName, FoundTimer]:
        """Return the state of the messages ``names``.

        Call it once the log is confirmed: without the record that fired a message, the message
        would seem cancelled.
        """
        copies = {name: self._copies(name) for name in dict.fromkeys(names)}
        pendings = [one for found in copies.values() for one in found if is_pending(one)]
        live = self._live(pendings)
        return {name: self._state(name, found, live) for name, found in copies.items()}

    def _copies(self, name: TimerName) -> list[StoredRecord]:
        """Return all records with the id, the latest first, without their bodies."""
        found = self._store.find(name.topic, name.message_id, _MAX_COPIES, anywhere=True)
        return [
            one._replace(record=one.record._replace(body=b""))
            for one in found
            if one.record.message_id == name.message_id
        ]

    def _live(self, pendings: list[StoredRecord]) -> set[int]:
        """Return the log offsets of the messages that wait."""
        if not pendings:
            return set()
        log_offsets = np.array([stored_log_offset(one) for one in pendings], np.int64)
        dues = np.array([one.record.delay_time for one in pendings], np.int64)
        return set(log_offsets[self._store.are_timers_pending(dues, log_offsets)].tolist())

    def _state(self, name: TimerName, copies: list[StoredRecord], live: set[int]) -> FoundTimer:
        pendings = [one for one in copies if is_pending(one)]
        waiting = next((one for one in pendings if stored_log_offset(one) in live), None)
        batches = self._store.state.parts.timer_batches
        if waiting is not None:
            found = FoundTimer(TimerState.WAITS, waiting, stored_log_offset(waiting))
            if batches.is_cancelled(name.topic, found.batch_id, found.pending):
                return found._replace(state=TimerState.CANCELLED)
            return found
        latest = pendings[0] if pendings else None
        if any(one.stamp is not None and one.stamp.kind in _DELIVERED for one in copies):
            known = latest or copies[-1]
            return FoundTimer(TimerState.DELIVERED, known, stored_log_offset(known))
        return NOT_FOUND if latest is None else FoundTimer(TimerState.CANCELLED, latest, stored_log_offset(latest))


def is_pending(stored: StoredRecord) -> bool:
    """Return whether a record waits for its due time, or has waited."""
    return stored.stamp is not None and stored.stamp.kind is RecordKind.PENDING and stored.stamp.consume_count == 0


def stored_log_offset(stored: StoredRecord) -> int:
    """Return the log offset of a record, −1 if it is not stored."""
    return -1 if stored.stamp is None else stored.stamp.commitlog_offset
