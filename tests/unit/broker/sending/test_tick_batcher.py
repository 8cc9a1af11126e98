"""Tick batching: one append per tick and topic, one answer per request."""

import asyncio
from pathlib import Path

import pytest

from litemq.broker.admission import fair_queue as fairness
from litemq.broker.limits import BrokerLimits
from litemq.clock import FakeClock
from litemq.errors import (
    InvalidArgumentError,
    LiteMQError,
    OverloadedError,
    ProtocolError,
    QuotaExceededError,
    RemoteError,
    TopicNotFoundError,
    UnsupportedFeatureError,
)
from litemq.proto.wire_pb2 import Opcode, SendRequest
from litemq.types import Durability
from support.callers import Asking, Kind, records, running_broker

KINDS = pytest.mark.parametrize("kind", ["memory", "disk"])


@KINDS
def test_all_sends_of_a_tick_are_one_append(kind: Kind, tmp_path: Path) -> None:
    async def main() -> None:
        async with running_broker(kind, tmp_path) as broker:
            ann, bob = Asking(broker, "ann"), Asking(broker, "bob")
            await ann.create()
            appends = 0
            append = broker.context.store.append_sends

            def counted(*args: object, **options: object) -> object:
                nonlocal appends
                appends += 1
                return append(*args, **options)  # type: ignore[arg-type]

            broker.context.store.append_sends = counted  # type: ignore[method-assign,assignment]
            asked = [ann.send(records(), queue) for queue in (0, 1, 0)] + [
                bob.send(records(3), 1),
                bob.send(records(), 0),
            ]
            answers = await asyncio.gather(*asked)
            assert [answer.queue_offset for answer in answers] == [0, 0, 1, 1, 2]
            assert len({answer.store_timestamp for answer in answers}) == 1
            assert appends == 1

    asyncio.run(main())


@KINDS
def test_an_invalid_send_is_refused_alone(kind: Kind, tmp_path: Path) -> None:
    async def main() -> None:
        async with running_broker(kind, tmp_path) as broker:
            ann = Asking(broker)
            await ann.create()
            good = records()
            flipped = bytearray(good)
            flipped[-9] ^= 1
            bad = [bytes(flipped), b"", b"x" * 200, good[:-8], good + good[:50], records(topic="others"), good[:143]]
            answers = await asyncio.gather(ann.send(good), *map(ann.send, bad), ann.send(good), return_exceptions=True)
            for answer in answers[1:-1]:
                assert isinstance(answer, (RemoteError, InvalidArgumentError)), answer
            first, last = answers[0], answers[-1]
            assert not isinstance(first, BaseException)
            assert not isinstance(last, BaseException)
            assert (first.queue_offset, last.queue_offset) == (0, 1)

    asyncio.run(main())


def test_records_of_one_request_must_belong_together(tmp_path: Path) -> None:
    async def main() -> None:
        async with running_broker("memory", tmp_path) as broker:
            ann = Asking(broker)
            await ann.create()
            with pytest.raises(InvalidArgumentError, match="one producer"):
                await ann.send(records(producer_id=1) + records(producer_id=2))
            with pytest.raises(InvalidArgumentError, match="must be consecutive"):
                await ann.send(records(producer_id=1) + records(producer_id=1, first=2))

    asyncio.run(main())


@pytest.mark.parametrize("count", [1, 2])
@pytest.mark.parametrize(
    ("fields", "level", "says"),
    [
        ({"message_type": 2}, Durability.DISK, "begin a transaction"),
        ({}, Durability.REPLICAS, "replicas"),
    ],
)
def test_unsupported_features_are_refused(
    fields: dict[str, int], level: Durability, says: str, count: int, tmp_path: Path
) -> None:
    async def main() -> None:
        async with running_broker("memory", tmp_path) as broker:
            ann = Asking(broker)
            await ann.create()
            with pytest.raises(UnsupportedFeatureError, match=says):
                await ann.send(records(count, level=level, **fields))  # type: ignore[arg-type]

    asyncio.run(main())


def test_unknown_topics_and_queues_are_refused(tmp_path: Path) -> None:
    async def main() -> None:
        async with running_broker("memory", tmp_path) as broker:
            ann = Asking(broker)
            await ann.create()
            with pytest.raises(InvalidArgumentError, match="has 4"):
                await ann.send(records(), 4)
            with pytest.raises(TopicNotFoundError, match="litemq topic create"):
                await ann.send(records(topic="other"), topic="other")
            with pytest.raises(InvalidArgumentError, match="reserved"):
                await ann.send(records(topic="LITEMQ_SYS_CONTROL"), topic="LITEMQ_SYS_CONTROL")
            with pytest.raises(ProtocolError):
                await ann.channel.ask(Opcode.SEND, b"\xff\xff", records())
            with pytest.raises(ProtocolError):
                await ann.channel.ask(999, b"")

    asyncio.run(main())


