"""What an engine does with dead letters, and what it tells about them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from litemq.format.dead_letters import DeadSelection
from litemq.types import DeadReason

__all__ = ["DeadLetterBackend", "DeadLetterFact", "DeadLetterPage", "RedriveProgress", "RedriveStarted"]


class DeadLetterFact(NamedTuple):
    """A dead letter without what died."""

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
    """Some dead letters, with the records if they were asked for."""

    facts: tuple[DeadLetterFact, ...]
    records: bytes
    next_after: int
    is_end: bool


class RedriveProgress(NamedTuple):
    """How far a redrive is. In the end each selected letter is done, gone, expired, damaged or skipped, unless it is cancelled before."""

    state: str  # running, done, cancelled, failed
    letters: int = 0  # dead letters that there were when it began
    examined: int = 0
    selected: int = 0
    done: int = 0  # sent on, or dropped
    gone: int = 0  # somebody else was faster
    expired: int = 0  # their time to live is over: as they are they would die at once
    damaged: int = 0  # they cannot be read
    skipped: int = 0  # the transform gave nothing
    problem: str = ""

    @property
    def is_over(self) -> bool:
        return self.state != "running"

    @property
    def left(self) -> int:
        """Selected letters that can go and have not: of a dry run, those that would."""
        return self.selected - self.done - self.gone - self.expired - self.damaged - self.skipped


class RedriveStarted(NamedTuple):
    """A redrive on one broker: its number there, and how far it is."""

    redrive_id: int
    progress: RedriveProgress


class DeadLetterBackend(Protocol):
    """The dead letters of a cluster, broker by broker."""

    async def topics(self) -> dict[str, dict[str, int]]:
        """The brokers that can be asked, and for each the topics that have dead letters, and how many."""
        ...

    async def page(self, broker: str, topic: str, selection: DeadSelection, *, after: int, most: int, whole: bool) -> DeadLetterPage:
        """Some of a topic, in the order in which they died, behind a log offset."""
        ...

    async def begin(
        self, broker: str, topic: str, selection: DeadSelection, *, messages_per_s: int, dry_run: bool, drop: bool
    ) -> RedriveStarted:
        """Start a redrive on one broker."""
        ...

    async def follow(self, broker: str, redrive_id: int, wait_ms: int) -> RedriveProgress:
        """How far it is; waits a while for its end."""
        ...

    async def cancel(self, broker: str, redrive_id: int) -> RedriveProgress:
        """Stop it where it is."""
        ...

    async def send_on(self, broker: str, topic: str, log_offsets: Sequence[int], records: bytes) -> list[bool]:
        """Send letters on as these records; which of them went, and had not gone before."""
        ...
