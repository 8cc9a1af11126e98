"""One transaction: messages that are seen all together, or not at all."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from datetime import timedelta
from types import TracebackType
from typing import Any, Final, Literal, NamedTuple, Self, Unpack

from litemq.client.config import DurabilityName
from litemq.client.engine.transactions import TransactionBackend, TransactionState
from litemq.client.extensions.middleware import Publish
from litemq.client.messages.outgoing import OutgoingMessage, SendReceipt
from litemq.client.messages.send_options import MessageOptions, outgoing_message
from litemq.client.times import seconds
from litemq.client.transactions.half_messages import Begun, HalfMessages
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

OnError = Literal["rollback", "ask"]  # what an error in the block means: that it is over, or that nobody knows yet
_MOST_CHECK_AFTER_S: Final = 86_400.0
_ROLLBACK_WITHIN_S: Final = 5.0  # of a block that failed: whoever raised waits no longer


class TransactionReceipt(NamedTuple):
    """A message that waits for its transaction's outcome: ``commit(transaction_id)`` or ``rollback(transaction_id)`` says it."""

    transaction_id: str
    topic: str
    message_id: str
    broker: str
    queue_id: int
    store_timestamp: int  # ms since 1970, by the broker's clock
    state: TransactionState = TransactionState.UNDECIDED


class Transaction:
    """``async with mq.transaction("orders", group_id="shop") as tx:`` commits when the block ends, and rolls back when it raises."""

    def __init__(
        self,
        backend: TransactionBackend,
        halves: HalfMessages,
        topic: str,
        group_id: str,
        durability: DurabilityName | None,
        on_error: OnError,
        properties: Mapping[str, str],
        through: Callable[[Publish], Publish],
        wall_ms: Callable[[], int],
    ) -> None:
        """``through`` puts the layers of the client around what sends a message; ``properties`` come with the first one."""
        self._backend = backend
        self._halves = halves
        self._topic = topic
        self._durability = durability
        self._on_error = on_error
        self._properties = properties
        self._through = through
        self._wall_ms = wall_ms
        self._turn = asyncio.Lock()
        self._begun = Begun(group_id)
        self._doubt = ""  # a message of which nobody knows whether it is stored
        self._state = TransactionState.UNDECIDED

    @property
    def id(self) -> str:
        """What names it, on any client: write it down with what else is decided, so that whoever is asked for the outcome finds it."""
        if not self._begun.transaction_id:
            raise InvalidArgumentError("a transaction has its id once its first message is sent: call its send(…) first")
        return self._begun.transaction_id

    @property
    def state(self) -> TransactionState:
        """How it ended, as far as this client knows."""
        return self._state

    async def send(self, body: Any, *, topic: str | None = None, **options: Unpack[MessageOptions]) -> SendReceipt:
        """Send a message that nobody sees until the transaction is committed; another ``topic`` is one that the same broker has.

        ``options`` are those of ``mq.send``, except ``durability``. A delay counts from the commit on where it is over by then.
        """
        message = outgoing_message("send", body, options)
        return await self.send_message(message, topic=topic)

    async def send_message(self, message: OutgoingMessage, *, topic: str | None = None) -> SendReceipt:
        """The same with a message that has its options with it."""
        return await self._through(self._send)(topic or self._topic, message)

    async def _send(self, topic: str, message: OutgoingMessage) -> SendReceipt:
        async with self._turn:  # the numbers of its messages follow each other
            begun = self._begun
            if self._state is not TransactionState.UNDECIDED:
                raise TransactionEndedError(
                    f"transaction {begun.transaction_id or '(empty)'} is {self._state.value}, and takes no more messages"
                )
            self._check_whole()
            more = {} if begun.sent else self._properties
            half = await self._halves.prepare(begun, topic, message, self._durability, more, self._wall_ms())
            self._begun = begun._replace(transaction_id=half.transaction_id, broker=half.broker)
            try:
                receipt = await self._halves.send(half)
            except (SendOutcomeUnknownError, asyncio.CancelledError):
                # Its number is taken, perhaps: another message under it would be lost.
                self._doubt = half.message_id
                raise
            self._begun = self._begun._replace(sent=begun.sent + 1)
            return receipt

    def _check_whole(self) -> None:
        if self._doubt:
            raise TransactionRefusedError(
                f"whether message {self._doubt} of transaction {self._begun.transaction_id} is stored is not known: roll it back, and begin another one"
            )

    async def commit(self) -> None:
        """Let everybody see its messages. Saying it twice does no harm."""
        async with self._turn:
            self._check_whole()
            if self._begun.sent:
                await end_transaction(self._backend, self._begun.transaction_id, TransactionState.COMMITTED, self._begun.sent)
            self._state = TransactionState.COMMITTED

    async def rollback(self) -> None:
        """Nobody will see its messages."""
        async with self._turn:
            try:
                if self._begun.sent or self._doubt:
                    await end_transaction(self._backend, self._begun.transaction_id, TransactionState.ROLLED_BACK)
            except TransactionNotFoundError:
                if self._begun.sent:
                    raise  # else nothing of it was ever stored
            self._state = TransactionState.ROLLED_BACK

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        if self._state is not TransactionState.UNDECIDED:
            return  # somebody said it inside the block
        if error is None:
            await self.commit()
            return
        if self._on_error == "ask":
            return  # whoever answers for the group knows better than an error does
        try:
            async with asyncio.timeout(_ROLLBACK_WITHIN_S):
                await self.rollback()
        except (LiteMQError, TimeoutError) as failure:
            error.add_note(
                f"and transaction {self._begun.transaction_id} could not be rolled back: {failure}; its producer group is asked for the outcome"
            )


async def end_transaction(backend: TransactionBackend, transaction_id: str, outcome: TransactionState, count: int = 0) -> None:
    """Say how a transaction ends; raises where it has ended otherwise, or is not known."""
    state = await backend.end(transaction_id, outcome, count)
    if state is outcome:
        return
    if state is TransactionState.NOT_KNOWN:
        raise TransactionNotFoundError(
            f"no transaction {transaction_id} is known at its broker: it was never begun, or ended so long ago that its outcome is forgotten"
        )
    if state is TransactionState.INCOMPLETE:
        raise TransactionRefusedError(
            f"transaction {transaction_id} has not the {count} messages that were sent: the broker lost what was not stored safely. "
            f"Nothing was committed: roll it back, and begin another one"
        )
    raise TransactionEndedError(f"transaction {transaction_id} is {state.value} already: what was decided first stands")


def check_properties(check_after: float | timedelta | None, max_checks: int | None) -> dict[str, str]:
    """What the first message of a transaction says about when its producers are to be asked, and how often."""
    properties = {}
    if check_after is not None:
        after = seconds(check_after, "check_after")
        if not 0.01 <= after <= _MOST_CHECK_AFTER_S:
            raise InvalidArgumentError(f"check_after={check_after!r}: choose 0.01 s … 24 hours")
        properties[CHECK_AFTER] = str(round(after * 1000))
    if max_checks is not None:
        if not isinstance(max_checks, int) or not 1 <= max_checks <= 1000:
            raise InvalidArgumentError(f"max_checks={max_checks!r}: choose 1 … 1000")
        properties[MAX_CHECKS] = str(max_checks)
    return properties
