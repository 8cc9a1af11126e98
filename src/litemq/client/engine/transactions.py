"""What an engine does with transactions, and what it tells about them."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from enum import Enum
from typing import NamedTuple, Protocol

from litemq.types import Durability

__all__ = ["CheckFact", "HalfPlace", "TransactionBackend", "TransactionFact", "TransactionPage", "TransactionState"]


class TransactionState(Enum):
    """What is known of a transaction; the values are the words for it."""

    NOT_KNOWN = "not known"
    UNDECIDED = "undecided"
    COMMITTED = "committed"
    ROLLED_BACK = "rolled back"
    DEAD = "dead"  # nobody decided it: it is in the dead letters
    INCOMPLETE = "incomplete"  # of a commit: the broker has not as many messages as were sent


class HalfPlace(NamedTuple):
    """Where a message of a transaction goes once it is committed."""

    broker: str
    queue_id: int
    default_durability: Durability


class CheckFact(NamedTuple):
    """One time that somebody was to be asked for a transaction's outcome."""

    at: int  # ms since 1970
    asked: str  # a client; empty: nobody of the group was there
    unknown: bool  # it said that it does not know


class TransactionFact(NamedTuple):
    """A transaction that a broker knows. Of one that has ended, only its state is known."""

    transaction_id: str
    broker: str
    group_id: str  # empty: a job's
    state: TransactionState
    messages: int
    size: int  # bytes
    stored_at: int  # ms since 1970; 0: not known any more
    checks: int
    next_check_at: int  # ms; 0: there is none
    topics: tuple[str, ...]
    story: tuple[CheckFact, ...]
    is_sink: bool


class TransactionPage(NamedTuple):
    """Some transactions of one broker, by their ids."""

    facts: tuple[TransactionFact, ...]
    next_after: str
    is_end: bool


class TransactionBackend(Protocol):
    """The transactions of a cluster. Each is at one broker."""

    async def place(self, topic: str, broker: str, ordering_key: str, keys: Sequence[str], priority: int) -> HalfPlace:
        """A queue for a message; of this broker, where one is named."""
        ...

    async def send(self, broker: str, topic: str, queue_id: int, record: bytes) -> int:
        """Store a half; returns when it was (ms). It is sent again where its answer is lost, and stored once."""
        ...

    def end(self, transaction_id: str, outcome: TransactionState, count: int = 0) -> asyncio.Future[TransactionState]:
        """Say how a transaction ends, or that one does not know; the future is what is so by now. ``count``: how many messages it has."""
        ...

    async def brokers(self) -> list[str]:
        """Those that are alive."""
        ...

    async def poll(self, broker: str, group: str, wait_ms: int) -> list[tuple[TransactionFact, list[bytes]]]:
        """Wait until outcomes of a group's transactions are asked for; with the stored records of each."""
        ...

    async def describe(self, transaction_id: str) -> tuple[TransactionFact, list[bytes]]:
        """A transaction, and its records while it is not decided."""
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
        most: int,
    ) -> TransactionPage:
        """Some transactions of a broker; without a state, those that have not ended."""
        ...
