"""The ``TransactionEngine`` of a cluster: requests to its brokers."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from itertools import pairwise
from typing import Final

from litemq.client.cluster.request_batcher import RequestBatcher
from litemq.client.cluster.sending.producer import Producer
from litemq.client.config import ClientConfig
from litemq.client.engine.transactions import (
    CheckInfo,
    HalfPosition,
    TransactionInfo,
    TransactionPage,
    TransactionState,
)
from litemq.client.transport.channel import Answer
from litemq.errors import LiteMQError
from litemq.format.batches.scan import scan
from litemq.format.limits import STORED_LIMITS
from litemq.format.transactions import transaction_broker
from litemq.net.failures import decode_failure
from litemq.proto import wire_pb2 as wire
from litemq.proto.wire_pb2 import (
    CheckTransactionsAnswer,
    CheckTransactionsRequest,
    DescribeTransactionRequest,
    EndTransactionsAnswer,
    EndTransactionsRequest,
    ListTransactionsRequest,
    Opcode,
    SendHalfAnswer,
    SendHalfRequest,
    TransactionAnswer,
    TransactionEnd,
    TransactionsAnswer,
)

__all__ = ["ClusterTransactions"]

# Broker, opcode, header, attachment, and the seconds to add to the request timeout.
Ask = Callable[[str, int, bytes, bytes, float], Awaitable[Answer]]
_Half = tuple[int, bytes]  # queue and record
_End = tuple[str, TransactionState, int]

_MAX_ENDS: Final = 4_096
_MAX_CHECKS: Final = 256  # transactions in one answer to a poll
_STATES: Final = {
    wire.TX_NOT_KNOWN: TransactionState.NOT_KNOWN,
    wire.TX_UNDECIDED: TransactionState.UNDECIDED,
    wire.TX_COMMITTED: TransactionState.COMMITTED,
    wire.TX_ROLLED_BACK: TransactionState.ROLLED_BACK,
    wire.TX_DEAD: TransactionState.DEAD,
    wire.TX_INCOMPLETE: TransactionState.INCOMPLETE,
}
_WIRE_STATES: Final = {state: number for number, state in _STATES.items()}


class ClusterTransactions:
    """A ``TransactionEngine``. Create it on the event loop."""

    def __init__(
        self, config: ClientConfig, ask: Ask, brokers: Callable[[], Awaitable[list[str]]], producer: Producer
    ) -> None:
        self._ask = ask
        self._brokers = brokers  # returns the brokers that are alive
        self._producer = producer
        self._halves: RequestBatcher[tuple[str, str], _Half, int] = RequestBatcher(
            config, self._send_halves, config.max_batch_messages, config.max_batch_bytes
        )
        self._ends: RequestBatcher[str, _End, TransactionState] = RequestBatcher(config, self._send_ends, _MAX_ENDS, 1)

    async def close(self, within: float) -> None:
        """Wait up to ``within`` seconds for pending requests."""
        await asyncio.gather(self._halves.close(within), self._ends.close(within))

    # One transaction ------------------------------------------------------------------------------

    async def choose_queue(
        self, topic: str, broker: str, ordering_key: str, keys: Sequence[str], priority: int
    ) -> HalfPosition:
        queue = await self._producer.queue_for(topic, broker, ordering_key, keys, priority)
        return HalfPosition(queue.broker, queue.queue_id, queue.default_level)

    async def send(self, broker: str, topic: str, queue_id: int, record: bytes) -> int:
        buffer = self._producer.buffer
        await buffer.wait()
        buffer.used += len(record)
        try:
            return await self._halves.add((broker, topic), (queue_id, record), len(record))
        finally:
            buffer.release(len(record))

    async def _send_halves(self, destination: tuple[str, str], halves: list[_Half]) -> list[int | LiteMQError]:
        broker, topic = destination
        request = SendHalfRequest(topic=topic, queue_ids=[queue_id for queue_id, _ in halves])
        records = b"".join([record for _, record in halves])
        header, _ = await self._ask(broker, Opcode.SEND_HALF, request.SerializeToString(), records, 0)
        answer = SendHalfAnswer.FromString(header)
        outcomes: list[int | LiteMQError] = [answer.store_timestamp] * len(halves)
        for refused in answer.refused:
            outcomes[refused.number] = decode_failure(refused.failure.SerializeToString())
        return outcomes

    def end(self, transaction_id: str, outcome: TransactionState, count: int = 0) -> asyncio.Future[TransactionState]:
        return self._ends.add(transaction_broker(transaction_id), (transaction_id, outcome, count))

    async def _send_ends(self, broker: str, ends: list[_End]) -> list[TransactionState | LiteMQError]:
        wire_ends = [
            TransactionEnd(transaction=name, outcome=_WIRE_STATES[outcome], count=count)
            for name, outcome, count in ends
        ]
        header, _ = await self._ask(
            broker, Opcode.END_TRANSACTIONS, EndTransactionsRequest(ends=wire_ends).SerializeToString(), b"", 0
        )
        return [_STATES[state] for state in EndTransactionsAnswer.FromString(header).states]

    # Check-backs ----------------------------------------------------------------------------------

    async def brokers(self) -> list[str]:
        return await self._brokers()

    async def poll(self, broker: str, group: str, wait_ms: int) -> list[tuple[TransactionInfo, list[bytes]]]:
        request = CheckTransactionsRequest(group=group, wait_ms=wait_ms, most=_MAX_CHECKS)
        header, records = await self._ask(
            broker, Opcode.CHECK_TRANSACTIONS, request.SerializeToString(), b"", wait_ms / 1000
        )
        answer = CheckTransactionsAnswer.FromString(header)
        whole = iter(_split_records(records))
        return [
            (_transaction_from_wire(broker, facts), [next(whole) for _ in range(facts.records)])
            for facts in answer.transactions
        ]

    # Administration -------------------------------------------------------------------------------

    async def describe(self, transaction_id: str) -> tuple[TransactionInfo, list[bytes]]:
        broker = transaction_broker(transaction_id)
        request = DescribeTransactionRequest(transaction=transaction_id)
        header, records = await self._ask(broker, Opcode.DESCRIBE_TRANSACTION, request.SerializeToString(), b"", 0)
        return _transaction_from_wire(broker, TransactionAnswer.FromString(header).facts), _split_records(records)

    async def page(
        self,
        broker: str,
        *,
        group: str,
        topic: str,
        stored_before: int,
        state: TransactionState | None,
        include_sinks: bool,
        after: str,
        limit: int,
    ) -> TransactionPage:
        request = ListTransactionsRequest(
            group=group,
            topic=topic,
            stored_before=stored_before,
            state=wire.TX_NOT_KNOWN if state is None else _WIRE_STATES[state],
            include_sinks=include_sinks,
            after=after,
            most=limit,
        )
        header, _ = await self._ask(broker, Opcode.LIST_TRANSACTIONS, request.SerializeToString(), b"", 0)
        answer = TransactionsAnswer.FromString(header)
        transactions = tuple(_transaction_from_wire(broker, facts) for facts in answer.transactions)
        return TransactionPage(transactions, answer.next_after, answer.is_end)


def _split_records(records: bytes) -> list[bytes]:
    """Split concatenated stored records."""
    starts = scan(records, limits=STORED_LIMITS).starts.tolist()
    return [records[at:until] for at, until in pairwise([*starts, len(records)])]


def _transaction_from_wire(broker: str, facts: wire.TransactionFacts) -> TransactionInfo:
    return TransactionInfo(
        facts.transaction,
        broker,
        facts.group,
        _STATES[facts.state],
        facts.records,
        facts.bytes,
        facts.stored_at,
        facts.checks,
        facts.next_check_at,
        tuple(facts.topics),
        tuple(CheckInfo(each.at, each.asked, each.unknown) for each in facts.story),
        facts.is_sink,
    )
