"""What an engine does with delayed messages, and what it tells about them."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import NamedTuple, Protocol

__all__ = ["CancelOutcome", "ScheduledState", "TimerBackend", "TimerCursor", "TimerFact", "TimerPage", "TimerSelection"]


class CancelOutcome(StrEnum):
    """What became of a message that was to be cancelled."""

    UNKNOWN = "unknown"  # no message has this id, or it was delivered or cancelled long ago
    CANCELLED = "cancelled"
    DELIVERED = "delivered"  # too late
    CANCELLED_BEFORE = "cancelled-before"


class ScheduledState(StrEnum):
    """What became of a delayed message."""

    SCHEDULED = "scheduled"
    DELIVERED = "delivered"
    CANCELLED = "cancelled"


class TimerFact(NamedTuple):
    """A delayed message without its body. Times are ms since 1970."""

    message_id: str
    state: ScheduledState
    due: int
    delay_time: int
    keys: tuple[str, ...]
    batch_id: str
    size: int
    queue_id: int
    sent_at: int


class TimerSelection(NamedTuple):
    """Which are meant: those that fit all that is said."""

    since: int = 0  # ms: due then or later
    until: int = 0  # ms: due before; 0: at any time
    key: str = ""
    batch_id: str = ""


class TimerCursor(NamedTuple):
    """Where a list goes on: behind this due time, and this place in the broker's log."""

    due: int = 0
    pending: int = -1


class TimerPage(NamedTuple):
    """Some of those that wait, in the order of their due times, and how many that are."""

    facts: tuple[TimerFact, ...]
    counted: int
    cursor: TimerCursor
    is_end: bool


class TimerBackend(Protocol):
    """The delayed messages of a cluster, broker by broker."""

    async def brokers(self, topic: str) -> Sequence[str]:
        """The brokers that have a topic."""
        ...

    async def cancel(self, broker: str, topic: str, message_ids: Sequence[str]) -> Sequence[CancelOutcome]:
        """Cancel messages, up to 1,000 at once; what became of each."""
        ...

    async def cancel_batch(self, broker: str, topic: str, batch_id: str) -> None:
        """Cancel what waits of a batch."""
        ...

    async def reschedule(self, broker: str, topic: str, message_id: str, due: int) -> TimerFact:
        """Deliver a message at another time; raises where it does not wait, or is not known."""
        ...

    async def describe(self, broker: str, topic: str, message_id: str) -> tuple[TimerFact, bytes] | None:
        """One, with its record; ``None`` where it is not known."""
        ...

    async def page(
        self, broker: str, topic: str, selection: TimerSelection, *, after: TimerCursor, most: int, count_only: bool = False
    ) -> TimerPage:
        """Some of those that wait; there may be none in it although it is not the end."""
        ...
