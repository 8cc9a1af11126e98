"""The timer part of the engine interface: list, cancel and reschedule delayed messages."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import NamedTuple, Protocol

__all__ = ["CancelOutcome", "ScheduledState", "TimerCursor", "TimerEngine", "TimerInfo", "TimerPage", "TimerSelection"]


class CancelOutcome(StrEnum):
    """The outcome of cancelling a delayed message."""

    UNKNOWN = "unknown"  # no message has this id, or the broker no longer remembers it
    CANCELLED = "cancelled"
    DELIVERED = "delivered"  # the message was delivered before
    CANCELLED_BEFORE = "cancelled-before"


class ScheduledState(StrEnum):
    """The state of a delayed message."""

    SCHEDULED = "scheduled"
    DELIVERED = "delivered"
    CANCELLED = "cancelled"


class TimerInfo(NamedTuple):
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
    """Conditions for delayed messages; a message must meet all of them."""

    since: int = 0  # ms since 1970: due at or after
    until: int = 0  # ms since 1970: due before; 0: no limit
    key: str = ""
    batch_id: str = ""


class TimerCursor(NamedTuple):
    """The position in a list: behind this due time and this log offset."""

    due: int = 0
    pending: int = -1


class TimerPage(NamedTuple):
    """One page of waiting messages, by due time. It may be empty before the end."""

    timers: tuple[TimerInfo, ...]
    counted: int  # messages that match, on this page
    cursor: TimerCursor
    is_end: bool


class TimerEngine(Protocol):
    """The delayed messages of a cluster, broker by broker."""

    async def cancel(self, broker: str, topic: str, message_ids: Sequence[str]) -> Sequence[CancelOutcome]:
        """Cancel up to 1,000 messages, and return the outcome of each."""
        ...

    async def cancel_batch(self, broker: str, topic: str, batch_id: str) -> None:
        """Cancel the waiting messages of a batch."""
        ...

    async def reschedule(self, broker: str, topic: str, message_id: str, due: int) -> TimerInfo:
        """Change the due time of a message to ``due`` (ms).

        Raise if it is unknown or no longer waits.
        """
        ...

    async def describe(self, broker: str, topic: str, message_id: str) -> tuple[TimerInfo, bytes] | None:
        """Return a delayed message with its record; ``None`` if it is unknown."""
        ...

    async def page(
        self,
        broker: str,
        topic: str,
        selection: TimerSelection,
        *,
        after: TimerCursor,
        limit: int,
        count_only: bool = False,
    ) -> TimerPage:
        """Return up to ``limit`` waiting messages behind ``after``.

        If ``count_only``, return only their number.
        """
        ...
