"""Results of tasks: what a worker sends back, and how the caller waits for it.

A call that wants its result carries the property ``litemq-reply``. The worker sends the result to
the topic ``task-results``: its key is the id of the call, and its tag is that property, by which
each client reads only its own results.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import secrets
from collections.abc import AsyncIterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Final, NamedTuple, Protocol

from litemq.client.admin import AsyncAdmin
from litemq.client.engine.engine import Engine
from litemq.client.engine.topic_declaration import declare_topic
from litemq.client.engine.topics import TopicChanges, TopicSettings
from litemq.client.messages.message import Message
from litemq.client.times import seconds
from litemq.errors import (
    InvalidArgumentError,
    LiteMQError,
    NetworkError,
    NoRouteError,
    PartialAnswerError,
    TopicNotFoundError,
)

__all__ = [
    "MAX_TTL_MS",
    "REPLY_PROPERTY",
    "RESULTS_TOPIC",
    "TTL_PROPERTY",
    "InboxHost",
    "ResultInbox",
    "TaskResult",
    "declare_results",
    "result_ttl_ms",
]

RESULTS_TOPIC: Final = "task-results"
REPLY_PROPERTY: Final = "litemq-reply"
TTL_PROPERTY: Final = "litemq-result-ttl-ms"
# Results are looked up at first, and then from time to time, in case that the reader missed one.
_LOOK_UP_S: Final = 5.0
# The reader begins this long before the call: the clocks of brokers differ.
_OVERLAP: Final = timedelta(seconds=30)
_AGAIN_S: Final = 1.0
MAX_TTL_MS: Final = 30 * 86_400_000
_LOG = logging.getLogger(__name__)


class TaskResult(NamedTuple):
    """The outcome of a call: a value, or an error."""

    value: Any = None
    error_type: str = ""
    error: str = ""
    expires_at: int = 0  # ms

    @classmethod
    def from_message(cls, message: Message) -> TaskResult | None:
        """Return the result in ``message``, or ``None`` if it is none."""
        with contextlib.suppress(LiteMQError):
            value = message.value
            if isinstance(value, Mapping):
                known = {name: given for name, given in value.items() if name in cls._fields}
                result = cls(**known)
                types = (result.error_type, str), (result.error, str), (result.expires_at, int)
                return result if all(isinstance(given, wanted) for given, wanted in types) else None
        return None


class InboxHost(Protocol):
    """The client that waits for results."""

    def _opened(self) -> Engine: ...

    @property
    def admin(self) -> AsyncAdmin: ...

    def reader(self, topic: str, *, start: datetime, tags: str) -> AsyncIterator[Message]: ...


class ResultInbox:
    """The results that one client waits for."""

    def __init__(self, host: InboxHost) -> None:
        self._host = host
        self.tag = secrets.token_hex(8)
        self._waiting: dict[str, asyncio.Future[TaskResult]] = {}
        self._reading: asyncio.Task[None] | None = None
        self._starting = asyncio.Lock()

    async def wait(self, call_id: str) -> TaskResult:
        """Wait for the result of the call with the message id ``call_id``.

        Raises:
            TopicNotFoundError: Results cannot be stored: the broker does not create their topic.
            LiteMQError: The client is closed.
        """
        loop = asyncio.get_running_loop()
        waiter = self._waiting.get(call_id)
        if waiter is None:
            waiter = self._waiting[call_id] = loop.create_future()
        async with self._starting:  # one reader, however many calls wait
            if self._reading is None or self._reading.done():
                with contextlib.suppress(NetworkError, NoRouteError):  # the cluster may come back in time
                    await self._host._opened().route(RESULTS_TOPIC, create=True)  # noqa: SLF001
                self._reading = loop.create_task(self._read(), name="litemq task results")
        try:
            while True:
                found = await self._look_up(call_id)
                if found is not None:
                    return found
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(_LOOK_UP_S):
                        return await asyncio.shield(waiter)
        finally:
            self._waiting.pop(call_id, None)

    async def _look_up(self, call_id: str) -> TaskResult | None:
        try:
            return await self.look_up(call_id)
        except (NetworkError, NoRouteError) as error:
            _LOG.debug("looking up the result of call %s failed: %s", call_id, error)
            return None

    async def look_up(self, call_id: str) -> TaskResult | None:
        """Return the stored result of a call, or ``None``."""
        try:
            messages = await self._host.admin.find(RESULTS_TOPIC, call_id)
        except PartialAnswerError as error:
            messages = error.answer
        except TopicNotFoundError:
            return None
        now = self._host._opened().wall_ms()  # noqa: SLF001
        results = [TaskResult.from_message(message) for message in messages]
        return next((each for each in results if each is not None and each.expires_at > now), None)

    async def _read(self) -> None:
        """Pass the results of this client on to their waiters, until none is left."""
        since = datetime.now(UTC) - _OVERLAP
        while True:
            try:
                async for message in self._host.reader(RESULTS_TOPIC, start=since, tags=self.tag):
                    result = TaskResult.from_message(message)
                    for key in message.keys:
                        waiter = self._waiting.get(key)
                        if waiter is not None and result is not None and not waiter.done():
                            waiter.set_result(result)
                return
            except LiteMQError as error:
                _LOG.debug("reading the results of tasks failed: %s", error)
                await asyncio.sleep(_AGAIN_S)

    async def close(self) -> None:
        """Stop reading."""
        if self._reading is not None:
            self._reading.cancel()
            await asyncio.gather(self._reading, return_exceptions=True)
            self._reading = None


def result_ttl_ms(result_ttl: float | timedelta | None) -> int:
    """Return how long results are kept, in milliseconds; 0: not at all."""
    ttl_ms = 0 if result_ttl is None else round(seconds(result_ttl, "result_ttl") * 1000)
    if ttl_ms > MAX_TTL_MS:
        raise InvalidArgumentError(f"result_ttl={result_ttl!r}: choose at most 30 days")
    return ttl_ms


async def declare_results(engine: Engine, ttl_ms: int) -> None:
    """Create the topic of results if it is missing; it keeps them for at least ``ttl_ms``.

    Raises nothing: workers do their work without it, too.
    """

    def missing(settings: TopicSettings) -> TopicChanges | None:
        return TopicChanges(retention_ms=ttl_ms) if settings.retention_ms < ttl_ms else None

    try:
        await declare_topic(engine, RESULTS_TOPIC, missing)
    except LiteMQError as error:
        _LOG.warning("results of tasks may not be kept: %s", error)
