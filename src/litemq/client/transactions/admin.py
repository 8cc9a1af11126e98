"""The transactions of a cluster, for those who look after it."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

from litemq.client.config import ClientConfig
from litemq.client.engine.transactions import TransactionBackend, TransactionFact, TransactionState
from litemq.client.messages.detached import Detached
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
    """``mq.transactions``: those that wait for their outcome, and those that have ended not long ago."""

    def __init__(self, backend: TransactionBackend, config: ClientConfig, serializers: Serializers, wall_ms: Callable[[], int]) -> None:
        self._backend = backend
        self._config = config
        self._serializers = serializers
        self._wall_ms = wall_ms

    async def select(
        self,
        *,
        group_id: str = "",
        topic: str = "",
        state: TransactionState | str | None = None,
        older_than: float | timedelta = 0,
        include_sinks: bool = False,
        most: int = 1000,
    ) -> list[TransactionFact]:
        """Transactions that have not ended, or those in a state; ``include_sinks``: also those of jobs that write by Spark."""
        wanted = None if state is None else _state(state)
        age = seconds(older_than, "older_than")
        before = self._wall_ms() - round(age * 1000) if age else 0
        found: list[TransactionFact] = []
        for broker in await self._backend.brokers():
            after, is_end = "", False
            while not is_end and len(found) < most:
                page = await self._backend.page(
                    broker,
                    group=group_id,
                    topic=topic,
                    stored_before=before,
                    state=wanted,
                    include_sinks=include_sinks,
                    after=after,
                    most=min(_PAGE, most - len(found)),
                )
                found += page.facts
                after, is_end = page.next_after, page.is_end
        return found

    async def get(self, transaction_id: str) -> TransactionFact:
        """One transaction; its state says where its broker does not know it."""
        return (await self._backend.describe(check_transaction(transaction_id)))[0]

    async def messages(self, transaction_id: str) -> list[Message]:
        """The messages of a transaction that is not decided, as far as they fit into one answer."""
        fact, records = await self._backend.describe(check_transaction(transaction_id))
        reader = Detached(fact.broker, self._serializers, self._config.max_body_bytes)
        return [Message(fields, reader) for fields in decode_messages(b"".join(records))]

    async def commit(self, transaction_id: str) -> None:
        """Let everybody see a transaction's messages."""
        await end_transaction(self._backend, check_transaction(transaction_id), TransactionState.COMMITTED)

    async def rollback(self, transaction_id: str) -> None:
        """Nobody will see a transaction's messages."""
        await end_transaction(self._backend, check_transaction(transaction_id), TransactionState.ROLLED_BACK)


def _state(state: TransactionState | str) -> TransactionState:
    if isinstance(state, TransactionState):
        return state
    for each in (TransactionState.UNDECIDED, TransactionState.COMMITTED, TransactionState.ROLLED_BACK, TransactionState.DEAD):
        if state.lower().replace("-", " ").replace("_", " ") == each.value:
            return each
    raise InvalidArgumentError(f"state={state!r}: choose undecided, committed, rolled-back or dead")
