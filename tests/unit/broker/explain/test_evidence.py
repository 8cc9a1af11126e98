"""WHY requests to a broker, in each situation of a message."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from litemq.broker.broker import Broker
from litemq.broker.explain.evidence import sent_at_from_id
from litemq.broker.limits import BrokerLimits
from litemq.client.identity import new_message_ids
from litemq.clock import FakeClock
from litemq.errors import InvalidArgumentError
from litemq.format.offset_runs import pack_runs
from litemq.format.record_encode import RecordTemplate
from litemq.proto.wire_pb2 import (
    FailedTry,
    LeaseAnswer,
    Leased,
    LeaseRequest,
    Opcode,
    SettleRequest,
    WhyAnswer,
    WhyRequest,
)
from litemq.types import DeadReason
from support.callers import Asking, Kind, records, running_broker
from support.halves import Job, attempt

KINDS = pytest.mark.parametrize("kind", ["memory", "disk"])


class Desk:
    """A broker with a topic of one queue and three messages, and a client."""

    def __init__(self, broker: Broker, clock: FakeClock) -> None:
        self.broker = broker
        self.clock = clock
        self.asking = Asking(broker, "worker-1")

    async def why(self, message_id: str = "m-0", group: str = "billing", topic: str = "orders") -> WhyAnswer:
        header = WhyRequest(topic=topic, message_id=message_id, group=group).SerializeToString()
        return WhyAnswer.FromString((await self.asking.channel.ask(Opcode.WHY, header)).header)

    async def verdict(self, message_id: str = "m-0", group: str = "billing", topic: str = "orders") -> str:
        return (await self.why(message_id, group, topic)).verdict

    async def lease(self, most: int = 1, wanted: str = "", max_retries: int = 16) -> int:
        request = LeaseRequest(
            topic="orders", group="billing", max_messages=most, lease_ms=60_000, max_retries=max_retries, filter=wanted
        )
        return LeaseAnswer.FromString(
            (await self.asking.channel.ask(Opcode.LEASE, request.SerializeToString())).header
        ).token

    async def ack(self, token: int, begin: int, end: int) -> None:
        acked = Leased(queue_id=0, token=token, offsets=pack_runs([(begin, end)]))
        await self.asking.channel.ask(
            Opcode.SETTLE, SettleRequest(topic="orders", group="billing", acked=[acked]).SerializeToString()
        )

    async def fail(
        self, token: int, offset: int, *, is_retry: bool = False, delay_ms: int = 0, is_final: bool = False
    ) -> None:
        failed = FailedTry(
            queue_id=0,
            is_retry=is_retry,
            token=token,
            offset=offset,
            delay_ms=delay_ms,
            max_retries=16,
            is_final=is_final,
            reason=DeadReason.CONSUME_ERROR,
            error="ValueError: bad",
        )
        await self.asking.channel.ask(
            Opcode.SETTLE, SettleRequest(topic="orders", group="billing", failed=[failed]).SerializeToString()
        )


def _with(kind: Kind, path: Path, test: Callable[[Desk], Awaitable[None]], limits: BrokerLimits | None = None) -> None:
    async def main() -> None:
        clock = FakeClock()
        async with running_broker(kind, path, limits, clock) as broker:
            desk = Desk(broker, clock)
            await desk.asking.create(queues=1)
            await desk.asking.send(records(3, body=b"x"))
            await test(desk)

    asyncio.run(main())


@KINDS
def test_verdicts_in_the_life_of_a_message(kind: Kind, tmp_path: Path) -> None:
    async def test(desk: Desk) -> None:
        assert await desk.verdict("m-9") == "not-found"
        assert await desk.verdict(topic="others") == "no-topic"
        assert await desk.verdict() == "before-start"
        token = await desk.lease()
        answer = await desk.why()
        assert answer.verdict == "leased"
        assert "for try 1" in answer.sentence
        assert answer.topic == "orders"
        assert "position: queue 0, offset 0; the group is at 0" in answer.facts
        assert await desk.verdict("m-1") == "behind"
        assert await desk.verdict("m-1", group="audit") == "before-start"
        assert await desk.verdict(topic="") == "leased"  # looked for in all topics
        desk.clock.advance(61)
        assert await desk.verdict() == "ready"
        desk.clock.advance(61)
        assert await desk.verdict() == "nobody-comes"
        token = await desk.lease()
        await desk.ack(token, 0, 1)
        assert await desk.verdict() == "consumed"

    _with(kind, tmp_path, test)


@KINDS
def test_verdicts_of_a_retried_and_a_dead_message(kind: Kind, tmp_path: Path) -> None:
    async def test(desk: Desk) -> None:
        token = await desk.lease()
        await desk.fail(token, 0, delay_ms=5_000)
        answer = await desk.why()
        assert (answer.verdict, "try 1 failed" in answer.sentence) == ("waits-for-try", True)
        desk.clock.advance(6)
        await desk.broker.fire_due()
        await desk.broker.context.store.confirmed(
            desk.broker.context.store.log_end
        )  # only what may be read is given out
        token = await desk.lease(most=3)
        answer = await desk.why()
        assert answer.verdict == "leased"
        assert any("the retry queue" in line for line in answer.facts)
        await desk.fail(token, 0, is_retry=True, is_final=True)
        answer = await desk.why()
        assert answer.verdict == "dead"
        assert "ValueError: bad" in answer.sentence
        assert "litemq dlq redrive orders --id m-0" in answer.advice
        assert await desk.verdict(group="audit") == "before-start"  # it died for the other one

    _with(kind, tmp_path, test)


@KINDS
def test_verdicts_of_filtered_and_expired_messages(kind: Kind, tmp_path: Path) -> None:
    async def test(desk: Desk) -> None:
        template = RecordTemplate("orders", tags=("red",))
        await desk.asking.send(template.encode(b"x", message_id="red"))
        await desk.lease(most=1, wanted="blue || green")
        answer = await desk.why("red")
        assert answer.verdict == "filtered"
        assert "'blue || green'" in answer.sentence
        await desk.asking.send(template.encode(b"x", message_id="short", expire_at=desk.clock.wall_ms() + 1_000))
        desk.clock.advance(2)
        assert await desk.verdict("short") == "expired"

    _with(kind, tmp_path, test)


@KINDS
def test_verdicts_of_messages_in_transactions(kind: Kind, tmp_path: Path) -> None:
    async def test(desk: Desk) -> None:
        job = Job(desk.broker)
        await job.write(attempt(0, 0), 1)
        await job.write(attempt(0, 1), 1)
        assert await desk.verdict("0-0-0-0") == "undecided"
        desk.broker._transactions._publisher.close()
        await job.commit(0, (0, 0, 1))
        assert await desk.verdict("0-0-0-0") == "ready"
        assert await desk.verdict("0-1-0-0") == "rolled-back"
        desk.broker._transactions._publisher._task.is_closed = False
        await desk.broker.fire_due()
        answer = await desk.why("0-0-0-0")
        assert (answer.verdict, "never read queue 0" in answer.sentence) == ("before-start", True)

    _with(kind, tmp_path, test)


def test_the_answer_includes_the_trace(tmp_path: Path) -> None:
    async def test(desk: Desk) -> None:
        token = await desk.lease(most=2)
        await desk.ack(token, 0, 1)
        await desk.fail(token, 1, is_final=True)
        desk.broker._trace_recorder.flush()
        await desk.broker.context.store.confirmed(desk.broker.context.store.log_end)
        trace = [line.split(maxsplit=2)[2] for line in (await desk.why()).facts if line.startswith("trace: ")]
        assert trace == [
            "stored orders/0 at 0",
            "received orders/0 at 0 group billing client worker-1",
            "acked orders/0 at 0 group billing client worker-1",
        ]
        trace = [line.split()[2] for line in (await desk.why("m-1")).facts if line.startswith("trace: ")]
        assert trace == ["stored", "received", "rejected", "died"]

    _with("disk", tmp_path, test, BrokerLimits(trace="all"))


def test_invalid_requests_are_refused(tmp_path: Path) -> None:
    async def test(desk: Desk) -> None:
        for message_id, group in (("", "billing"), ("x" * 65, "billing"), ("m-0", ""), ("m-0", "no such name!")):
            with pytest.raises(InvalidArgumentError):
                await desk.why(message_id, group)

    _with("memory", tmp_path, test)


def test_the_send_time_is_read_from_the_message_id() -> None:
    message_id, made_at = new_message_ids().next()
    assert sent_at_from_id(message_id) == made_at
    for other in (
        "",
        "m-1",
        "ffffffffffffffffffffffffffff",
        "000000000001aaaaaaaaaaaaaaaaaaaa",
        "order-2026-11-15-0000000000",
    ):
        assert sent_at_from_id(other) == 0
