"""The requests of operators about transactions."""

from __future__ import annotations

import asyncio
import heapq
from typing import Final

from litemq.broker.runtime.caller import Caller
from litemq.broker.runtime.context import BrokerContext
from litemq.broker.runtime.deferred_answers import wait_readable
from litemq.broker.runtime.handlers import Handler, Permission
from litemq.broker.runtime.request_header import parse
from litemq.broker.transactions.check_back import CheckBack
from litemq.broker.transactions.describe import describe_transaction
from litemq.broker.transactions.half_reader import read_transactions
from litemq.net.frame import Frame
from litemq.proto.wire_pb2 import (
    TX_COMMITTED,
    TX_NOT_KNOWN,
    DescribeTransactionRequest,
    ListTransactionsRequest,
    Opcode,
    TransactionAnswer,
    TransactionFacts,
    TransactionsAnswer,
)
from litemq.storage.state.transactions.halves import Halves

__all__ = ["TransactionRequests"]

_LOOKED_AT: Final = 5_000  # transactions for one answer; the client asks again for more
_MAX_TRANSACTIONS: Final = 1_000
_MAX_BYTES: Final = 4 << 20


class TransactionRequests:
    """Describes and lists transactions."""

    def __init__(self, context: BrokerContext, check_back: CheckBack) -> None:
        self._store = context.store
        self._schedule = check_back.schedule
        self._answers = context.answers
        self.handlers = (
            Handler(Opcode.DESCRIBE_TRANSACTION, Permission.TOPIC_READ, self._describe),
            Handler(Opcode.LIST_TRANSACTIONS, Permission.LISTED, self._list),
        )

    @property
    def _halves(self) -> Halves:
        return self._store.state.parts.halves

    def _describe(self, caller: Caller, frame: Frame) -> None:
        name = parse(DescribeTransactionRequest, frame[3]).transaction

        async def answer() -> tuple[bytes, bytes]:
            facts, records = describe_transaction(self._halves, name, self._schedule), []
            if facts.records and not facts.is_sink and facts.state != TX_COMMITTED:
                await wait_readable(self._store)
                loop = asyncio.get_running_loop()
                found = await loop.run_in_executor(
                    self._answers.lookups, read_transactions, self._store, [name], _MAX_BYTES
                )
                records = found.get(name, [])
            return TransactionAnswer(facts=facts).SerializeToString(), b"".join(records)

        self._answers.later(caller, frame, answer())

    def _list(self, caller: Caller, frame: Frame) -> None:
        request = parse(ListTransactionsRequest, frame[3])

        async def answer() -> tuple[bytes, bytes]:
            names = await asyncio.get_running_loop().run_in_executor(self._answers.lookups, self._names, request)
            return self._page(request, names).SerializeToString(), b""

        self._answers.later(caller, frame, answer())

    def _names(self, request: ListTransactionsRequest) -> list[str]:
        """Return the next transactions, sorted by name. In a thread: they may be many."""
        halves = self._halves
        names = halves.names()
        if request.state != TX_NOT_KNOWN:
            names += halves.outcomes.names()
        return heapq.nsmallest(_LOOKED_AT, {name for name in names if name > request.after})

    def _page(self, request: ListTransactionsRequest, names: list[str]) -> TransactionsAnswer:
        answer = TransactionsAnswer(is_end=len(names) < _LOOKED_AT)
        limit = max(1, min(request.most or _MAX_TRANSACTIONS, _MAX_TRANSACTIONS))
        for name in names:
            facts = describe_transaction(self._halves, name, self._schedule)
            if _matches(facts, request):
                if len(answer.transactions) == limit:
                    answer.is_end = False
                    break
                answer.transactions.append(facts)
            answer.next_after = name
        return answer


def _matches(facts: TransactionFacts, request: ListTransactionsRequest) -> bool:
    if request.state == TX_NOT_KNOWN:
        if not facts.records:
            return False  # it has ended meanwhile
    elif facts.state != request.state:
        return False
    return (
        (request.include_sinks or not facts.is_sink)
        and (not request.group or facts.group == request.group)
        and (not request.topic or request.topic in facts.topics)
        and (not request.stored_before or 0 < facts.stored_at < request.stored_before)
    )
