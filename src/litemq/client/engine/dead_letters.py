"""The dead-letter part of the engine interface: list dead letters, and redrive or drop them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from litemq.format.dead_letters import DeadSelection
from litemq.types import DeadReason

__all__ = ["DeadLetterEngine", "DeadLetterInfo", "DeadLetterPage", "RedriveProgress", "StartedRedrive"]


class DeadLetterInfo(NamedTuple):
    """A dead letter without the record of the message."""

    log_offset: int
    queue_offset: int
    message_id: str
    keys: tuple[str, ...]
    reason: DeadReason
    detail: str
    group: str
    consumer: str
    error: str
    tries: int
    dead_at: int
    fingerprint: str
    size: int


class DeadLetterPage(NamedTuple):
    """One page of dead letters; ``records`` is empty unless the request asked for whole records."""

    dead_letters: tuple[DeadLetterInfo, ...]
    records: bytes
    next_after: int
    is_end: bool


class RedriveProgress(NamedTuple):
    """The progress of a redrive, in dead letters.

    Unless the redrive is cancelled, each selected dead letter ends as done, gone, expired, damaged
    or skipped.
    """

    state: str  # running, done, cancelled, failed
    letters: int = 0  # dead letters in the topic when the redrive began
    examined: int = 0
    selected: int = 0
    done: int = 0  # sent again, or dropped
    gone: int = 0  # redriven or dropped by another request
    expired: int = 0  # past their TTL: sent unchanged, they would expire at once
    damaged: int = 0  # unreadable
    skipped: int = 0  # the transform returned nothing
    problem: str = ""

    @property
    def is_over(self) -> bool:
        return self.state != "running"

    @property
    def left(self) -> int:
        """The selected dead letters still to be done; in a dry run, those that would be."""
        return self.selected - self.done - self.gone - self.expired - self.damaged - self.skipped


class StartedRedrive(NamedTuple):
    """A redrive on one broker: its id there, and its progress so far."""

    redrive_id: int
    progress: RedriveProgress


class DeadLetterEngine(Protocol):
    """The dead letters of a cluster, broker by broker."""

    async def topics(self, broker: str) -> dict[str, int]:
        """Return the topics with dead letters, and their number."""
        ...

    async def page(
        self, broker: str, topic: str, selection: DeadSelection, *, after: int, limit: int, whole: bool
    ) -> DeadLetterPage:
        """Return up to ``limit`` dead letters behind log offset ``after``, oldest first."""
        ...

    async def begin(
        self, broker: str, topic: str, selection: DeadSelection, *, messages_per_s: int, dry_run: bool, drop: bool
    ) -> StartedRedrive:
        """Start a redrive on one broker."""
        ...

    async def follow(self, broker: str, redrive_id: int, wait_ms: int) -> RedriveProgress:
        """Wait up to ``wait_ms`` for a redrive to end, and return its progress."""
        ...

    async def cancel(self, broker: str, redrive_id: int) -> RedriveProgress:
        """Stop a redrive, and return its progress."""
        ...

    async def redrive_records(self, broker: str, topic: str, log_offsets: Sequence[int], records: bytes) -> list[bool]:
        """Send ``records`` in place of the dead letters at ``log_offsets``.

        Returns one flag for each: ``False`` if that dead letter was gone already.
        """
        ...
