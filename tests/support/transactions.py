"""A producer of transactions without a network, with a method for each request."""

from __future__ import annotations

from litemq.format.record_encode import encode_record
from litemq.format.transactions import transaction_name
from litemq.net.failures import decode_failure
from litemq.proto.wire_pb2 import (
    TX_COMMITTED,
    TX_ROLLED_BACK,
    TX_UNDECIDED,
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
    TransactionFacts,
    TransactionsAnswer,
)
from litemq.types import Durability, MessageType, Record
from support.callers import Asking


def name_of(number: int, group: str = "shop") -> str:
    """Return the name of a transaction."""
    return transaction_name(group, f"{number:04x}", "here")


def half(
    name: str,
    number: int = 0,
    *,
    topic: str = "orders",
    body: bytes = b"body",
    message_id: str = "",
    properties: dict[str, str] | None = None,
    kind: MessageType = MessageType.TRANSACTION,
    level: Durability = Durability.DISK,
    **fields: int,
) -> bytes:
    """Encode a half of a transaction."""
    record = Record(
        topic,
        body,
        message_id or f"{name}#{number}",
        properties=properties or {},
        type=kind,
        reliability=level,
        sequence=number,
        transaction_id=name,
        **fields,  # type: ignore[arg-type]
    )
    return encode_record(record)


class Producer(Asking):
    """The client of a producer."""

    async def send_halves(self, records: bytes, *queue_ids: int, topic: str = "orders") -> None:
        """Send halves; raise the first refusal."""
        request = SendHalfRequest(topic=topic, queue_ids=queue_ids or [0])
        answer = await self.channel.ask(Opcode.SEND_HALF, request.SerializeToString(), records)
        for refused in SendHalfAnswer.FromString(answer.header).refused:
            raise decode_failure(refused.failure.SerializeToString())

    async def end(self, outcome: int, *names: str, count: int = 0) -> list[int]:
        """End transactions; return their states."""
        ends = [TransactionEnd(transaction=name, outcome=outcome, count=count) for name in names]  # type: ignore[arg-type]
        answer = await self.channel.ask(Opcode.END_TRANSACTIONS, EndTransactionsRequest(ends=ends).SerializeToString())
        return list(EndTransactionsAnswer.FromString(answer.header).states)

    async def commit(self, *names: str, count: int = 0) -> list[int]:
        return await self.end(TX_COMMITTED, *names, count=count)

    async def roll_back(self, *names: str) -> list[int]:
        return await self.end(TX_ROLLED_BACK, *names)

    async def say_unknown(self, *names: str) -> list[int]:
        return await self.end(TX_UNDECIDED, *names)

    async def poll(self, group: str = "shop", wait_ms: int = 1, most: int = 0) -> tuple[list[TransactionFacts], bytes]:
        request = CheckTransactionsRequest(group=group, wait_ms=wait_ms, most=most)
        answer = await self.channel.ask(Opcode.CHECK_TRANSACTIONS, request.SerializeToString())
        return list(CheckTransactionsAnswer.FromString(answer.header).transactions), bytes(answer.attachment)

    async def describe(self, name: str) -> TransactionFacts:
        request = DescribeTransactionRequest(transaction=name)
        answer = await self.channel.ask(Opcode.DESCRIBE_TRANSACTION, request.SerializeToString())
        return TransactionAnswer.FromString(answer.header).facts

    async def listed(self, **wanted: object) -> TransactionsAnswer:
        request = ListTransactionsRequest(**wanted)  # type: ignore[arg-type]
        answer = await self.channel.ask(Opcode.LIST_TRANSACTIONS, request.SerializeToString())
        return TransactionsAnswer.FromString(answer.header)
