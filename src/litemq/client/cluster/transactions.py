"""Transactions of a cluster's brokers, asked over the wire."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from itertools import pairwise
from typing import Final

from litemq.client.cluster.request_batcher import Gathering
from litemq.client.cluster.sending.producer import Producer
from litemq.client.config import ClientConfig
from litemq.client.engine.transactions import CheckFact, HalfPlace, TransactionFact, TransactionPage, TransactionState
from litemq.client.transport.channel import Answer
from litemq.errors import LiteMQError
from litemq.format.batches.scan import scan
from litemq.format.limits import STORED_LIMITS
from litemq.format.transactions import broker_of
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

# Broker, opcode, header, attachment, how many seconds more than usual the answer may take.
Ask = Callable[[str, int, bytes, bytes, float], Awaitable[Answer]]
_Half = tuple[int, bytes]  # queue and record
_End = tuple[str, TransactionState, int]

_MOST_ENDS: Final = 4_096
_AT_ONCE: Final = 256  # transactions that one is asked for
_STATES: Final = {
    wire.TX_NOT_KNOWN: TransactionState.NOT_KNOWN,
    wire.TX_UNDECIDED: TransactionState.UNDECIDED,
    wire.TX_COMMITTED: TransactionState.COMMITTED,
    wire.TX_ROLLED_BACK: TransactionState.ROLLED_BACK,
    wire.TX_DEAD: TransactionState.DEAD,
    wire.TX_INCOMPLETE: TransactionState.INCOMPLETE,
}
_TOLD: Final = {state: told for told, state in _STATES.items()}


class ClusterTransactions:
    """A ``TransactionBackend``; made on the event loop, when the client is opened."""

    def __init__(self, config: ClientConfig, ask: Ask, brokers: Callable[[], Awaitable[list[str]]], producer: Producer) -> None:
        self._ask = ask
        self._brokers = brokers  # those that are alive
        self._producer = producer
        self._halves: Gathering[tuple[str, str], _Half, int] = Gathering(
            config, self._send_halves, config.max_batch_messages, config.max_batch_bytes
        )
        self._ends: Gathering[str, _End, TransactionState] = Gathering(config, self._send_ends, _MOST_ENDS, 1)

    async def close(self, within: float) -> None:
        """Wait for what is on its way."""
        await asyncio.gather(self._halves.close(within), self._ends.close(within))

    # One transaction ----------------------------------------------------------------------------------------------------------

    async def place(self, topic: str, broker: str, ordering_key: str, keys: Sequence[str], priority: int) -> HalfPlace:
        queue = await self._producer.queue_for(topic, broker, ordering_key, keys, priority)
        return HalfPlace(queue.broker, queue.queue_id, queue.default_level)

    async def send(self, broker: str, topic: str, queue_id: int, record: bytes) -> int:
        room = self._producer.room
        await room.wait()
        room.taken += len(record)
        try:
            return await self._halves.add((broker, topic), (queue_id, record), len(record))
        finally:
            room.give_back(len(record))

    async def _send_halves(self, place: tuple[str, str], halves: list[_Half]) -> list[int | LiteMQError]:
        broker, topic = place
        request = SendHalfRequest(topic=topic, queue_ids=[queue_id for queue_id, _ in halves])
        records = b"".join([record for _, record in halves])
        header, _ = await self._ask(broker, Opcode.SEND_HALF, request.SerializeToString(), records, 0)
        answer = SendHalfAnswer.FromString(header)
        outcomes: list[int | LiteMQError] = [answer.store_timestamp] * len(halves)
        for refused in answer.refused:
            outcomes[refused.number] = decode_failure(refused.failure.SerializeToString())
        return outcomes

    def end(self, transaction_id: str, outcome: TransactionState, count: int = 0) -> asyncio.Future[TransactionState]:
        return self._ends.add(broker_of(transaction_id), (transaction_id, outcome, count))

    async def _send_ends(self, broker: str, ends: list[_End]) -> list[TransactionState | LiteMQError]:
        told = [TransactionEnd(transaction=name, outcome=_TOLD[outcome], count=count) for name, outcome, count in ends]
        header, _ = await self._ask(broker, Opcode.END_TRANSACTIONS, EndTransactionsRequest(ends=told).SerializeToString(), b"", 0)
        return [_STATES[state] for state in EndTransactionsAnswer.FromString(header).states]

    # Check-backs --------------------------------------------------------------------------------------------------------------

    async def brokers(self) -> list[str]:
        return await self._brokers()

    async def poll(self, broker: str, group: str, wait_ms: int) -> list[tuple[TransactionFact, list[bytes]]]:
        request = CheckTransactionsRequest(group=group, wait_ms=wait_ms, most=_AT_ONCE)
        header, records = await self._ask(broker, Opcode.CHECK_TRANSACTIONS, request.SerializeToString(), b"", wait_ms / 1000)
        answer = CheckTransactionsAnswer.FromString(header)
        whole = iter(_apart(records))
        return [(_fact(broker, facts), [next(whole) for _ in range(facts.records)]) for facts in answer.transactions]

    # Looking at them ----------------------------------------------------------------------------------------------------------

    async def describe(self, transaction_id: str) -> tuple[TransactionFact, list[bytes]]:
        broker = broker_of(transaction_id)
        request = DescribeTransactionRequest(transaction=transaction_id)
        header, records = await self._ask(broker, Opcode.DESCRIBE_TRANSACTION, request.SerializeToString(), b"", 0)
        return _fact(broker, TransactionAnswer.FromString(header).facts), _apart(records)

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
        most: int,
    ) -> TransactionPage:
        request = ListTransactionsRequest(
            group=group,
            topic=topic,
            stored_before=stored_before,
            state=wire.TX_NOT_KNOWN if state is None else _TOLD[state],
            include_sinks=include_sinks,
            after=after,
            most=most,
        )
        header, _ = await self._ask(broker, Opcode.LIST_TRANSACTIONS, request.SerializeToString(), b"", 0)
        answer = TransactionsAnswer.FromString(header)
        return TransactionPage(tuple(_fact(broker, facts) for facts in answer.transactions), answer.next_after, answer.is_end)


def _apart(records: bytes) -> list[bytes]:
    """Stored records that came one behind another."""
    starts = scan(records, limits=STORED_LIMITS).starts.tolist()
    return [records[at:until] for at, until in pairwise([*starts, len(records)])]


def _fact(broker: str, told: wire.TransactionFacts) -> TransactionFact:
    return TransactionFact(
        told.transaction,
        broker,
        told.group,
        _STATES[told.state],
        told.records,
        told.bytes,
        told.stored_at,
        told.checks,
        told.next_check_at,
        tuple(told.topics),
        tuple(CheckFact(each.at, each.asked, each.unknown) for each in told.story),
        told.is_sink,
    )
