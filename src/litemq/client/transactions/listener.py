"""Check-backs: brokers ask a listener of the producer group for the outcome of a transaction."""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Awaitable
from enum import Enum
from typing import Any, Final, NamedTuple

from litemq.client.backoff import Backoff
from litemq.client.config import ClientConfig
from litemq.client.engine.transactions import TransactionEngine, TransactionInfo, TransactionState
from litemq.client.messages.detached import DetachedSource
from litemq.client.messages.message import Message
from litemq.client.messages.outgoing import OutgoingMessage
from litemq.client.messages.serializers import Serializers
from litemq.errors import LiteMQError
from litemq.format.messages import decode_messages

__all__ = [
    "CheckBackResponder",
    "CheckedTransaction",
    "Decision",
    "PreparedMessage",
    "TransactionListener",
    "call_listener",
]

_LOG = logging.getLogger(__name__)
_MAX_CHECKS: Final = 16  # concurrent checks per client and group


class Decision(Enum):
    """The outcome of a transaction, as a listener decides it."""

    COMMIT = "commit"
    ROLLBACK = "rollback"
    UNKNOWN = "unknown"  # not known yet: check back later


OUTCOMES: Final = {
    Decision.COMMIT: TransactionState.COMMITTED,
    Decision.ROLLBACK: TransactionState.ROLLED_BACK,
    Decision.UNKNOWN: TransactionState.UNDECIDED,
}


class PreparedMessage(NamedTuple):
    """A stored half message that waits for the result of ``execute``."""

    topic: str
    message: OutgoingMessage
    message_id: str
    transaction_id: str


class CheckedTransaction(NamedTuple):
    """An undecided transaction that the broker checks back."""

    transaction_id: str
    group_id: str
    topics: tuple[str, ...]
    messages: tuple[Message, ...]
    stored_at: int  # ms since 1970
    checks: int  # check-backs, including this one

    @property
    def message(self) -> Message:
        """The first message."""
        return self.messages[0]


class TransactionListener:
    """Executes the local work of a transaction, and reports its outcome when a broker checks back.

    Methods that are no coroutines run on threads.
    """

    def execute(self, message: PreparedMessage, arg: Any) -> Decision | Awaitable[Decision]:
        """Do the local work for ``message`` and return its outcome.

        If this raises, the outcome stays open, and a broker asks ``check`` later.

        Args:
            message: The stored half message.
            arg: The ``arg`` of ``execute_transaction``.

        Raises:
            NotImplementedError: The subclass does not override it.
        """
        raise NotImplementedError(f"{type(self).__name__} has no execute(message, arg)")

    def check(self, transaction: CheckedTransaction) -> Decision | Awaitable[Decision]:
        """Return the outcome of ``transaction`` from your own records.

        Another process may have begun it.

        Args:
            transaction: The undecided transaction.

        Raises:
            NotImplementedError: The subclass does not override it.
        """
        raise NotImplementedError(f"{type(self).__name__} has no check(transaction)")


async def call_listener(method: Any, *arguments: Any) -> Decision:
    """Call a listener's ``method``, on a thread if it is no coroutine function."""
    if inspect.iscoroutinefunction(method):
        decision = await method(*arguments)
    else:
        decision = await asyncio.to_thread(method, *arguments)
        if inspect.isawaitable(decision):
            decision = await decision
    if not isinstance(decision, Decision):
        raise TypeError(
            f"{method.__qualname__} returned {decision!r}: "
            "return Decision.COMMIT, Decision.ROLLBACK or Decision.UNKNOWN"
        )
    return decision


class CheckBackResponder:
    """Polls all brokers for undecided transactions of one group, and reports the decisions."""

    def __init__(
        self,
        engine: TransactionEngine,
        group_id: str,
        listener: TransactionListener,
        config: ClientConfig,
        serializers: Serializers,
    ) -> None:
        self.listener = listener
        self._engine = engine
        self._group_id = group_id
        self._config = config
        self._serializers = serializers
        self._slots = asyncio.Semaphore(_MAX_CHECKS)
        self._brokers: dict[str, asyncio.Task[None]] = {}
        self._checks: set[asyncio.Task[None]] = set()
        self._discovery = asyncio.get_running_loop().create_task(
            self._discover_brokers(), name=f"litemq check-backs of {group_id}"
        )

    async def _discover_brokers(self) -> None:
        """Poll each broker that is alive, and new ones when they appear."""
        while True:
            try:
                for broker in await self._engine.brokers():
                    waiting = self._brokers.get(broker)
                    if waiting is None or waiting.done():
                        name = f"litemq check-backs of {self._group_id} at {broker}"
                        self._brokers[broker] = asyncio.get_running_loop().create_task(
                            self._poll_broker(broker), name=name
                        )
            except LiteMQError as error:
                _LOG.info("listing the brokers failed, retrying: %s", error)
            await asyncio.sleep(self._config.route_refresh_ms / 1000)

    async def _poll_broker(self, broker: str) -> None:
        backoff = Backoff(self._config.retry_backoff_ms, self._config.max_retry_backoff_ms)
        while True:
            try:
                checks = await self._engine.poll(broker, self._group_id, self._config.fetch_wait_ms)
            except LiteMQError as error:
                _LOG.info("polling broker %s for check-backs failed, retrying: %s", broker, error)
                await asyncio.sleep(backoff.next_delay())
                continue
            backoff.reset()
            for info, records in checks:
                await self._slots.acquire()
                task = asyncio.get_running_loop().create_task(self._check_transaction(info, records))
                self._checks.add(task)
                task.add_done_callback(self._on_check_done)

    def _on_check_done(self, task: asyncio.Task[None]) -> None:
        self._checks.discard(task)
        self._slots.release()

    async def _check_transaction(self, info: TransactionInfo, records: list[bytes]) -> None:
        reader = DetachedSource(info.broker, self._serializers, self._config.max_body_bytes)
        messages = tuple(Message(fields, reader) for fields in decode_messages(b"".join(records)))
        transaction = CheckedTransaction(
            info.transaction_id, info.group_id, info.topics, messages, info.stored_at, info.checks
        )
        try:
            decision = await call_listener(self.listener.check, transaction)
        except Exception:  # noqa: BLE001  the broker checks back again
            _LOG.exception("checking transaction %s failed, the broker will check back again", info.transaction_id)
            decision = Decision.UNKNOWN
        try:
            await self._engine.end(info.transaction_id, OUTCOMES[decision])
        except LiteMQError as error:
            _LOG.warning(
                "reporting the outcome of transaction %s failed: %s; the broker will check back again",
                info.transaction_id,
                error,
            )

    async def close(self) -> None:
        """Stop answering. Checks that are running are cancelled."""
        tasks = [self._discovery, *self._brokers.values(), *self._checks]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
