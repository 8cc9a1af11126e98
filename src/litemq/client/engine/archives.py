"""The archive of a topic, as an engine knows it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

__all__ = ["ArchiveBackend", "ArchiveFact", "ArchivedQueue"]


class ArchivedQueue(NamedTuple):
    """What an archive has of a queue: the offsets from ``begin`` up to ``next``, which is still to come.

    Below 0, ``begin`` is not known: it is the oldest offset that the broker had when it first heard of the archive.
    """

    broker: str
    queue_id: int
    begin: int
    next: int
    kept: int = 0  # the oldest offset that the broker has itself


class ArchiveFact(NamedTuple):
    """A topic's archive, as its brokers were told of it."""

    topic: str
    location: str  # empty: there is none
    reported_at: int  # ms since 1970: when something new was last heard of it
    queues: tuple[ArchivedQueue, ...]
    topic_ids: tuple[tuple[str, int], ...]  # by broker, the topic's number in its records
    ttl_ms: int = 0  # of messages that name none; 0: they stay


class ArchiveBackend(Protocol):
    """What an engine does for archives."""

    async def report(self, topic: str, location: str, queues: Sequence[ArchivedQueue], *, replaces: bool) -> None:
        """How far an archive has come; ``replaces``: it is another one than before."""
        ...

    async def describe(self, topic: str, broker: str = "") -> ArchiveFact:
        """What was told of a topic's archive; by one broker, where it is named."""
        ...
