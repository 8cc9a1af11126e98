"""A Spark job that writes in two phases: the requests of its tasks and its driver."""

from __future__ import annotations

from litemq.format.record_encode import encode_record
from litemq.net.request_channel import Answer
from litemq.proto.wire_pb2 import (
    AbortSinkRequest,
    Attempt,
    CommitSinkRequest,
    DescribeSinkRequest,
    Opcode,
    SendHalvesAnswer,
    SendHalvesRequest,
    SinkAnswer,
    Winner,
)
from litemq.storage.state.transactions.halves import sink_transaction
from litemq.types import Record
from support.callers import Asking


def halves(
    attempt: Attempt,
    count: int,
    *,
    first: int = 0,
    topic: str = "orders",
    delay_time: int = 0,
    body: bytes = b"body",
    priority: int = 128,
) -> bytes:
    """Encode ``count`` records of one attempt. Their ids name the attempt."""
    name = sink_transaction(attempt.query, attempt.batch, attempt.partition, attempt.attempt)
    ids = [f"{attempt.batch}-{attempt.partition}-{attempt.attempt}-{number}" for number in range(first, first + count)]
    records = [Record(topic, body, each, transaction_id=name, delay_time=delay_time, priority=priority) for each in ids]
    return b"".join(map(encode_record, records))


class Job(Asking):
    """The client of a job, with a method for each request."""

    query = "q"

    async def send_halves(
        self, records: bytes, attempt: Attempt, first: int = 0, queue_id: int = 0, topic: str = "orders"
    ) -> int:
        request = SendHalvesRequest(topic=topic, queue_id=queue_id, attempt=attempt, first=first)
        answer: Answer = await self.channel.ask(Opcode.SEND_HALVES, request.SerializeToString(), records)
        return SendHalvesAnswer.FromString(answer.header).next

    async def write(self, attempt: Attempt, count: int, queue_id: int = 0, first: int = 0, **fields: int) -> None:
        """Send further halves of an attempt, with consecutive ids."""
        records = halves(attempt, count, first=first, **fields)  # type: ignore[arg-type]
        assert await self.send_halves(records, attempt, first, queue_id) == first + count

    async def commit(
        self, batch: int, *winners: tuple[int, int, int], query: str = "q", plan: bytes = b""
    ) -> SinkAnswer:
        """``winners``: partition, attempt, count."""
        named = [Winner(partition=partition, attempt=attempt, count=count) for partition, attempt, count in winners]
        request = CommitSinkRequest(query=query, batch=batch, winners=named, plan=plan)
        return SinkAnswer.FromString((await self.channel.ask(Opcode.COMMIT_SINK, request.SerializeToString())).header)

    async def abort(self, batch: int, query: str = "q") -> None:
        await self.channel.ask(Opcode.ABORT_SINK, AbortSinkRequest(query=query, batch=batch).SerializeToString())

    async def describe(self, query: str = "q") -> SinkAnswer:
        answer = await self.channel.ask(Opcode.DESCRIBE_SINK, DescribeSinkRequest(query=query).SerializeToString())
        return SinkAnswer.FromString(answer.header)


def attempt(batch: int = 0, partition: int = 0, number: int = 0, query: str = "q") -> Attempt:
    return Attempt(query=query, batch=batch, partition=partition, attempt=number)
