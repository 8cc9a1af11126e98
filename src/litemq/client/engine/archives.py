"""The archive part of the engine interface: report and describe the archive of a topic."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

__all__ = ["ArchiveEngine", "ArchiveInfo", "ArchivedQueue"]


class ArchivedQueue(NamedTuple):
    """The archived offsets of a queue: from ``begin`` up to, but not including, ``next``.

    A negative ``begin`` means the oldest offset that the broker had when the archive was first
    reported.
    """

    broker: str
    queue_id: int
    begin: int
    next: int
    kept: int = 0  # the oldest offset that the broker itself still has


class ArchiveInfo(NamedTuple):
    """A topic's archive, as it was reported to the topic's brokers."""

    topic: str
    location: str  # empty: the topic has no archive
    reported_at: int  # ms since 1970, of the last report that changed anything
    queues: tuple[ArchivedQueue, ...]
    topic_ids: tuple[tuple[str, int], ...]  # for each broker, the topic's number in its records
    ttl_ms: int = 0  # of messages without a TTL of their own; 0: they do not expire


class ArchiveEngine(Protocol):
    """The archives of a cluster's topics."""

    async def report(self, topic: str, location: str, queues: Sequence[ArchivedQueue], *, replaces: bool) -> None:
        """Report which offsets the archive at ``location`` holds.

        If ``replaces``, it replaces an earlier archive.
        """
        ...

    async def describe(self, topic: str, broker: str = "") -> ArchiveInfo:
        """Return what all brokers, or only ``broker``, know of the archive of ``topic``."""
        ...
