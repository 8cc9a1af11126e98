"""Reading a topic: all queues of all its brokers at once, each in order, through restarts of brokers and changes of the route."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Coroutine
from types import TracebackType
from typing import Any, Final, Self

from litemq.client.backoff import Backoff
from litemq.client.config import ClientConfig
from litemq.client.consuming.archive_reading import ColdReading
from litemq.client.consuming.inbox import Inbox
from litemq.client.consuming.queue_reader import QueueReader
from litemq.client.engine.engine import Backend, QueueFact
from litemq.client.engine.selection import EVERYTHING, Selection
from litemq.client.messages.message import Message
from litemq.client.messages.serializers import Serializers
from litemq.errors import (
    ArchiveUnreadableError,
    ConnectionLostError,
    LiteMQError,
    MissingExtraError,
    NoRouteError,
    NotGroupMemberError,
    OffsetExpiredError,
    OverloadedError,
    RequestTimeoutError,
    StorageError,
)

__all__ = ["Feed"]

_LOG = logging.getLogger(__name__)
_MOST_PULLED: Final = 1 << 20
_LEAST_PULLED: Final = 64 << 10
_ARCHIVE_DELAYS: Final = (0.2, 1.0, 5.0)  # seconds, before an archive that cannot be read is tried again


class Feed(AsyncIterator[Message]):
    """What a consumer and a reader have in common. It begins with the first message that is asked for."""

    at_once = 256  # messages that a synchronous client takes over together, and then has for itself
    reader_type: type[QueueReader] = QueueReader

    def __init__(
        self,
        backend: Backend,
        topic: str,
        config: ClientConfig,
        serializers: Serializers,
        *,
        group: str,
        settles: bool,
        selection: Selection = EVERYTHING,
    ) -> None:
        self.topic = topic
        self._backend = backend
        self._config = config
        self._serializers = serializers
        self._group = group
        self._settles = settles
        self._selection = selection
        self._inbox = Inbox(config.prefetch_bytes)
        self._cold = ColdReading(topic)
        self._queues: dict[tuple[str, int, bool], QueueReader] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._started = self._closed = False

    @property
    def is_closed(self) -> bool:
        return self._closed

    @property
    def is_broken(self) -> bool:
        """Whether an error ended the reading of some queues: close it, and begin again."""
        return self._inbox.is_broken

    # What a consumer and a reader do differently ------------------------------------------------------------------------------

    async def _begin(self, broker: str) -> list[QueueFact]:
        """Announce oneself to a broker, anew after each loss; returns its queues."""
        raise NotImplementedError

    async def _start_of(self, queue: QueueFact) -> int:
        """Where reading a queue begins that has not been read here before."""
        raise NotImplementedError

    async def _finish(self) -> None:
        """The last things to do before the end."""

    @property
    def _wait_ms(self) -> int:
        """How long a broker may wait for something to come."""
        return self._config.fetch_wait_ms

    # Iterating ----------------------------------------------------------------------------------------------------------------

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

    async def take(self, max_messages: int, wait: float) -> list[Message]:
        """Up to so many messages: what is here, or what comes first within ``wait`` seconds."""
        self._start()
        first = self._inbox.take()
        if first is None:
            try:
                async with asyncio.timeout(wait):
                    if not await self._inbox.wait():
                        return []
            except TimeoutError:
                return []
        taken = [] if first is None else [first]
        while len(taken) < max_messages:
            try:
                message = self._inbox.take()
            except LiteMQError as error:
                if not taken:
                    raise
                self._inbox.fail(error)
                break
            if message is None:
                break
            taken.append(message)
        return taken

    async def __aenter__(self) -> Self:
        self._start()
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        await self.close()

    # Fetching -----------------------------------------------------------------------------------------------------------------

    def _start(self) -> None:
        if not self._started and not self._closed:
            self._started = True
            self._run("", self._follow_route())

    def _run(self, name: str, work: Coroutine[Any, Any, None]) -> None:
        self._tasks[name] = asyncio.get_running_loop().create_task(self._guard(work), name=f"litemq reads {self.topic} {name}")

    async def _guard(self, work: Coroutine[Any, Any, None]) -> None:
        try:
            await work
        except LiteMQError as error:
            self._inbox.break_off(error)
        except Exception as error:  # noqa: BLE001  whoever reads is told, instead of waiting for ever
            _LOG.exception("reading %s ended", self.topic)
            self._inbox.break_off(error)

    async def _follow_route(self) -> None:
        """Read from every broker that the route names, and from those that join it later."""
        refresh = self._config.route_refresh_ms / 1000
        found = False
        while True:
            try:
                route = await self._backend.route(self.topic, create=self._settles and not found)
            except NoRouteError as error:
                _LOG.warning("reading %s: %s", self.topic, error)
            else:
                found = True
                for place in route.brokers:
                    if place.name not in self._tasks:
                        self._run(place.name, self._read_broker(place.name))
            await asyncio.sleep(refresh)

    async def _read_broker(self, broker: str) -> None:
        backoff = Backoff(self._config.retry_backoff_ms, self._config.max_retry_backoff_ms)
        while True:
            try:
                queues = await self._begin(broker)
                backoff.reset()
                await self._read_queues(queues)
            except (ConnectionLostError, RequestTimeoutError, NotGroupMemberError, OverloadedError) as error:
                _LOG.info("reading %s from %s again: %s", self.topic, broker, error)
                await asyncio.sleep(backoff.next())

    async def _read_queues(self, queues: list[QueueFact]) -> None:
        readers = []
        for queue in queues:
            reader = self._queues.get(queue.key) or self._new_reader(queue, await self._start_of(queue))
            self._check_start(reader, queue)
            readers.append(reader)
        tasks = [asyncio.get_running_loop().create_task(self._read_queue(reader)) for reader in readers]
        try:
            await asyncio.gather(*tasks)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    def _check_start(self, reader: QueueReader, queue: QueueFact) -> None:
        """What nobody has any more is passed by; what only the archive has is read from there."""
        oldest = queue.least if queue.earliest < 0 else min(queue.least, queue.earliest)
        if reader.position < oldest:
            self._expired(reader, oldest)

    async def _oldest(self, queue: QueueFact) -> int:
        """The oldest offset that can be read here."""
        if 0 <= queue.earliest < queue.least and await self._cold.can_read():
            return queue.earliest
        return queue.least

    def _new_reader(self, queue: QueueFact, start: int) -> QueueReader:
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
        config, inbox, pull = self._config, self._inbox, self._backend.pull
        max_bytes = max(_LEAST_PULLED, min(_MOST_PULLED, config.prefetch_bytes // 4))
        broker, queue_id = reader.broker, reader.queue_id
        self._reached(reader)
        while True:
            await inbox.wait_for_room(reader)
            position = reader.position
            try:
                records, next_offset, damaged = await pull(
                    broker,
                    self.topic,
                    queue_id,
                    position,
                    max_messages=config.max_poll_records,
                    max_bytes=max_bytes,
                    wait_ms=self._wait_ms,
                    group=self._group,
                    generation=reader.generation,
                    is_retry=reader.is_retry,
                    selection=EVERYTHING if reader.is_retry else self._selection,  # what is tried again was wanted before
                )
            except OverloadedError as error:
                await asyncio.sleep(max(error.retry_after_ms, config.retry_backoff_ms) / 1000)
                continue
            except OffsetExpiredError:
                await self._read_archived(reader, max_bytes)
                continue
            if records:
                messages = reader.decode(records)
                if messages:
                    inbox.put(messages, len(records), reader)
            if damaged:
                inbox.fail(StorageError(f"a message of queue {queue_id} on {broker} cannot be read, and is passed by: {damaged}"))
            if next_offset > reader.position:
                reader.pass_to(next_offset)
            self._reached(reader)

    async def _read_archived(self, reader: QueueReader, max_bytes: int) -> None:
        """The broker has a position no more: take a portion from the topic's archive, or pass by what that lacks.

        Whoever comes back asks the broker first: so a group that is paused gets nothing, and one who has lost the queue is told.
        """
        if not self._cold.is_reading(reader) and not await self._begin_archived(reader, max_bytes):
            return
        for delay in (*_ARCHIVE_DELAYS, None):
            try:
                portion, end = await self._cold.take(reader)
                break
            except ArchiveUnreadableError as error:
                if delay is None:
                    raise
                _LOG.warning("%s", error)
                await asyncio.sleep(delay)
                if not await self._begin_archived(reader, max_bytes):
                    return
        if portion is None or portion.begin > reader.position:
            self._expired(reader, end if portion is None else portion.begin)
        if portion is not None:
            messages = reader.decode(portion.records)
            if messages:
                self._inbox.put(messages, len(portion.records), reader)
            reader.pass_to(portion.next)
        self._reached(reader)

    async def _begin_archived(self, reader: QueueReader, max_bytes: int) -> bool:
        """Whether a queue is now read from the archive; if not, its reader is where it can go on."""
        fact = await self._backend.archives.describe(self.topic, reader.broker)
        queue = next((each for each in fact.queues if each.queue_id == reader.queue_id and not reader.is_retry), None)
        if queue is None or queue.begin >= queue.next:
            topic = await self._backend.describe_topic(self.topic)
            least = [each.least for each in topic.queues if (each.broker, each.queue_id) == (reader.broker, reader.queue_id)]
            self._expired(reader, max([reader.position + 1, *least]))
            return False
        if reader.position < queue.begin:
            self._expired(reader, min(queue.begin, queue.kept))
        if reader.position >= queue.kept:
            return False
        alive_at = self._backend.wall_ms() if self._group else 0
        try:
            await self._cold.begin(reader, fact, queue, max_bytes=max_bytes, selection=self._selection, alive_at=alive_at)
        except MissingExtraError as error:
            self._expired(reader, queue.kept, f". The topic's archive {fact.location} has them: {error}")
            return False
        return True

    def _reached(self, reader: QueueReader) -> None:
        """A queue was read up to its position."""

    def _expired(self, reader: QueueReader, least: int, hint: str = "") -> None:
        self._inbox.fail(
            OffsetExpiredError(
                f"offsets {reader.position} … {least - 1} of queue {reader.queue_id} of {self.topic!r} on {reader.broker} are gone: "
                f"retention took them before they were read. Reading goes on behind them{hint}"
            )
        )
        reader.skip_to(least)

    # The end ------------------------------------------------------------------------------------------------------------------

    def stop(self) -> None:
        """Give out no more messages: whoever iterates comes to the end."""
        self._inbox.end()

    async def close(self) -> None:
        """Stop reading. What was not acknowledged comes again."""
        if self._closed:
            return
        self._closed = True
        self._inbox.end()
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._cold.close()
        if self._started:
            with contextlib.suppress(ConnectionLostError, RequestTimeoutError):
                await self._finish()
