"""The transaction part of the engine interface: halves, outcomes and check-backs."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from enum import Enum
from typing import NamedTuple, Protocol

from litemq.types import Durability

__all__ = ["CheckInfo", "HalfPosition", "TransactionEngine", "TransactionInfo", "TransactionPage", "TransactionState"]


class TransactionState(Enum):
    """The state of a transaction; the values are the names that users see."""

    NOT_KNOWN = "not known"
    UNDECIDED = "undecided"
    COMMITTED = "committed"
    ROLLED_BACK = "rolled back"
    DEAD = "dead"  # undecided after all check-backs: its messages are dead letters
    INCOMPLETE = "incomplete"  # of a commit: the broker has fewer messages than were sent


class HalfPosition(NamedTuple):
    """The queue that a half goes to once it is committed."""

    broker: str
    queue_id: int
    default_durability: Durability


class CheckInfo(NamedTuple):
    """One check-back of a transaction."""

    at: int  # ms since 1970
    asked: str  # the client that received it; empty: no member of the group was connected
    unknown: bool  # the client answered *unknown*


class TransactionInfo(NamedTuple):
    """A transaction. Once it has ended, the broker knows only its state."""

    transaction_id: str
    broker: str
    group_id: str  # empty: the transaction of a Spark sink
    state: TransactionState
    messages: int
    size: int  # bytes
    stored_at: int  # ms since 1970; 0: no longer known
    checks: int
    next_check_at: int  # ms since 1970; 0: none
    topics: tuple[str, ...]
    story: tuple[CheckInfo, ...]  # the check-backs so far
    is_sink: bool


class TransactionPage(NamedTuple):
    """One page of a broker's transactions, sorted by id."""

    transactions: tuple[TransactionInfo, ...]
    next_after: str
    is_end: bool


class TransactionEngine(Protocol):
    """The transactions of a cluster. All messages of a transaction are on one broker."""

    async def choose_queue(
        self, topic: str, broker: str, ordering_key: str, keys: Sequence[str], priority: int
    ) -> HalfPosition:
        """Choose the queue of a message; on ``broker``, unless that is empty."""
        ...

    async def send(self, broker: str, topic: str, queue_id: int, record: bytes) -> int:
        """Store a half, and return its store time (ms).

        If the answer is lost, it is sent again but stored once.
        """
        ...

    def end(self, transaction_id: str, outcome: TransactionState, count: int = 0) -> asyncio.Future[TransactionState]:
        """Report the ``outcome`` of a transaction of ``count`` messages, or that it is unknown.

        The future is the transaction's resulting state.
        """
        ...

    async def brokers(self) -> list[str]:
        """Return the brokers that are alive."""
        ...

    async def poll(self, broker: str, group: str, wait_ms: int) -> list[tuple[TransactionInfo, list[bytes]]]:
        """Wait up to ``wait_ms`` for check-backs of ``group``.

        Return each transaction with its records.
        """
        ...

    async def describe(self, transaction_id: str) -> tuple[TransactionInfo, list[bytes]]:
        """Return a transaction; its records, too, while it is undecided."""
        ...

    async def page(
        self,
        broker: str,
        *,
        group: str,
        topic: str,
        stored_before: int,
        state: TransactionState | None,
        include_sinks: bool,
        after: str,
        limit: int,
    ) -> TransactionPage:
        """Return up to ``limit`` transactions behind ``after``.

        Without ``state``, return those that have not ended.
        """
        ...
