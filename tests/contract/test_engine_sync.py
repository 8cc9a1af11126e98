"""The synchronous client: the same contract, from blocking threads."""

import os
import signal
import threading
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta

import pytest

from litemq import AckPolicy, OutgoingMessage, Retry, RetryPolicy
from litemq.client.sync.messages import SyncMessage
from litemq.errors import (
    AlreadySettledError,
    BufferFullError,
    ClientClosedError,
    InvalidArgumentError,
    TopicNotFoundError,
)
from support.engines import Engine
from support.waiting import HANG_S, wait_until

capability = pytest.mark.capability


def _numbers(count: int) -> list[OutgoingMessage]:
    return [OutgoingMessage(b"%d" % n, ordering_key="k") for n in range(count)]


@capability("`Client`: send, `send_nowait`, `send_batch`, `flush`")
def test_sending(engine: Engine, topic: str) -> None:
    with engine.sync_client(compression_type="lz4") as mq:
        receipt = mq.send(
            topic, {"id": 1}, tags="t", keys="k", properties={"p": "v"}, ordering_key="k", durability="disk"
        )
        assert (receipt.topic, receipt.queue_offset) == (topic, 0)
        future = mq.send_nowait(topic, b"x" * 5000, ordering_key="k")
        mq.flush()
        assert future.result(0).queue_offset == 1
        assert [each.queue_offset for each in mq.send_batch(topic, _numbers(100))] == list(range(2, 102))
        messages = list(mq.reader(topic, follow=False))
        assert (messages[0].value, messages[0].tags, messages[0].keys, messages[0].properties["p"]) == (
            {"id": 1},
            ("t",),
            ("k",),
            "v",
        )
        assert messages[1].body == b"x" * 5000
        assert [int(message.body) for message in messages[2:]] == list(range(100))
        with pytest.raises(InvalidArgumentError, match="has no priorities"):
            mq.send(topic, b"x", priority=1)
        with pytest.raises(InvalidArgumentError):
            mq.send("not a name", b"x")


@capability("`Client`: consumers, settling, and resuming")
def test_receiving(engine: Engine, topic: str) -> None:
    with engine.sync_client() as mq:
        mq.send_batch(topic, _numbers(10))
        with mq.consumer(topic, group_id="g") as consumer:
            for message in consumer:
                with message.process():
                    assert not message.is_settled
                with pytest.raises(AlreadySettledError):
                    message.ack()
                if message.body == b"5":
                    break
    with engine.sync_client() as mq:
        first, *rest = mq.receive(topic, group_id="g", wait=HANG_S)
        assert [message.body for message in (first, *rest)] == [b"6", b"7", b"8", b"9"]
        with pytest.raises(ValueError, match="bad"), first.process(retry=RetryPolicy(delays=[0])):
            raise ValueError("bad")
        assert first.is_settled
        _ask_for_another_try(rest[0])
        rest[1].release()
        rest[2].extend(90)
    with engine.sync_client() as mq:
        again: list[SyncMessage] = []
        while len(again) < 4:  # what is tried again is there once that is on disk
            again += mq.receive(topic, group_id="g", wait=HANG_S)
        assert sorted((message.body, message.attempt) for message in again) == [
            (b"6", 2),
            (b"7", 2),
            (b"8", 1),
            (b"9", 2),
        ]
        again[0].ack_nowait().result(HANG_S)
        mq.ack_batch(again[1:])
        for wrong in ([1], None):
            with pytest.raises(InvalidArgumentError, match="expected a list of received messages"):
                mq.ack_batch(wrong)  # type: ignore[arg-type]
        assert mq.receive(topic, group_id="g", wait=timedelta(milliseconds=10)) == []


def _ask_for_another_try(message: SyncMessage) -> None:
    with message.process(AckPolicy.REJECT_ON_ERROR):
        raise Retry(delay=0)  # no error: it ends here


@capability("`Client`: leases, and consumers of one group")
def test_leases(engine: Engine, topic: str) -> None:
    with engine.sync_client() as mq, engine.sync_client() as other:
        mq.send_batch(topic, _numbers(6))
        seen: list[bytes] = []
        with mq.consumer(topic, group_id="g", mode="lease", lease=600, max_poll_records=1) as consumer:
            for message in consumer:
                with message.process():
                    if not seen:
                        assert other.receive(topic, group_id="g", max_messages=3, wait=HANG_S, lease=600)
                    seen.append(message.body)
                if len(seen) == 3:
                    break
        assert len(set(seen)) == 3


