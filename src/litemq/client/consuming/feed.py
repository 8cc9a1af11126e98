"""The base of consumers and readers: reads all queues of a topic, whatever brokers come and go."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
from collections.abc import AsyncIterator, Coroutine
from datetime import timedelta
from functools import partial
from types import TracebackType
from typing import Any, Final, Self

from litemq.client.config import ClientConfig
from litemq.client.consuming.archive_reading import ArchiveFallback
from litemq.client.consuming.inbox import Inbox
from litemq.client.consuming.outage import Outage
from litemq.client.consuming.queue_reader import QueueReader
from litemq.client.engine.engine import Engine, PulledRecords, QueueInfo
from litemq.client.engine.selection import EVERYTHING, Selection
from litemq.client.messages.message import Message
from litemq.client.messages.serializers import Serializers
from litemq.client.times import seconds
from litemq.errors import (
    ArchiveUnreadableError,
    ConnectionLostError,
    InvalidArgumentError,
    LiteMQError,
    MissingExtraError,
    NotConfirmedError,
    NotGroupMemberError,
    NotMasterError,
    OffsetExpiredError,
    OverloadedError,
    RequestTimeoutError,
    StorageError,
)

__all__ = ["Feed"]

_LOG = logging.getLogger(__name__)
_MAX_PULL_BYTES: Final = 1 << 20
_MIN_PULL_BYTES: Final = 64 << 10
_TRANSIENT: Final = (
    ConnectionLostError,
    RequestTimeoutError,
    NotGroupMemberError,
    NotConfirmedError,
    NotMasterError,
    OverloadedError,
)
_LONG_S: Final = 10.0  # a failover takes less time: what lasts longer is logged as a warning
_ARCHIVE_DELAYS: Final = (0.2, 1.0, 5.0)  # seconds before a retry of an archive that cannot be read


class Feed(AsyncIterator[Message]):
    """An iterator over the messages of a topic.

    It starts reading when the first message is requested.
    """

    at_once = 256  # messages that a synchronous client fetches from the event loop together
    reader_type: type[QueueReader] = QueueReader

    def __init__(
        self,
        engine: Engine,
        topic: str,
        config: ClientConfig,
        serializers: Serializers,
        *,
        group: str,
        settles: bool,
        selection: Selection = EVERYTHING,
    ) -> None:
        self.topic = topic
        self._engine = engine
        self._config = config
        self._serializers = serializers
        self._group = group
        self._settles = settles
        self._selection = selection
        self._inbox = Inbox(config.prefetch_bytes)
        self._archive = ArchiveFallback(topic)
        self._queues: dict[tuple[str, int, bool], QueueReader] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._started = self._closed = False

    @property
    def is_closed(self) -> bool:
        """Whether ``close`` was called."""
        return self._closed

    @property
    def is_broken(self) -> bool:
        """Whether an error ended the reading of some queues. Close the feed and open another."""
        return self._inbox.is_broken

    # Hooks of consumers and readers ---------------------------------------------------------------

    async def _begin(self, broker: str) -> list[QueueInfo]:
        """Register with ``broker``, again after each lost connection; return its queues."""
        raise NotImplementedError

    async def _start_offset(self, queue: QueueInfo) -> int:
        """Return where to start reading ``queue``."""
        raise NotImplementedError

    async def _finish(self) -> None:
        """Clean up at the end of ``close``."""

    @property
    def _wait_ms(self) -> int:
        """How long a broker may hold a pull until messages arrive."""
        return self._config.fetch_wait_ms

    @property
    def _patience_s(self) -> float:
        """How long attempts may fail before the last error ends the reading."""
        return math.inf

    # Iterating ------------------------------------------------------------------------------------

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Message:
        message = self._inbox.take()
        return message if message is not None else await self._next()

    async def _next(self) -> Message:
        self._start()
        while await self._inbox.wait():
            message = self._inbox.take()
            if message is not None:
                return message
        raise StopAsyncIteration

    async def take(self, max_messages: int, wait: float | timedelta) -> list[Message]:
        """Return available messages, or the first ones that arrive within ``wait`` seconds.

        Args:
            max_messages: The most messages to return.
            wait: Seconds to wait for the first message.

        Returns:
            The messages; an empty list after ``wait`` seconds, or after ``stop``.

        Raises:
            InvalidArgumentError: An argument is invalid.
            TopicNotFoundError: The topic does not exist.
            FilterSyntaxError: The filter is invalid.
            OffsetExpiredError: Retention deleted unread messages. The next call continues after
                them.
            StorageError: A message is damaged. The next call continues after it.
            ArchiveUnreadableError: Older messages are in the archive, which cannot be read.
            OffsetOutOfRangeError: The group has no offset, and ``auto_offset_reset`` is ``error``.
        """
        if not isinstance(max_messages, int) or max_messages < 1:
            raise InvalidArgumentError(f"max_messages={max_messages!r:.80}: choose 1 or more")
        wait_s = seconds(wait, "wait")
        self._start()
        first = self._inbox.take()
        if first is None:
            try:
                async with asyncio.timeout(wait_s):
                    if not await self._inbox.wait():
                        return []
            except TimeoutError:
                return []
        taken = [] if first is None else [first]
        while len(taken) < max_messages:
            try:
                more = self._inbox.take_some(max_messages - len(taken))
            except LiteMQError as error:
                if not taken:
                    raise
                self._inbox.fail(error)
                break
            if not more:
                break
            taken += more
        return taken

    async def __aenter__(self) -> Self:
        self._start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()

    # Fetching -------------------------------------------------------------------------------------

    def _start(self) -> None:
        if not self._started and not self._closed:
            self._started = True
            self._run("", self._follow_route())

    def _run(self, name: str, work: Coroutine[Any, Any, None]) -> None:
        self._tasks[name] = asyncio.get_running_loop().create_task(
            self._guard(work), name=f"litemq reads {self.topic} {name}"
        )

    async def _guard(self, work: Coroutine[Any, Any, None]) -> None:
        try:
            await work
        except LiteMQError as error:
            self._inbox.break_off(error)
        except Exception as error:  # noqa: BLE001  the caller gets the error instead of waiting forever
            _LOG.exception("reading %s ended", self.topic)
            self._inbox.break_off(error)

    async def _follow_route(self) -> None:
        """Read from each broker of the route, and from those that join later."""
        refresh = self._config.route_refresh_ms / 1000
        outage = Outage(self._config)
        found = False
        while True:
            try:
                route = await self._engine.route(self.topic, create=self._settles and not found)
            except LiteMQError as error:
                if not error.retriable or (outage.failed() >= self._patience_s and not found):
                    raise
                if not outage.is_logged:
                    _LOG.warning("reading %s, retrying: %s", self.topic, error)
                outage.is_logged = True
            else:
                found = True
                outage.end()
                for broker in route.brokers:
                    if broker.name not in self._tasks:
                        self._run(broker.name, self._read_broker(broker.name))
            await asyncio.sleep(refresh if found else min(refresh, outage.next_delay()))

    async def _read_broker(self, broker: str) -> None:
        outage = Outage(self._config)
        while True:
            try:
                queues = await self._begin(broker)
                outage.end()
                await self._read_queues(queues)
            except _TRANSIENT as error:
                await self._pause(outage, broker, error)

    async def _pause(self, outage: Outage, broker: str, error: LiteMQError, min_ms: int = 0) -> None:
        """Wait before the next attempt to read from ``broker``, or raise ``error`` at last."""
        lasts_s = outage.failed()
        if lasts_s >= self._patience_s:
            raise error
        is_news = lasts_s >= _LONG_S and not outage.is_logged
        level = logging.WARNING if is_news else logging.INFO
        _LOG.log(level, "reading %s from %s fails, retrying: %s", self.topic, broker, error)
        outage.is_logged |= is_news
        await asyncio.sleep(outage.next_delay(min_ms))

    async def _read_queues(self, queues: list[QueueInfo]) -> None:
        readers = []
        for queue in queues:
            reader = self._queues.get(queue.key) or self._new_reader(queue, await self._start_offset(queue))
            self._check_start(reader, queue)
            readers.append(reader)
        tasks = [asyncio.get_running_loop().create_task(self._read_queue(reader)) for reader in readers]
        try:
            await asyncio.gather(*tasks)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    def _check_start(self, reader: QueueReader, queue: QueueInfo) -> None:
        """Report the offsets that neither the broker nor the archive has, and skip them."""
        oldest = queue.least if queue.earliest < 0 else min(queue.least, queue.earliest)
        if reader.position < oldest:
            self._skip_expired(reader, oldest)

    async def _oldest(self, queue: QueueInfo) -> int:
        """Return the oldest offset of ``queue`` that can be read here."""
        if 0 <= queue.earliest < queue.least and await self._archive.can_read():
            return queue.earliest
        return queue.least

    def _new_reader(self, queue: QueueInfo, start: int) -> QueueReader:
        reader = self._queues[queue.key] = self.reader_type(
            queue.broker,
            queue.queue_id,
            start,
            self._serializers,
            self._config.max_body_bytes,
            settles=self._settles,
            is_retry=queue.is_retry,
            generation=queue.generation,
        )
        return reader

    async def _read_queue(self, reader: QueueReader) -> None:
        config, inbox, pull = self._config, self._inbox, self._engine.pull
        max_bytes = max(_MIN_PULL_BYTES, min(_MAX_PULL_BYTES, config.prefetch_bytes // 4))
        broker, queue_id = reader.broker, reader.queue_id
        self._reached(reader)
        deliver = partial(self._deliver, reader)
        while True:
            await inbox.wait_for_space(reader)
            try:
                last = await pull(
                    broker,
                    self.topic,
                    queue_id,
                    reader.position,
                    max_messages=config.max_poll_records,
                    max_bytes=max_bytes,
                    wait_ms=self._wait_ms,
                    group=self._group,
                    generation=reader.generation,
                    is_retry=reader.is_retry,
                    selection=EVERYTHING if reader.is_retry else self._selection,  # retries passed the filter before
                    on_part=deliver,
                )
            except OverloadedError as error:
                await asyncio.sleep(max(error.retry_after_ms, config.retry_backoff_ms) / 1000)
                continue
            except OffsetExpiredError:
                await self._read_archived(reader, max_bytes)
                continue
            deliver(last)

    def _deliver(self, reader: QueueReader, pulled: PulledRecords) -> None:
        records, next_offset, damaged = pulled
        if records:
            messages = reader.decode(records)
            if messages:
                self._inbox.put(messages, len(records), reader)
        if damaged:
            self._inbox.fail(
                StorageError(
                    f"a message of queue {reader.queue_id} on {reader.broker} is damaged and was skipped: {damaged}"
                )
            )
        if next_offset > reader.position:
            reader.pass_to(next_offset)
        self._reached(reader)

    async def _read_archived(self, reader: QueueReader, max_bytes: int) -> None:
        """Deliver the next portion from the archive, or skip what the archive lacks.

        The caller then asks the broker again, which delivers nothing to a paused group and rejects
        a lost owner.
        """
        if not self._archive.is_reading(reader) and not await self._begin_archived(reader, max_bytes):
            return
        for delay in (*_ARCHIVE_DELAYS, None):
            try:
                portion, end = await self._archive.take(reader)
                break
            except ArchiveUnreadableError as error:
                if delay is None:
                    raise
                _LOG.warning("%s", error)
                await asyncio.sleep(delay)
                if not await self._begin_archived(reader, max_bytes):
                    return
        if portion is None or portion.begin > reader.position:
            self._skip_expired(reader, end if portion is None else portion.begin)
        if portion is not None:
            messages = reader.decode(portion.records)
            if messages:
                self._inbox.put(messages, len(portion.records), reader)
            reader.pass_to(portion.next)
        self._reached(reader)

    async def _begin_archived(self, reader: QueueReader, max_bytes: int) -> bool:
        """Start to read from the archive; return whether it can be read.

        If not, ``reader`` moves to the next offset that can be read.
        """
        archive = await self._engine.archives.describe(self.topic, reader.broker)
        queue = next(
            (each for each in archive.queues if each.queue_id == reader.queue_id and not reader.is_retry), None
        )
        if queue is None or queue.begin >= queue.next:
            topic = await self._engine.describe_topic(self.topic, reader.broker)
            oldest = [
                each.least for each in topic.queues if (each.broker, each.queue_id) == (reader.broker, reader.queue_id)
            ]
            self._skip_expired(reader, max([reader.position + 1, *oldest]))
            return False
        if reader.position < queue.begin:
            self._skip_expired(reader, min(queue.begin, queue.kept))
        if reader.position >= queue.kept:
            return False
        alive_at = self._engine.wall_ms() if self._group else 0
        try:
            await self._archive.begin(
                reader, archive, queue, max_bytes=max_bytes, selection=self._selection, alive_at=alive_at
            )
        except MissingExtraError as error:
            self._skip_expired(reader, queue.kept, f". The topic's archive {archive.location} has them: {error}")
            return False
        return True

    def _reached(self, reader: QueueReader) -> None:
        """Called when ``reader`` has read up to its position."""

    def _skip_expired(self, reader: QueueReader, end_offset: int, hint: str = "") -> None:
        """Report that the offsets below ``end_offset`` are gone, and continue there."""
        self._inbox.fail(
            OffsetExpiredError(
                f"offsets {reader.position} … {end_offset - 1} of queue {reader.queue_id} of {self.topic!r} on "
                f"{reader.broker} are gone: retention deleted them before they were read. Reading continues "
                f"after them{hint}"
            )
        )
        reader.skip_to(end_offset)

    # Closing --------------------------------------------------------------------------------------

    def stop(self) -> None:
        """End the iteration: deliver no more messages. Raises nothing.

        ``close`` must still be called.
        """
        self._inbox.end()

    def _stop_reading(self) -> None:
        """Fetch nothing more. Messages that are fetched are still delivered."""
        for task in self._tasks.values():
            task.cancel()

    async def close(self) -> None:
        """Stop reading. Unacknowledged messages are delivered again. Raises nothing."""
        if self._closed:
            return
        self._closed = True
        for reader in self._queues.values():
            reader.is_closed = True
        self._inbox.end()
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._archive.close()
        if self._started:
            with contextlib.suppress(ConnectionLostError, RequestTimeoutError):
                await self._finish()
