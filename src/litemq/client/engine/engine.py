"""The engine interface: ``litemq://`` and ``memory://`` implement ``Engine``.

Other engines register an entry point.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from litemq.client.engine.archives import ArchiveEngine
from litemq.client.engine.dead_letters import DeadLetterEngine
from litemq.client.engine.groups import GroupDescription, GroupJoin, GroupSummary, ResetPlan
from litemq.client.engine.jobs import JobEngine
from litemq.client.engine.replicas import GroupRecovery, MasterSwitch, ReplicaGroupInfo
from litemq.client.engine.routes import Route
from litemq.client.engine.selection import EVERYTHING, Selection
from litemq.client.engine.survey import Survey
from litemq.client.engine.timers import TimerEngine
from litemq.client.engine.topics import TopicChanges, TopicSettings
from litemq.client.engine.transactions import TransactionEngine
from litemq.client.messages.delivery_options import NO_OPTIONS, DeliveryOptions
from litemq.client.messages.outgoing import SendReceipt
from litemq.client.settling.settlements import FailedDelivery, LeasedOffsets, Unsettled
from litemq.types import BodyCodec, Durability

__all__ = [
    "Assignment",
    "BrokerInfo",
    "CommittedOffset",
    "Engine",
    "LeaseOptions",
    "LeasedRecords",
    "Post",
    "PulledRecords",
    "QueueInfo",
    "TopicInfo",
    "WhyInfo",
]


class QueueInfo(NamedTuple):
    """A queue: the offsets it holds, and the offset that a group has committed (-1: none)."""

    broker: str
    queue_id: int
    least: int  # the oldest offset on the broker
    next: int  # the offset of the next message
    committed: int = -1
    is_retry: bool = False  # the group's own queue of messages to retry
    generation: int = 0  # of the member's ownership
    earliest: int = -1  # the oldest readable offset; below ``least``, it is in the topic's archive

    @property
    def key(self) -> tuple[str, int, bool]:
        """Return what identifies the queue within its topic."""
        return self.broker, self.queue_id, self.is_retry


class TopicInfo(NamedTuple):
    """A topic and its queues on all brokers."""

    topic: str
    queues: tuple[QueueInfo, ...]
    settings: TopicSettings = TopicSettings()


class Assignment(NamedTuple):
    """The queues of one broker that a member reads, and the generations that it must release."""

    session: int
    version: int
    queues: tuple[QueueInfo, ...]
    release: tuple[int, ...]
    reset_id: str  # of the latest reset of the group's offsets
    session_timeout_ms: int


class CommittedOffset(NamedTuple):
    """The offset that a group commits in one queue."""

    queue_id: int
    offset: int
    generation: int
    is_retry: bool = False


class BrokerInfo(NamedTuple):
    """A broker: what the NameServer knows of it, and whether it answers."""

    name: str
    address: str
    alive: bool  # its heartbeats arrive at the NameServer
    software: str
    topics: int
    started_at: int = 0  # ms since 1970
    heard_ms_ago: int = 0  # since its last heartbeat
    problem: str = ""  # why it does not answer this client; empty: it does


class PulledRecords(NamedTuple):
    """Stored records of one queue, and the offset of the next pull, if it is not after them."""

    records: bytes
    next_offset: int
    damaged: str  # describes records that were skipped because they cannot be read; usually empty


class WhyInfo(NamedTuple):
    """One broker's explanation of why a group has or has not consumed a message."""

    broker: str
    verdict: str  # one word
    topic: str  # empty: the broker has no such message
    sentence: str  # the verdict as a sentence
    advice: str  # what to do
    facts: tuple[str, ...]  # the evidence


class LeaseOptions(NamedTuple):
    """How long messages are leased, and which."""

    lease_ms: int
    max_retries: int  # messages with more retries become dead letters
    from_latest: bool = False  # a new group starts at the end of each queue
    filter: str = ""
    filter_is_sql: bool = False


class LeasedRecords(NamedTuple):
    """Stored records under one lease, and the number of the delivery attempt for each."""

    records: bytes
    token: int
    counts: list[int]


class Post(Protocol):
    """Take a message; the future is its receipt.

    Raises ``BufferFullError`` if the send buffer is full.
    """

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
        options: DeliveryOptions = NO_OPTIONS,
        /,
    ) -> asyncio.Future[SendReceipt]: ...


AddPlain = Callable[[Any], asyncio.Future[SendReceipt] | None]