def test_sends_to_a_deleted_topic_are_refused(tmp_path: Path) -> None:
    async def main() -> None:
        async with running_broker("memory", tmp_path) as broker:
            ann = Asking(broker)
            await ann.create()
            await ann.send(records())
            await ann.channel.ask(Opcode.DELETE_TOPIC, SendRequest(topic="orders").SerializeToString())
            with pytest.raises(TopicNotFoundError):
                await ann.send(records())
            await ann.create()
            assert (await ann.send(records())).queue_offset == 1  # it goes on where the former one ended

    asyncio.run(main())


def test_an_overloaded_broker_refuses_sends_for_a_moment(tmp_path: Path) -> None:
    async def main() -> None:
        async with running_broker("disk", tmp_path, BrokerLimits(max_unconfirmed_bytes=1)) as broker:
            ann = Asking(broker)
            await ann.create()
            large = records(level=Durability.MEMORY, body=bytes(100_000))
            outcomes = await asyncio.gather(*(ann.send(large) for _ in range(200)), return_exceptions=True)
            refused = [outcome for outcome in outcomes if isinstance(outcome, LiteMQError)]
            assert 0 < len(refused) < 200
            for error in refused:
                assert isinstance(error, OverloadedError)
                assert error.retry_after_ms > 0
            assert (await ann.send(large)).queue_offset == 200 - len(refused)

    asyncio.run(main())


@pytest.fixture
def _callers_stay_known(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep callers known on slow machines, however long they take between two sends."""
    monkeypatch.setattr(fairness, "_REMEMBERED_S", 3600.0)


@pytest.mark.usefixtures("_callers_stay_known")
def test_a_runaway_producer_does_not_delay_others(tmp_path: Path) -> None:
    async def main() -> None:
        async with running_broker("disk", tmp_path) as broker:
            ann, bob = Asking(broker, "ann"), Asking(broker, "bob")
            await ann.create()
            large = records(body=bytes(100_000))
            flood = [asyncio.ensure_future(ann.send(large)) for _ in range(20)]
            await bob.send(records())  # from now on another caller is known
            flood += [asyncio.ensure_future(ann.send(large)) for _ in range(300)]
            await asyncio.sleep(0)
            await bob.send(records())
            assert sum(1 for sent in flood if not sent.done()) > 150, "most of the flood was appended before"
            receipts = await asyncio.gather(*flood)
            offsets = [receipt.queue_offset for receipt in receipts]
            assert offsets == sorted(offsets)

    asyncio.run(main())


@pytest.mark.usefixtures("_callers_stay_known")
def test_waiting_sends_are_dropped_with_their_caller(tmp_path: Path) -> None:
    async def main() -> None:
        async with running_broker("disk", tmp_path) as broker:
            ann, bob = Asking(broker, "ann"), Asking(broker, "bob")
            await ann.create()
            flood = [asyncio.ensure_future(ann.send(records(body=bytes(100_000)))) for _ in range(20)]
            await bob.send(records())
            flood += [asyncio.ensure_future(ann.send(records(body=bytes(100_000)))) for _ in range(100)]
            while broker._tick_batcher._fair_queue.size < 5_000_000:  # noqa: ASYNC110
                await asyncio.sleep(0)
            broker.caller_gone(ann.channel)
            for _ in range(100):
                last = await bob.send(records())
            assert last.queue_offset < 101 + 100, "a send of a gone caller was appended"
            for sent in flood:
                sent.cancel()

    asyncio.run(main())


def test_a_client_over_its_quota_is_refused(tmp_path: Path) -> None:
    async def main() -> None:
        clock = FakeClock()
        async with running_broker("memory", tmp_path, BrokerLimits(quota_messages_per_s=10), clock) as broker:
            ann, bob = Asking(broker, "ann"), Asking(broker, "bob")
            await ann.create()
            await ann.send(records(30))  # one burst may be larger; it is waited for
            with pytest.raises(QuotaExceededError) as refused:
                await ann.send(records())
            assert refused.value.retry_after_ms == 2000
            await bob.send(records())
            clock.advance(2)
            await ann.send(records())

    asyncio.run(main())
