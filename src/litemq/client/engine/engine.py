"""The seam between what users call and the engine that does it: ``litemq://``, ``memory://``, and others by entry point."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import NamedTuple, Protocol

from litemq.client.engine.archives import ArchiveBackend
from litemq.client.engine.dead_letters import DeadLetterBackend
from litemq.client.engine.groups import GroupDescription, GroupSummary, Joining, ResetPlan
from litemq.client.engine.jobs import JobBackend
from litemq.client.engine.routes import Route
from litemq.client.engine.selection import EVERYTHING, Selection
from litemq.client.engine.timers import TimerBackend
from litemq.client.engine.topics import TopicChanges, TopicSettings
from litemq.client.engine.transactions import TransactionBackend
from litemq.client.messages.delivery_options import PLAIN, Terms
from litemq.client.messages.outgoing import SendReceipt
from litemq.client.settling.settlements import FailedDelivery, LeasedOffsets, Unsettled
from litemq.types import BodyCodec, Durability

__all__ = [
    "Assignment",
    "Backend",
    "BrokerFact",
    "CommittedOffset",
    "Granted",
    "LeaseTerms",
    "Post",
    "Pulled",
    "QueueFact",
    "TopicFact",
    "WhyFact",
]


class QueueFact(NamedTuple):
    """A queue, the offsets there are in it, and how far a group has come (-1: it has not begun)."""

    broker: str
    queue_id: int
    least: int
    next: int
    committed: int = -1
    is_retry: bool = False  # the group's own queue, of messages that are tried again
    generation: int = 0  # of a member's ownership
    earliest: int = -1  # the oldest offset that can be read, from the topic's archive where it is below ``least``

    @property
    def key(self) -> tuple[str, int, bool]:
        """What tells it from others."""
        return self.broker, self.queue_id, self.is_retry


class TopicFact(NamedTuple):
    """A topic and its queues on all brokers."""

    topic: str
    queues: tuple[QueueFact, ...]
    settings: TopicSettings = TopicSettings()


class Assignment(NamedTuple):
    """The queues of one broker that a member has to read, and the generations of those that it has to give up."""

    session: int
    version: int
    queues: tuple[QueueFact, ...]
    release: tuple[int, ...]
    reset_id: str  # of the last time that somebody set the group's offsets
    session_timeout_ms: int


class CommittedOffset(NamedTuple):
    """How far a group has come in one queue."""

    queue_id: int
    offset: int
    generation: int
    is_retry: bool = False


class BrokerFact(NamedTuple):
    """A broker, as its cluster knows it."""

    name: str
    address: str
    alive: bool
    software: str
    topics: int


class Pulled(NamedTuple):
    """Stored records of one queue, and where to go on."""

    records: bytes
    next_offset: int
    damaged: str  # what could not be read, and was passed by; mostly empty


class WhyFact(NamedTuple):
    """What one broker says about a message and a group: a verdict in a word, a sentence, what to do, and what it knows besides."""

    broker: str
    verdict: str
    topic: str  # empty where it has no such message
    sentence: str
    advice: str
    facts: tuple[str, ...]


class LeaseTerms(NamedTuple):
    """What messages are leased, and how."""

    lease_ms: int
    max_retries: int  # what was tried more often goes to the dead letters
    from_latest: bool = False  # where the group has never been before, it begins with what comes next
    filter: str = ""
    filter_is_sql: bool = False


class Granted(NamedTuple):
    """Stored records under one lease, and for each of them which try this is."""

    records: bytes
    token: int
    counts: list[int]


class Post(Protocol):
    """Takes a message; the future is its receipt. Raises ``BufferFullError`` where too much waits already."""

    def __call__(
        self,
        topic: str,
        body: bytes,
        codec: BodyCodec,
        content_type: str,
        tags: tuple[str, ...],
        keys: Sequence[str],
        properties: tuple[tuple[str, str], ...],
        ordering_key: str,
        level: Durability | None,  # None: the broker's default
        terms: Terms = PLAIN,
        /,
    ) -> asyncio.Future[SendReceipt]: ...


class Backend(Protocol):
    """What an engine does. Topics and bodies are checked and serialized before they come here."""

    async def open(self) -> None:
        """Make the first connections."""
        ...

    async def close(self, within: float) -> None:
        """Send what waits, for so many seconds at most, and end."""
        ...

    # Sending

    async def wait_for_room(self) -> None:
        """Wait until there may be room for one more message."""
        ...

    post: Post

    def wall_ms(self) -> int:
        """What time it is, by the clock that delays are measured with (ms since 1970)."""
        ...

    async def flush(self, within: float | None = None) -> None:
        """Wait until everything that was taken before is stored or has failed."""
        ...

    # Reading

    async def route(self, topic: str, *, create: bool = False) -> Route:
        """The brokers of a topic; ``create``: it may be created where it is not there."""
        ...

    async def join(self, broker: str, joining: Joining, held: Sequence[int], held_retry: bool) -> Assignment:
        """Become a member of a group on one broker; ``held`` are queues that were one's own when it was lost."""
        ...

    async def heartbeat(self, broker: str, joining: Joining, session: int, version: int, wait_ms: int) -> Assignment | None:
        """Stay a member; waits for an assignment that is newer than a version. ``None``: there is none."""
        ...

    async def release(self, broker: str, joining: Joining, session: int, generations: Sequence[int]) -> None:
        """Give queues up."""
        ...

    async def leave(self, broker: str, joining: Joining) -> None:
        """Be a member no longer."""
        ...

    async def pull(
        self,
        broker: str,
        topic: str,
        queue_id: int,
        offset: int,
        *,
        max_messages: int,
        max_bytes: int,
        wait_ms: int,
        group: str,
        generation: int = 0,
        is_retry: bool = False,
        selection: Selection = EVERYTHING,
    ) -> Pulled:
        """Records from an offset on, of those that are selected; waits where there are none yet."""
        ...

    async def commit(self, broker: str, topic: str, group: str, offsets: Sequence[CommittedOffset]) -> None:
        """How far a group has come in queues of one broker."""
        ...

    async def lease(
        self, broker: str, topic: str, group: str, terms: LeaseTerms, *, max_messages: int, max_bytes: int, wait_ms: int
    ) -> Granted:
        """Messages that are this client's for a while; waits where there are none."""
        ...

    async def settle(
        self, broker: str, topic: str, group: str, acked: list[LeasedOffsets], failed: list[FailedDelivery], *, consumer: str
    ) -> list[Unsettled]:
        """What became of messages; returns those that could not be settled."""
        ...

    async def extend(self, broker: str, topic: str, group: str, lease_ms: int, leases: list[LeasedOffsets]) -> list[Unsettled]:
        """Keep messages for so long from now; returns those that could not be kept."""
        ...

    # Looking after it

    async def create_topic(self, topic: str, queues: int, brokers: Sequence[str] | None, settings: TopicSettings) -> TopicFact: ...

    async def alter_topic(self, topic: str, changes: TopicChanges) -> TopicFact: ...

    async def delete_topic(self, topic: str) -> None: ...

    async def describe_topic(self, topic: str) -> TopicFact: ...

    async def topics(self) -> dict[str, int]:
        """All topics and the number of their queues."""
        ...

    async def brokers(self) -> list[BrokerFact]: ...

    async def find(self, topic: str, key: str, most: int) -> list[tuple[str, bytes]]:
        """The stored records with a key or message id, by broker."""
        ...

    # Looking after groups

    async def groups(self) -> list[GroupSummary]:
        """The groups of all brokers that are alive."""
        ...

    async def describe_group(self, group: str) -> GroupDescription | None:
        """A group on all brokers that are alive; ``None`` where none knows it."""
        ...

    async def plan_reset(self, topic: str, group: str, to: str, value: int) -> ResetPlan:
        """What setting a group's offsets would do."""
        ...

    async def reset(self, plan: ResetPlan, *, force: bool) -> ResetPlan:
        """Do what a plan says."""
        ...

    async def undo_reset(self, topic: str, group: str, reset_id: str, *, dry_run: bool, force: bool) -> ResetPlan:
        """Take a reset back, or only say what that would do."""
        ...

    async def pause_group(self, group: str, *, paused: bool) -> None:
        """Give a group nothing, or let it go on."""
        ...

    async def delete_group(self, group: str) -> None:
        """Forget a group, on all brokers that are alive."""
        ...

    async def offset_at_time(self, broker: str, topic: str, queue_id: int, store_timestamp: int) -> int:
        """The first offset of a queue that was stored at a time or later."""
        ...

    @property
    def dead_letters(self) -> DeadLetterBackend:
        """What has died."""
        ...

    @property
    def jobs(self) -> JobBackend:
        """What sends messages by itself."""
        ...

    @property
    def timers(self) -> TimerBackend:
        """What waits for its time."""
        ...

    @property
    def transactions(self) -> TransactionBackend:
        """What waits for its outcome."""
        ...

    @property
    def archives(self) -> ArchiveBackend:
        """What is kept elsewhere, too."""
        ...

    async def why(self, topic: str, message_id: str, group: str) -> list[WhyFact]:
        """Why a group has not consumed a message, says each broker that may know."""
        ...