class Engine(Protocol):
    """The operations of an engine. Callers validate names and serialize bodies first."""

    async def open(self) -> None:
        """Make the first connections."""
        ...

    async def close(self, within: float) -> None:
        """Send buffered messages for up to ``within`` seconds, then disconnect."""
        ...

    # Sending

    async def wait_for_buffer(self) -> None:
        """Wait until the send buffer takes another message."""
        ...

    post: Post

    # By topic, how to add a message that has only a body and the client's durability to the request
    # that is open. ``None``, or no such function: post the message.
    add_plain: Mapping[str, AddPlain]

    def wall_ms(self) -> int:
        """Return the time by the clock that delays are measured with (ms since 1970)."""
        ...

    async def flush(self, within: float | None = None) -> None:
        """Wait until every message taken so far is stored or has failed."""
        ...

    def refusals(self) -> dict[str, str]:
        """Return why brokers refuse messages that are sent again, by broker."""
        ...

    # Reading

    async def route(self, topic: str, *, create: bool = False) -> Route:
        """Return the brokers of ``topic``.

        If ``create``, create a missing topic, unless the brokers forbid it.
        """
        ...

    async def join(self, broker: str, join: GroupJoin, held: Sequence[int], held_retry: bool) -> Assignment:
        """Become a member of a group on ``broker``.

        ``held`` are the queues it owned before it lost membership.
        """
        ...

    async def heartbeat(
        self, broker: str, join: GroupJoin, session: int, version: int, wait_ms: int
    ) -> Assignment | None:
        """Stay a member: wait up to ``wait_ms`` for an assignment newer than ``version``.

        Returns ``None`` if there is none.
        """
        ...

    async def release(self, broker: str, join: GroupJoin, session: int, generations: Sequence[int]) -> None:
        """Release the queues with these ``generations``."""
        ...

    async def leave(self, broker: str, join: GroupJoin) -> None:
        """End the membership."""
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
        on_part: Callable[[PulledRecords], None] | None = None,
    ) -> PulledRecords:
        """Return the selected records from ``offset`` on; wait up to ``wait_ms`` for the first.

        With ``on_part``, wait for ``max_messages`` or ``max_bytes``, and call it with the records
        that arrive meanwhile.
        """
        ...

    async def commit(self, broker: str, topic: str, group: str, offsets: Sequence[CommittedOffset]) -> None:
        """Commit the ``offsets`` of ``group`` in queues of ``broker``."""
        ...

    async def lease(
        self,
        broker: str,
        topic: str,
        group: str,
        options: LeaseOptions,
        *,
        max_messages: int,
        max_bytes: int,
        wait_ms: int,
    ) -> LeasedRecords:
        """Lease messages to this client; wait up to ``wait_ms`` for the first."""
        ...

    async def settle(
        self,
        broker: str,
        topic: str,
        group: str,
        acked: list[LeasedOffsets],
        failed: list[FailedDelivery],
        *,
        consumer: str,
    ) -> list[Unsettled]:
        """Report acknowledged and failed deliveries; return those not settled."""
        ...

    async def extend(
        self, broker: str, topic: str, group: str, lease_ms: int, leases: list[LeasedOffsets]
    ) -> list[Unsettled]:
        """Extend leases to ``lease_ms`` from now; return deliveries no longer leased."""
        ...

    # Topics and brokers

    async def create_topic(
        self, topic: str, queues: int, brokers: Sequence[str] | None, settings: TopicSettings
    ) -> TopicInfo: ...

    async def alter_topic(self, topic: str, changes: TopicChanges) -> TopicInfo: ...

    async def delete_topic(self, topic: str) -> None: ...

    async def describe_topic(self, topic: str, broker: str = "") -> TopicInfo:
        """Return a topic and its queues on all brokers, or only on ``broker``."""
        ...

    async def topics(self) -> dict[str, int]:
        """Return all topics, with the number of their queues."""
        ...

    async def brokers(self) -> list[BrokerInfo]: ...

    async def replica_groups(self) -> list[ReplicaGroupInfo]: ...

    async def switch_master(self, group: str, replica: str) -> MasterSwitch: ...

    async def recover_group(self, group: str, *, applies: bool, forces: bool) -> GroupRecovery: ...

    async def elect_unclean(self, group: str, replica: str, revision: int) -> ReplicaGroupInfo: ...

    async def survey(self, topic: str = "") -> Survey:
        """Find out which brokers answer: all, or those that have ``topic``."""
        ...

    async def find(self, broker: str, topic: str, key: str, limit: int) -> bytes:
        """Return up to ``limit`` stored records with this key or message id, the newest first."""
        ...

    # Groups

    async def groups(self) -> list[GroupSummary]:
        """Return the groups of all brokers."""
        ...

    async def describe_group(self, group: str) -> GroupDescription | None:
        """Return a group on all brokers; ``None`` if none knows it."""
        ...

    async def plan_reset(self, topic: str, group: str, to: str, value: int) -> ResetPlan:
        """Return what a reset of the group's offsets would do."""
        ...

    async def reset(self, plan: ResetPlan, *, force: bool) -> ResetPlan:
        """Reset offsets according to ``plan``."""
        ...

    async def undo_reset(self, topic: str, group: str, reset_id: str, *, dry_run: bool, force: bool) -> ResetPlan:
        """Undo a reset; ``dry_run``: return only what that would do."""
        ...

    async def pause_group(self, group: str, *, paused: bool) -> None:
        """Pause or resume delivery to a group."""
        ...

    async def delete_group(self, group: str) -> None:
        """Delete a group on all brokers, or on none if one does not answer."""
        ...

    async def offset_at_time(self, broker: str, topic: str, queue_id: int, store_timestamp: int) -> int:
        """Return the first offset of a queue stored at ``store_timestamp`` (ms) or later."""
        ...

    @property
    def dead_letters(self) -> DeadLetterEngine: ...

    @property
    def jobs(self) -> JobEngine: ...

    @property
    def timers(self) -> TimerEngine: ...

    @property
    def transactions(self) -> TransactionEngine: ...

    @property
    def archives(self) -> ArchiveEngine: ...

    async def why(self, broker: str, topic: str, message_id: str, group: str) -> WhyInfo:
        """Return a broker's explanation of why ``group`` has not consumed a message."""
        ...
