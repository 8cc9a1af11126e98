"""The part of ``AsyncClient`` for transactions."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any, Unpack

from litemq.client.config import ClientConfig, DurabilityName
from litemq.client.engine.engine import Engine
from litemq.client.extensions.middleware import Publish
from litemq.client.messages.outgoing import OutgoingMessage
from litemq.client.messages.send_options import SendOptions, outgoing_message
from litemq.client.messages.serializers import Serializers
from litemq.client.transactions.admin import Transactions
from litemq.client.transactions.execution import execute_transaction, send_transaction
from litemq.client.transactions.half_messages import HalfMessages
from litemq.client.transactions.listener import TransactionListener
from litemq.client.transactions.listener_registry import ListenerRegistry
from litemq.client.transactions.transaction import OnError, Transaction, TransactionReceipt, check_properties
from litemq.errors import InvalidArgumentError
from litemq.types import check_name

__all__ = ["TransactionApi"]


class TransactionApi:
    """The methods of ``AsyncClient`` that begin, end and check transactions."""

    config: ClientConfig
    _serializers: Serializers
    _listeners: ListenerRegistry
    _halves: HalfMessages | None

    def _opened(self) -> Engine:
        """Return the engine of the open client."""
        raise NotImplementedError

    def _layers_around(self) -> Callable[[Publish], Publish]:
        """Return the function that puts the client's middleware and plug-ins around a send."""
        raise NotImplementedError

    def transaction(
        self,
        topic: str,
        *,
        group_id: str,
        durability: DurabilityName | None = None,
        on_error: OnError = "rollback",
        check_after: float | timedelta | None = None,
        max_checks: int | None = None,
    ) -> Transaction:
        """Begin a transaction: consumers see all of its messages, or none.

        In ``async with mq.transaction("orders", group_id="shop") as tx:``, leaving the block
        commits, and an error rolls back. If the process dies before, the broker asks the
        ``transaction_listener`` of the producer group for the outcome.

        Args:
            topic: The default topic of its messages.
            group_id: The producer group, whose listeners decide an open transaction.
            durability: As in ``send``, except ``none``.
            on_error: An error in the block rolls back (``rollback``), or leaves the outcome to the
                listener (``ask``).
            check_after: Seconds from the first message until the broker asks for the outcome.
                Default: the topic's setting.
            max_checks: How often the broker asks before the messages become dead letters. Default:
                the topic's setting.

        Returns:
            The transaction. Nothing is sent before its first ``send``.

        Raises:
            InvalidArgumentError: An argument is invalid.
            ClientClosedError: The client is not open.
        """
        engine = self._opened()
        if on_error not in ("rollback", "ask"):
            raise InvalidArgumentError(f"on_error={on_error!r}: choose rollback or ask")
        check_name(topic)
        check_name(group_id, "group")
        if self._halves is None:
            self._halves = HalfMessages(engine.transactions, self.config, self._serializers)
        properties = check_properties(check_after, max_checks)
        return Transaction(
            engine.transactions,
            self._halves,
            topic,
            group_id,
            durability,
            on_error,
            properties,
            self._layers_around(),
            engine.wall_ms,
        )

    async def send_transaction(
        self,
        topic: str,
        body: Any,
        *,
        group_id: str,
        check_after: float | timedelta | None = None,
        max_checks: int | None = None,
        **options: Unpack[SendOptions],
    ) -> TransactionReceipt:
        """Send a message that consumers see only after ``commit(receipt.transaction_id)``.

        Args:
            topic: The topic to send to.
            body: As in ``send``.
            group_id: The producer group, whose listeners decide an open transaction.
            check_after, max_checks: As in ``transaction``.
            options: The keyword options of ``send``.

        Returns:
            The receipt, with the transaction's id.

        Raises:
            LiteMQError: The message was not stored, or its outcome is unknown. See ``send`` for the
                classes.
            TypeError: ``options`` has an unknown name.
            ClientClosedError: The client is not open.
        """
        durability = options.pop("durability", None)
        message = outgoing_message("send_transaction", body, options)
        transaction = self.transaction(
            topic, group_id=group_id, durability=durability, check_after=check_after, max_checks=max_checks
        )
        return await send_transaction(transaction, topic, message)

    async def execute_transaction(
        self,
        topic: str,
        message: OutgoingMessage | bytes | str,
        arg: Any = None,
        *,
        group_id: str,
        durability: DurabilityName | None = None,
        check_after: float | timedelta | None = None,
        max_checks: int | None = None,
    ) -> TransactionReceipt:
        """Send a message, call the listener's ``execute``, and end the transaction as it decides.

        If the listener raises or returns ``Decision.UNKNOWN``, the transaction stays open and the
        broker checks back.

        Args:
            topic: The topic to send to.
            message: An ``OutgoingMessage``, or a body without options.
            arg: Passed on to the listener.
            group_id: The producer group. This client must have a ``transaction_listener`` for it.
            durability, check_after, max_checks: As in ``transaction``.

        Returns:
            The receipt, with the state of the transaction.

        Raises:
            InvalidArgumentError: The group has no listener in this client, or an argument is
                invalid.
            TransactionEndedError: The transaction has already ended with another outcome.
            LiteMQError: The message was not stored, or its outcome is unknown. See ``send`` for the
                classes.
            ClientClosedError: The client is not open.
        """
        listener = self._listeners.find(group_id)
        outgoing = message if isinstance(message, OutgoingMessage) else OutgoingMessage(message)
        transaction = self.transaction(
            topic, group_id=group_id, durability=durability, check_after=check_after, max_checks=max_checks
        )
        return await execute_transaction(transaction, topic, outgoing, listener, arg)

    async def commit(self, transaction_id: str) -> None:
        """Commit a transaction: consumers see its messages. Repeating it changes nothing.

        Args:
            transaction_id: The id, from a receipt or from ``Transaction.id``. Any client may commit
                it.

        Raises:
            InvalidArgumentError: ``transaction_id`` is no transaction id.
            TransactionEndedError: The transaction has already been rolled back.
            TransactionNotFoundError: The broker does not know the transaction.
            SendOutcomeUnknownError: The broker did not answer in time. Repeat the call.
            ClientClosedError: The client is not open.
        """
        await self.transactions.commit(transaction_id)

    async def rollback(self, transaction_id: str) -> None:
        """Roll back a transaction: its messages are never delivered. Repeating it changes nothing.

        Args:
            transaction_id: The id, from a receipt or from ``Transaction.id``. Any client may roll
                it back.

        Raises:
            InvalidArgumentError: ``transaction_id`` is no transaction id.
            TransactionEndedError: The transaction has already been committed.
            TransactionNotFoundError: The broker does not know the transaction.
            SendOutcomeUnknownError: The broker did not answer in time. Repeat the call.
            ClientClosedError: The client is not open.
        """
        await self.transactions.rollback(transaction_id)

    def transaction_listener(self, group_id: str, listener: TransactionListener) -> None:
        """Register the listener that decides the open transactions of a producer group.

        Args:
            group_id: The producer group. The brokers ask any of its listeners, in any process.
            listener: Executes and checks transactions, until the client closes.

        Raises:
            InvalidArgumentError: The group has a listener in this client already, or ``group_id``
                is invalid.
            ClientClosedError: The client is not open.
        """
        self._listeners.add(self._opened().transactions, group_id, listener)

    @property
    def transactions(self) -> Transactions:
        """Open and recently ended transactions, for operators.

        Raises:
            ClientClosedError: The client is not open.
        """
        return Transactions(self._opened(), self.config, self._serializers)
