"""The transactions of a cluster, for operators: ``mq.transactions``."""

from __future__ import annotations

from datetime import timedelta

from litemq.client.config import ClientConfig
from litemq.client.engine.engine import Engine
from litemq.client.engine.transactions import TransactionInfo, TransactionState
from litemq.client.messages.detached import DetachedSource
from litemq.client.messages.message import Message
from litemq.client.messages.serializers import Serializers
from litemq.client.times import seconds
from litemq.client.transactions.transaction import end_transaction
from litemq.errors import InvalidArgumentError
from litemq.format.messages import decode_messages
from litemq.format.transactions import check_transaction

__all__ = ["Transactions"]

_PAGE = 500


class Transactions:
    """Lists, inspects and ends open transactions, and lists those that ended recently."""

    def __init__(self, engine: Engine, config: ClientConfig, serializers: Serializers) -> None:
        self._survey = engine.survey
        self._wall_ms = engine.wall_ms
        self._engine = engine.transactions
        self._config = config
        self._serializers = serializers

    async def select(
        self,
        *,
        group_id: str = "",
        topic: str = "",
        state: TransactionState | str | None = None,
        older_than: float | timedelta = 0,
        include_sinks: bool = False,
        most: int = 1000,
    ) -> list[TransactionInfo]:
        """Return open transactions, or those in a given state.

        Args:
            group_id: Only those of this producer group.
            topic: Only those with messages in this topic.
            state: ``undecided`` (default), ``committed``, ``rolled-back`` or ``dead``.
            older_than: Only those whose first message is at least this many seconds old.
            include_sinks: Also those of Spark sinks.
            most: Return at most this many. Brokers are asked one after the other, so the first
                ones may supply all of them.

        Raises:
            InvalidArgumentError: An argument is invalid.
            PartialAnswerError: A broker did not answer. The error has the answer of the others.
            NoRouteError, NetworkError: No broker can be reached.
        """
        wanted = None if state is None else _state(state)
        age = seconds(older_than, "older_than")
        before = self._wall_ms() - round(age * 1000) if age else 0
        found: list[TransactionInfo] = []
        survey = await self._survey()
        for broker in survey.brokers:
            after, is_end = "", False
            with survey.asking(broker):
                while not is_end and len(found) < most:
                    page = await self._engine.page(
                        broker,
                        group=group_id,
                        topic=topic,
                        stored_before=before,
                        state=wanted,
                        include_sinks=include_sinks,
                        after=after,
                        limit=min(_PAGE, most - len(found)),
                    )
                    found += page.transactions
                    after, is_end = page.next_after, page.is_end
        return survey.complete(found)

    async def get(self, transaction_id: str) -> TransactionInfo:
        """Return one transaction. Its state is ``NOT_KNOWN`` if the broker does not know it.

        Args:
            transaction_id: The id of the transaction.

        Raises:
            InvalidArgumentError: ``transaction_id`` is no transaction id.
            NoRouteError, NetworkError: No broker can be reached.
        """
        return (await self._engine.describe(check_transaction(transaction_id)))[0]

    async def messages(self, transaction_id: str) -> list[Message]:
        """Return the messages of an undecided transaction, as many as fit one answer.

        Args:
            transaction_id: The id of the transaction.

        Raises:
            InvalidArgumentError: ``transaction_id`` is no transaction id.
            NoRouteError, NetworkError: No broker can be reached.
        """
        info, records = await self._engine.describe(check_transaction(transaction_id))
        reader = DetachedSource(info.broker, self._serializers, self._config.max_body_bytes)
        return [Message(fields, reader) for fields in decode_messages(b"".join(records))]

    async def commit(self, transaction_id: str) -> None:
        """Commit a transaction: consumers see its messages. Repeating it changes nothing.

        Args:
            transaction_id: The id of the transaction.

        Raises:
            InvalidArgumentError: ``transaction_id`` is no transaction id.
            TransactionEndedError: The transaction has already been rolled back.
            TransactionNotFoundError: The broker does not know the transaction.
            SendOutcomeUnknownError: The broker did not answer in time. Repeat the call.
        """
        await end_transaction(self._engine, check_transaction(transaction_id), TransactionState.COMMITTED)

    async def rollback(self, transaction_id: str) -> None:
        """Roll back a transaction: its messages are never delivered. Repeating it changes nothing.

        Args:
            transaction_id: The id of the transaction.

        Raises:
            InvalidArgumentError: ``transaction_id`` is no transaction id.
            TransactionEndedError: The transaction has already been committed.
            TransactionNotFoundError: The broker does not know the transaction.
            SendOutcomeUnknownError: The broker did not answer in time. Repeat the call.
        """
        await end_transaction(self._engine, check_transaction(transaction_id), TransactionState.ROLLED_BACK)


def _state(state: TransactionState | str) -> TransactionState:
    if isinstance(state, TransactionState):
        return state
    for each in (
        TransactionState.UNDECIDED,
        TransactionState.COMMITTED,
        TransactionState.ROLLED_BACK,
        TransactionState.DEAD,
    ):
        if state.lower().replace("-", " ").replace("_", " ") == each.value:
            return each
    raise InvalidArgumentError(f"state={state!r}: choose undecided, committed, rolled-back or dead")
