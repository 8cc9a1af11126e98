"""Reading on from a topic's archive, where a position is older than what its broker has.

Whoever can read archives is found by entry point (``litemq.archives``): the client itself knows nothing of tables. What comes from there is
the stored records themselves, as a broker would have answered, read in threads, one portion ahead of whoever takes them.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from importlib.metadata import entry_points
from typing import Final, NamedTuple, Protocol

from litemq.client.consuming.queue_reader import QueueReader
from litemq.client.engine.archives import ArchivedQueue, ArchiveFact
from litemq.client.engine.selection import Selection
from litemq.errors import MissingExtraError

__all__ = ["Archive", "ArchivedRecords", "ColdReading", "Wanted"]

_GROUP: Final = "litemq.archives"
_NAME: Final = "table"
_THREADS: Final = 2  # more of them wait for each other and for the interpreter
_LOG = logging.getLogger(__name__)


class Wanted(NamedTuple):
    """What somebody wants of one queue: the offsets from ``begin`` to before ``end``, a portion of some bytes at a time."""

    broker: str
    queue_id: int
    topic_id: int  # a topic of that name that was deleted had another
    begin: int
    end: int
    max_bytes: int
    selection: Selection
    alive_at: int = 0  # leave out what has expired by then, in ms since 1970; 0: nothing does
    ttl_ms: int = 0  # of messages that name none; 0: they stay


class ArchivedRecords(NamedTuple):
    """Stored records of one queue: what was wanted of the offsets from ``begin`` to before ``next``, all of which the archive has."""

    begin: int
    next: int
    records: bytes
    expired: int = 0  # how many were left out for that


class Archive(Protocol):
    """A topic's archive, as it is found at a location. Several threads may read."""

    def read(self, wanted: Wanted) -> Iterator[ArchivedRecords]:
        """Portions in the order of their offsets. What is missing between them the archive does not have.

        Raises ``ArchiveUnreadableError`` where it cannot tell.
        """
        ...


class OpenArchive(Protocol):
    """What an entry point names. It reads nothing yet."""

    def __call__(self, location: str, topic: str) -> Archive: ...


class _Stream:
    """One queue, as it is read from the archive: the next portion is on its way."""

    def __init__(self, portions: Iterator[ArchivedRecords], position: int, end: int, threads: ThreadPoolExecutor) -> None:
        self._portions = portions
        self._threads = threads
        self.position = position
        self.end = end
        self._next: Future[ArchivedRecords | None] = threads.submit(next, portions, None)

    async def take(self) -> ArchivedRecords | None:
        portion = await asyncio.shield(asyncio.wrap_future(self._next))
        if portion is not None:
            self.position = portion.next
            self._next = self._threads.submit(next, self._portions, None)
        return portion


class ColdReading:
    """What a consumer or a reader of a topic reads from its archive."""

    def __init__(self, topic: str) -> None:
        self._topic = topic
        self._threads: ThreadPoolExecutor | None = None
        self._open_archive: OpenArchive | None = None
        self._archives: dict[str, Archive] = {}
        self._streams: dict[tuple[str, int, bool], _Stream] = {}
        self._has_warned = False

    async def can_read(self) -> bool:
        """Whether archives can be read here; says once in the log what is missing."""
        try:
            await self._load()
        except MissingExtraError as error:
            if not self._has_warned:
                self._has_warned = True
                _LOG.warning("%s: older messages are in the topic's archive, and are left out: %s", self._topic, error)
            return False
        return True

    async def _load(self) -> OpenArchive:
        if self._open_archive is None:
            # Not on the event loop: pyarrow takes its time.
            self._open_archive = await asyncio.get_running_loop().run_in_executor(self._pool(), _load)
        return self._open_archive

    def _pool(self) -> ThreadPoolExecutor:
        if self._threads is None:
            self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="litemq-archive")
        return self._threads

    def is_reading(self, reader: QueueReader) -> bool:
        """Whether a queue is being read from the archive, and its reader is where that is."""
        stream = self._streams.get(reader.key)
        if stream is not None and (stream.position != reader.position or stream.position >= stream.end):
            self.end(reader)  # what was fetched is to be fetched again, or all of it is here
            stream = None
        return stream is not None

    async def begin(
        self, reader: QueueReader, fact: ArchiveFact, queue: ArchivedQueue, *, max_bytes: int, selection: Selection, alive_at: int
    ) -> None:
        """Read a queue from its reader's position up to the oldest offset that the broker has."""
        open_archive = await self._load()
        archive = self._archives.get(fact.location)
        if archive is None:
            archive = self._archives[fact.location] = open_archive(fact.location, self._topic)
        topic_id = dict(fact.topic_ids)[reader.broker]
        wanted = Wanted(reader.broker, reader.queue_id, topic_id, reader.position, queue.kept, max_bytes, selection, alive_at, fact.ttl_ms)
        self._streams[reader.key] = _Stream(archive.read(wanted), reader.position, queue.kept, self._pool())
        _LOG.info(
            "reading %d … %d of queue %d of %s on %s from %s",
            *(reader.position, queue.kept - 1, reader.queue_id, self._topic, reader.broker, fact.location),
        )

    async def take(self, reader: QueueReader) -> tuple[ArchivedRecords | None, int]:
        """The next portion of a queue, or nothing where the archive has no more of it; and the offset at which the broker goes on."""
        stream = self._streams[reader.key]
        try:
            portion = await stream.take()
        except BaseException as error:
            if not isinstance(error, asyncio.CancelledError):
                self.end(reader)
            raise
        if portion is None:
            self.end(reader)
        elif portion.expired:
            _LOG.info("%d messages of queue %d of %s have expired, and are passed by", portion.expired, reader.queue_id, self._topic)
        return portion, stream.end

    def end(self, reader: QueueReader) -> None:
        """A queue is read from the archive no longer."""
        self._streams.pop(reader.key, None)

    def close(self) -> None:
        """Read no more; whoever waits for a disk now is not waited for."""
        self._streams.clear()
        if self._threads is not None:
            self._threads.shutdown(wait=False, cancel_futures=True)


def _load() -> OpenArchive:
    for entry in entry_points(group=_GROUP, name=_NAME):
        try:
            found: OpenArchive = entry.load()
        except ModuleNotFoundError as error:
            raise MissingExtraError(f"reading an archive (no module {error.name})", "archive") from None
        return found
    raise MissingExtraError("reading an archive", "archive")
