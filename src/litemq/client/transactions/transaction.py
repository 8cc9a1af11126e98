"""One transaction: consumers see all of its messages, or none."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from datetime import timedelta
from types import TracebackType
from typing import Any, Final, Literal, NamedTuple, Self, Unpack

from litemq.client.config import DurabilityName
from litemq.client.engine.transactions import TransactionEngine, TransactionState
from litemq.client.extensions.middleware import Publish
from litemq.client.messages.outgoing import OutgoingMessage, SendReceipt
from litemq.client.messages.send_options import MessageOptions, outgoing_message
from litemq.client.times import seconds
from litemq.client.transactions.half_messages import HalfMessages, TransactionProgress
from litemq.errors import (
    InvalidArgumentError,
    LiteMQError,
    SendOutcomeUnknownError,
    TransactionEndedError,
    TransactionNotFoundError,
    TransactionRefusedError,
)
from litemq.format.transactions import CHECK_AFTER, MAX_CHECKS

__all__ = ["OnError", "Transaction", "TransactionReceipt", "check_properties", "end_transaction"]

OnError = Literal["rollback", "ask"]  # what an error in the block does: roll back, or leave the outcome to the listener
_MAX_CHECK_AFTER_S: Final = 86_400.0
_ROLLBACK_WITHIN_S: Final = 5.0  # for the rollback of a failed block, before its error propagates


class TransactionReceipt(NamedTuple):
    """The receipt of a message of an open transaction.

    ``commit(transaction_id)`` or ``rollback(transaction_id)`` ends it.
    """

    transaction_id: str
    topic: str
    message_id: str
    broker: str
    queue_id: int
    store_timestamp: int  # ms since 1970, by the broker's clock
    state: TransactionState = TransactionState.UNDECIDED


class Transaction:
    """A transaction of a producer: ``async with mq.transaction("orders", group_id="shop") as tx:``.

    Leaving the block commits. An error in the block rolls back, or with ``on_error="ask"`` leaves
    the outcome to the listener.
    """

    def __init__(
        self,
        engine: TransactionEngine,
        halves: HalfMessages,
        topic: str,
        group_id: str,
        durability: DurabilityName | None,
        on_error: OnError,
        properties: Mapping[str, str],
        through: Callable[[Publish], Publish],
        wall_ms: Callable[[], int],
    ) -> None:
        """``through`` puts the middleware around a send; the first message gets ``properties``."""
        self._engine = engine
        self._halves = halves
        self._topic = topic
        self._durability = durability
        self._on_error = on_error
        self._properties = properties
        self._through = through
        self._wall_ms = wall_ms
        self._lock = asyncio.Lock()
        self._progress = TransactionProgress(group_id)
        self._uncertain_id = ""  # the id of a message that may be stored or not
        self._state = TransactionState.UNDECIDED

    @property
    def id(self) -> str:
        """The id, which any client can commit or roll back.

        Store it with your own data for ``check``.

        Raises:
            InvalidArgumentError: No message has been sent yet.
        """
        if not self._progress.transaction_id:
            raise InvalidArgumentError("the transaction has no id before its first message: call send(…) first")
        return self._progress.transaction_id

    @property
    def state(self) -> TransactionState:
        """The outcome, as far as this client knows."""
        return self._state

    async def send(self, body: Any, *, topic: str | None = None, **options: Unpack[MessageOptions]) -> SendReceipt:
        """Send a message that consumers see only after the commit.

        Args:
            body: As in ``mq.send``.
            topic: Another topic, with a queue on the transaction's broker. Default: the
                transaction's topic.
            options: The keyword options of ``mq.send`` without ``durability``. A delay that has
                passed at the commit does not delay further.

        Returns:
            The receipt. Its offset is -1 until the commit.

        Raises:
            TransactionEndedError: The transaction has ended.
            TransactionRefusedError: The outcome of an earlier message is unknown: roll back.
            InvalidArgumentError, SerializationError: An argument is invalid.
            SendOutcomeUnknownError: The broker did not answer in time: roll back.
            TypeError: ``options`` has an unknown name.
        """
        message = outgoing_message("send", body, options)
        return await self.send_message(message, topic=topic)

    async def send_message(self, message: OutgoingMessage, *, topic: str | None = None) -> SendReceipt:
        """Send an ``OutgoingMessage`` that consumers see only after the commit.

        Args:
            message: The message with its options.
            topic: As in ``send``.

        Raises:
            TransactionEndedError: The transaction has ended.
            TransactionRefusedError: The outcome of an earlier message is unknown: roll back.
            InvalidArgumentError, SerializationError: An option is invalid.
            SendOutcomeUnknownError: The broker did not answer in time: roll back.
        """
        return await self._through(self._send)(topic or self._topic, message)

    async def _send(self, topic: str, message: OutgoingMessage) -> SendReceipt:
        async with self._lock:  # its messages are numbered without gaps
            progress = self._progress
            if self._state is not TransactionState.UNDECIDED:
                raise TransactionEndedError(
                    f"transaction {progress.transaction_id or '(empty)'} is {self._state.value}, and takes no "
                    "more messages"
                )
            self._check_complete()
            more = {} if progress.sent else self._properties
            half = await self._halves.prepare(progress, topic, message, self._durability, more, self._wall_ms())
            self._progress = progress._replace(transaction_id=half.transaction_id, broker=half.broker)
            try:
                receipt = await self._halves.send(half)
            except (SendOutcomeUnknownError, asyncio.CancelledError):
                # The broker may have used its number: another message with it would be lost.
                self._uncertain_id = half.message_id
                raise
            self._progress = self._progress._replace(sent=progress.sent + 1)
            return receipt

    def _check_complete(self) -> None:
        if self._uncertain_id:
            raise TransactionRefusedError(
                f"message {self._uncertain_id} of transaction {self._progress.transaction_id} may be stored or not: "
                f"roll the transaction back, and begin another one"
            )

    async def commit(self) -> None:
        """Commit: consumers see all messages. Repeating it changes nothing.

        Raises:
            TransactionEndedError: The transaction has already been rolled back.
            TransactionRefusedError: A message is missing, or its outcome is unknown. Nothing was
                committed: roll back.
            TransactionNotFoundError: The broker does not know the transaction.
            SendOutcomeUnknownError: The broker did not answer in time. Repeat the call.
        """
        async with self._lock:
            self._check_complete()
            if self._progress.sent:
                await end_transaction(
                    self._engine, self._progress.transaction_id, TransactionState.COMMITTED, self._progress.sent
                )
            self._state = TransactionState.COMMITTED

    async def rollback(self) -> None:
        """Roll back: the messages are never delivered. Repeating it changes nothing.

        Raises:
            TransactionEndedError: The transaction has already been committed.
            TransactionNotFoundError: The broker does not know the transaction.
            SendOutcomeUnknownError: The broker did not answer in time. Repeat the call.
        """
        async with self._lock:
            try:
                if self._progress.sent or self._uncertain_id:
                    await end_transaction(self._engine, self._progress.transaction_id, TransactionState.ROLLED_BACK)
            except TransactionNotFoundError:
                if self._progress.sent:
                    raise  # otherwise nothing was stored
            self._state = TransactionState.ROLLED_BACK

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._state is not TransactionState.UNDECIDED:
            return  # the block ended it
        if error is None:
            await self.commit()
            return
        if self._on_error == "ask":
            return  # the group's listener decides
        try:
            async with asyncio.timeout(_ROLLBACK_WITHIN_S):
                await self.rollback()
        except (LiteMQError, TimeoutError) as failure:
            error.add_note(
                f"rolling back transaction {self._progress.transaction_id} failed: {failure}; "
                "the broker will check back"
            )


async def end_transaction(
    engine: TransactionEngine, transaction_id: str, outcome: TransactionState, count: int = 0
) -> None:
    """End a transaction with ``outcome``; the broker must have ``count`` messages to commit.

    Raises:
        TransactionEndedError: It has already ended with another outcome.
        TransactionNotFoundError: The broker does not know it.
        TransactionRefusedError: The broker does not have all messages.
    """
    state = await engine.end(transaction_id, outcome, count)
    if state is outcome:
        return
    if state is TransactionState.NOT_KNOWN:
        raise TransactionNotFoundError(
            f"the broker does not know transaction {transaction_id}: it never began, or it ended too long ago"
        )
    if state is TransactionState.INCOMPLETE:
        raise TransactionRefusedError(
            f"the broker does not have all {count} messages of transaction {transaction_id}: "
            "it lost some that were not on disk. "
            f"Nothing was committed: roll it back, and begin another one"
        )
    raise TransactionEndedError(
        f"transaction {transaction_id} has already ended, it is {state.value}: the first outcome is final"
    )


def check_properties(check_after: float | timedelta | None, max_checks: int | None) -> dict[str, str]:
    """Return the properties of a transaction's first message that set its check-backs.

    Raises:
        InvalidArgumentError: An argument is out of range.
    """
    properties = {}
    if check_after is not None:
        after = seconds(check_after, "check_after")
        if not 0.01 <= after <= _MAX_CHECK_AFTER_S:
            raise InvalidArgumentError(f"check_after={check_after!r}: choose 0.01 s … 24 hours")
        properties[CHECK_AFTER] = str(round(after * 1000))
    if max_checks is not None:
        if not isinstance(max_checks, int) or not 1 <= max_checks <= 1000:
            raise InvalidArgumentError(f"max_checks={max_checks!r}: choose 1 … 1000")
        properties[MAX_CHECKS] = str(max_checks)
    return properties
