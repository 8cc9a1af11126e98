"""Archive fallback: read offsets that the broker has deleted from the topic's archive.

An entry point (``litemq.archives``) names the implementation, so the client does not depend on a
table library. An archive returns stored records, as a broker does. Threads read them, one portion
ahead.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Final, NamedTuple, Protocol

from litemq.client.consuming.queue_reader import QueueReader
from litemq.client.engine.archives import ArchivedQueue, ArchiveInfo
from litemq.client.engine.selection import Selection
from litemq.client.entry_points import installed
from litemq.errors import MissingExtraError

__all__ = ["Archive", "ArchiveFallback", "ArchiveRequest", "ArchivedRecords"]

_GROUP: Final = "litemq.archives"
_NAME: Final = "table"
_THREADS: Final = 2  # more threads only wait for the interpreter
_LOG = logging.getLogger(__name__)


class ArchiveRequest(NamedTuple):
    """Offsets ``begin`` to before ``end`` of one queue, requested in portions of ``max_bytes``."""

    broker: str
    queue_id: int
    topic_id: int  # a deleted topic of the same name had another id
    begin: int
    end: int
    max_bytes: int
    selection: Selection
    alive_at: int = 0  # skip messages that have expired by then, in ms since 1970; 0: skip none
    ttl_ms: int = 0  # of messages without a TTL; 0: they do not expire


class ArchivedRecords(NamedTuple):
    """Stored records of one queue: the selected ones from ``begin`` to before ``next``."""

    begin: int
    next: int
    records: bytes
    expired: int = 0  # messages skipped because they had expired


class Archive(Protocol):
    """A topic's archive. Several threads may call ``read``."""

    def read(self, request: ArchiveRequest) -> Iterator[ArchivedRecords]:
        """Yield portions in offset order. The archive lacks the offsets between two portions.

        Raises:
            ArchiveUnreadableError: The archive cannot be read now.
        """
        ...


class OpenArchive(Protocol):
    """The function that an entry point names.

    It opens the archive of ``topic``, and reads nothing yet.
    """

    def __call__(self, location: str, topic: str) -> Archive: ...


class _Stream:
    """The archived portions of one queue. A thread reads the next portion ahead."""

    def __init__(
        self, portions: Iterator[ArchivedRecords], position: int, end: int, threads: ThreadPoolExecutor
    ) -> None:
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


class ArchiveFallback:
    """Reads the queues of one topic from its archive, for one consumer or reader."""

    def __init__(self, topic: str) -> None:
        self._topic = topic
        self._threads: ThreadPoolExecutor | None = None
        self._open_archive: OpenArchive | None = None
        self._archives: dict[str, Archive] = {}
        self._streams: dict[tuple[str, int, bool], _Stream] = {}
        self._has_warned = False

    async def can_read(self) -> bool:
        """Return whether archives can be read here. If not, log the missing extra once."""
        try:
            await self._load()
        except MissingExtraError as error:
            if not self._has_warned:
                self._has_warned = True
                _LOG.warning("%s: skipping older messages, which only the topic's archive has: %s", self._topic, error)
            return False
        return True

    async def _load(self) -> OpenArchive:
        if self._open_archive is None:
            # Not on the event loop: importing pyarrow takes long.
            self._open_archive = await asyncio.get_running_loop().run_in_executor(self._pool(), _load)
        return self._open_archive

    def _pool(self) -> ThreadPoolExecutor:
        if self._threads is None:
            self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="litemq-archive")
        return self._threads

    def is_reading(self, reader: QueueReader) -> bool:
        """Return whether ``reader`` is being served from the archive at its present position."""
        stream = self._streams.get(reader.key)
        if stream is not None and (stream.position != reader.position or stream.position >= stream.end):
            self.end(reader)  # the reader has moved, or the stream is exhausted
            stream = None
        return stream is not None

    async def begin(
        self,
        reader: QueueReader,
        info: ArchiveInfo,
        queue: ArchivedQueue,
        *,
        max_bytes: int,
        selection: Selection,
        alive_at: int,
    ) -> None:
        """Read from the position of ``reader`` to the oldest offset that the broker has."""
        open_archive = await self._load()
        archive = self._archives.get(info.location)
        if archive is None:
            archive = self._archives[info.location] = open_archive(info.location, self._topic)
        topic_id = dict(info.topic_ids)[reader.broker]
        request = ArchiveRequest(
            reader.broker,
            reader.queue_id,
            topic_id,
            reader.position,
            queue.kept,
            max_bytes,
            selection,
            alive_at,
            info.ttl_ms,
        )
        self._streams[reader.key] = _Stream(archive.read(request), reader.position, queue.kept, self._pool())
        _LOG.info(
            "reading %d … %d of queue %d of %s on %s from %s",
            *(reader.position, queue.kept - 1, reader.queue_id, self._topic, reader.broker, info.location),
        )

    async def take(self, reader: QueueReader) -> tuple[ArchivedRecords | None, int]:
        """Return the next portion, if any, and the offset where the broker continues."""
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
            _LOG.info("skipped %d expired messages of queue %d of %s", portion.expired, reader.queue_id, self._topic)
        return portion, stream.end

    def end(self, reader: QueueReader) -> None:
        """Stop serving ``reader`` from the archive."""
        self._streams.pop(reader.key, None)

    def close(self) -> None:
        """Stop reading. Do not wait for reads that are under way."""
        self._streams.clear()
        if self._threads is not None:
            self._threads.shutdown(wait=False, cancel_futures=True)


def _load() -> OpenArchive:
    for entry in installed(_GROUP).select(name=_NAME):
        try:
            found: OpenArchive = entry.load()
        except ModuleNotFoundError as error:
            raise MissingExtraError(f"reading an archive (no module {error.name})", "archive") from None
        return found
    raise MissingExtraError("reading an archive", "archive")
