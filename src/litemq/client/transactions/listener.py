"""Answering for a group's transactions: a listener is asked for the outcome of those that nobody has decided."""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Awaitable
from enum import Enum
from typing import Any, Final, NamedTuple

from litemq.client.backoff import Backoff
from litemq.client.config import ClientConfig
from litemq.client.engine.transactions import TransactionBackend, TransactionFact, TransactionState
from litemq.client.messages.detached import Detached
from litemq.client.messages.message import Message
from litemq.client.messages.outgoing import OutgoingMessage
from litemq.client.messages.serializers import Serializers
from litemq.errors import LiteMQError
from litemq.format.messages import decode_messages

__all__ = ["Answering", "CheckedTransaction", "Decision", "PreparedMessage", "TransactionListener", "decided"]

_LOG = logging.getLogger(__name__)
_AT_ONCE: Final = 16  # checks of one client


class Decision(Enum):
    """What a listener says of a transaction."""

    COMMIT = "commit"
    ROLLBACK = "rollback"
    UNKNOWN = "unknown"  # not yet: ask again later


OUTCOMES: Final = {
    Decision.COMMIT: TransactionState.COMMITTED,
    Decision.ROLLBACK: TransactionState.ROLLED_BACK,
    Decision.UNKNOWN: TransactionState.UNDECIDED,
}


class PreparedMessage(NamedTuple):
    """A message that is stored, and waits for the outcome of what ``execute`` does."""

    topic: str
    message: OutgoingMessage
    message_id: str
    transaction_id: str


class CheckedTransaction(NamedTuple):
    """A transaction whose outcome is wanted."""

    transaction_id: str
    group_id: str
    topics: tuple[str, ...]
    messages: tuple[Message, ...]
    stored_at: int  # ms since 1970
    checks: int  # this one included

    @property
    def message(self) -> Message:
        """The first of its messages."""
        return self.messages[0]


class TransactionListener:
    """What a producer does in a transaction, and how it finds out later what became of it. Plain methods are called on threads."""

    def execute(self, message: PreparedMessage, arg: Any) -> Decision | Awaitable[Decision]:
        """Do what the message is about. If this raises, nothing is decided: ``check`` is asked later."""
        raise NotImplementedError(f"{type(self).__name__} has no execute(message, arg)")

    def check(self, transaction: CheckedTransaction) -> Decision | Awaitable[Decision]:
        """What became of a transaction, by what is written down about it; it may have been another process that began it."""
        raise NotImplementedError(f"{type(self).__name__} has no check(transaction)")


async def decided(method: Any, *arguments: Any) -> Decision:
    """Call a listener's method, on a thread where it is no coroutine."""
    if inspect.iscoroutinefunction(method):
        decision = await method(*arguments)
    else:
        decision = await asyncio.to_thread(method, *arguments)
        if inspect.isawaitable(decision):
            decision = await decision
    if not isinstance(decision, Decision):
        raise TypeError(f"{method.__qualname__} returned {decision!r}: return Decision.COMMIT, Decision.ROLLBACK or Decision.UNKNOWN")
    return decision


class Answering:
    """Waits at all brokers to be asked for a group's transactions, while the client is open."""

    def __init__(
        self, backend: TransactionBackend, group_id: str, listener: TransactionListener, config: ClientConfig, serializers: Serializers
    ) -> None:
        self.listener = listener
        self._backend = backend
        self._group_id = group_id
        self._config = config
        self._serializers = serializers
        self._room = asyncio.Semaphore(_AT_ONCE)
        self._brokers: dict[str, asyncio.Task[None]] = {}
        self._checks: set[asyncio.Task[None]] = set()
        self._following = asyncio.get_running_loop().create_task(self._follow_brokers(), name=f"litemq answers for {group_id}")

    async def _follow_brokers(self) -> None:
        """Wait at each broker that is alive, and find new ones."""
        while True:
            try:
                for broker in await self._backend.brokers():
                    waiting = self._brokers.get(broker)
                    if waiting is None or waiting.done():
                        name = f"litemq answers for {self._group_id} at {broker}"
                        self._brokers[broker] = asyncio.get_running_loop().create_task(self._wait_at(broker), name=name)
            except LiteMQError as error:
                _LOG.info("which brokers there are is asked for later: %s", error)
            await asyncio.sleep(self._config.route_refresh_ms / 1000)

    async def _wait_at(self, broker: str) -> None:
        backoff = Backoff(self._config.retry_backoff_ms, self._config.max_retry_backoff_ms)
        while True:
            try:
                asked = await self._backend.poll(broker, self._group_id, self._config.fetch_wait_ms)
            except LiteMQError as error:
                _LOG.info("no transactions are asked for by broker %s: %s; it is tried again", broker, error)
                await asyncio.sleep(backoff.next())
                continue
            backoff.reset()
            for fact, records in asked:
                await self._room.acquire()
                task = asyncio.get_running_loop().create_task(self._check(fact, records))
                self._checks.add(task)
                task.add_done_callback(self._checked)

    def _checked(self, task: asyncio.Task[None]) -> None:
        self._checks.discard(task)
        self._room.release()

    async def _check(self, fact: TransactionFact, records: list[bytes]) -> None:
        reader = Detached(fact.broker, self._serializers, self._config.max_body_bytes)
        messages = tuple(Message(fields, reader) for fields in decode_messages(b"".join(records)))
        transaction = CheckedTransaction(fact.transaction_id, fact.group_id, fact.topics, messages, fact.stored_at, fact.checks)
        try:
            decision = await decided(self.listener.check, transaction)
        except Exception:  # noqa: BLE001  it is asked for again, and the others go on
            _LOG.exception("the outcome of transaction %s could not be found out; it will be asked for again", fact.transaction_id)
            decision = Decision.UNKNOWN
        try:
            await self._backend.end(fact.transaction_id, OUTCOMES[decision])
        except LiteMQError as error:
            _LOG.warning("the outcome of transaction %s could not be told: %s; it will be asked for again", fact.transaction_id, error)

    async def close(self) -> None:
        """Answer no more; checks that have begun are not waited for."""
        tasks = [self._following, *self._brokers.values(), *self._checks]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