@capability("`Client`: subscribers, tasks and `run()`")
def test_subscribers(engine: Engine, topic: str) -> None:
    with engine.sync_client() as mq:
        seen: list[bytes] = []
        numbers: list[int] = []

        @mq.subscriber(topic, group_id="g", mode="lease", concurrency=1, delays=[0.1])
        def handle(message: SyncMessage) -> None:
            seen.append(message.body)
            if message.body == b"2" and message.attempt == 1:
                raise ValueError("the third")

        @mq.task(topic=f"{topic}-task")
        def count(number: int) -> None:
            numbers.append(number)
            if number < 3:
                count.send(number + 1)
            else:
                wait_until(lambda: len(seen) >= 5)
                os.kill(os.getpid(), signal.SIGTERM)

        mq.send_batch(topic, _numbers(4))
        count.send(1)
        mq.run(concurrency=2)
        assert sorted(seen) == [b"0", b"1", b"2", b"2", b"3"]
        assert numbers == [1, 2, 3]
        assert mq.receive(topic, group_id="g", wait=0.2) == []


@capability("`Client`: topics")
def test_admin(engine: Engine, topic: str) -> None:
    with engine.sync_client() as mq:
        assert len(mq.admin.create_topic(topic, queues=2).queues) == 2
        receipt = mq.send(topic, b"x", keys="k")
        assert [message.message_id for message in mq.admin.find(topic, "k")] == [receipt.message_id]
        found = mq.admin.get(topic, receipt.message_id)
        assert found is not None
        assert found.body == b"x"
        assert mq.admin.get(topic, "nothing") is None
        assert mq.admin.topics()[topic] == 2
        assert len(mq.admin.brokers()) == 1
        assert (
            mq.admin.offset_at_time(topic, datetime.now(UTC) - timedelta(hours=1))[receipt.broker, receipt.queue_id]
            == 0
        )
        mq.admin.delete_topic(topic)
        with pytest.raises(TopicNotFoundError):
            mq.admin.describe_topic(topic)


@capability("`Client`: one client used by many threads")
def test_many_threads(engine: Engine, topic: str) -> None:
    with engine.sync_client() as mq, ThreadPoolExecutor(16) as threads:

        def produce(key: int) -> None:
            for number in range(20):
                mq.send(topic, b"%d:%d" % (key, number), ordering_key=str(key))

        list(threads.map(produce, range(16)))
        bodies = [message.body for message in mq.reader(topic, follow=False)]
        for key in range(16):
            assert [int(body.partition(b":")[2]) for body in bodies if body.startswith(b"%d:" % key)] == list(range(20))


@capability("`Client`: lost connections while sending and reading: no loss, no duplicates")
def test_cut(engine: Engine, topic: str) -> None:
    with engine.sync_client() as producer, engine.sync_client() as mq:
        producer.send(topic, b"-1", ordering_key="k")
        seen: list[int] = []

        def consume() -> None:
            with mq.consumer(topic, group_id="g") as consumer:
                for message in consumer:
                    seen.append(int(message.body))
                    message.ack()
                    if message.body == b"199":
                        break

        consuming = threading.Thread(target=consume)
        consuming.start()
        for number in range(200):
            producer.send(topic, b"%d" % number, ordering_key="k")
            if number % 25 == 0:
                engine.drop_connections()
        consuming.join(HANG_S)
        assert seen == list(range(-1, 200))


def test_a_consumer_is_stopped_from_another_thread(engine: Engine, topic: str) -> None:
    with engine.sync_client(fetch_wait_ms=60_000) as mq:
        mq.send(topic, b"x")
        for end in ("stop", "close"):
            consumer = mq.consumer(topic, group_id=end)
            seen: list[bytes] = []
            consuming = threading.Thread(
                target=lambda c=consumer, s=seen: s.extend(message.body for message in c), daemon=True
            )
            consuming.start()
            wait_until(lambda s=seen: s)  # type: ignore[misc]
            getattr(consumer, end)()
            consuming.join(HANG_S)
            assert not consuming.is_alive()
            assert list(consumer) == []
            consumer.close()


def test_a_closed_consumer_gives_no_more(engine: Engine, topic: str) -> None:
    with engine.sync_client() as mq:
        mq.send_batch(topic, _numbers(50))
        consumer = mq.consumer(topic, group_id="g")
        next(consumer).ack()
        consumer.close()
        assert list(consumer) == []
        assert consumer.is_closed
        assert next(mq.consumer(topic, group_id="g")).body == b"1"


def test_a_client_is_used_open(engine: Engine, topic: str) -> None:
    mq = engine.sync_client()
    for _ in range(2):
        mq.close()
        assert not mq.is_open
        with pytest.raises(ClientClosedError, match="with"):
            mq.send(topic, b"x")
        with pytest.raises(ClientClosedError, match="with"):
            mq.receive(topic, group_id="g")
        with mq:
            mq.send(topic, b"x")
            assert mq.is_open
    # Of each queue too little waits to be sent, and to free the buffer, before it is full.
    with (
        engine.sync_client(buffer_bytes=64 * 1024, max_batch_bytes=64 * 1024, linger_ms=60_000) as mq,
        pytest.raises(BufferFullError),
    ):
        deque((mq.send_nowait(topic, bytes(1000), ordering_key=str(n)) for n in range(100)), maxlen=0)
