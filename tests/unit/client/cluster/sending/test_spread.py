"""Spread of messages over brokers: batches of any number and size, with and without keys."""

import asyncio
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from litemq.client.cluster.sending.producer import Producer
from litemq.client.config import ClientConfig
from litemq.client.engine.routes import BrokerAddress, Route
from litemq.client.messages.outgoing import SendReceipt
from litemq.errors import ConnectionLostError, LiteMQError
from litemq.net.sent_answers import pack_sent_answer
from litemq.types import BodyCodec, Durability
from support.on_loop import on_loop

BROKERS = ("broker-1", "broker-2")
QUEUES = 4


class FakeChannel:
    """A channel whose broker appends every request in the next tick."""

    def __init__(self) -> None:
        self.requests: list[int] = []  # their bytes

    def call(
        self,
        _opcode: int,
        _header: bytes,
        attachment: bytes,
        answered: Callable[[bytes, bytes, LiteMQError | None], None],
    ) -> None:
        self.requests.append(len(attachment))
        asyncio.get_running_loop().call_soon(answered, pack_sent_answer(len(self.requests), 1), b"", None)


class FakeConnection:
    """A connection to a broker that is always there."""

    def __init__(self, channel: FakeChannel) -> None:
        self.channel: Any = channel
        self.gave_up = False

    def start_connecting(self) -> None:
        """Nothing to do."""

    def note_error(self, error: LiteMQError) -> None:
        """Nothing to do."""

    def note_silence(self) -> None:
        """Nothing to do."""

    def give_up(self, reason: LiteMQError) -> None:
        raise reason

    def lost(self, when: str) -> ConnectionLostError:
        return ConnectionLostError(f"no connection {when}")


class Sends:
    """A producer for one topic on two brokers, and what they received."""

    def __init__(self, **settings: Any) -> None:
        self.channels = {broker: FakeChannel() for broker in BROKERS}
        self.producer = Producer(
            ClientConfig(**settings),
            route=self._route,
            connection=lambda broker, _queue, _on_open: FakeConnection(self.channels[broker]),
            on_topic_gone=lambda _topic: None,
            add_plain={},
        )
        self.receipts: list[SendReceipt] = []

    async def _route(self, topic: str) -> Route:
        return Route(topic, tuple(BrokerAddress(name, "host", 1, QUEUES, Durability.DISK) for name in BROKERS))

    async def batch(self, bodies: list[bytes], *, keys: tuple[str, ...] = (), ordering_key: str = "") -> None:
        """Send ``bodies`` in one tick."""
        none, no_tags = BodyCodec.NONE, ()
        waiters = [
            self.producer.post("orders", body, none, "", no_tags, keys, (), ordering_key, None) for body in bodies
        ]
        self.receipts += await asyncio.gather(*waiters)

    @property
    def messages(self) -> Counter[str]:
        """Messages by broker."""
        return Counter(receipt.broker for receipt in self.receipts)

    @property
    def queues(self) -> Counter[tuple[str, int]]:
        """Messages by queue."""
        return Counter((receipt.broker, receipt.queue_id) for receipt in self.receipts)


@pytest.mark.parametrize("size", [10, 1_000, 100_000, 200_000, 300_000])
@pytest.mark.parametrize("count", [1, 2, 3, 5, 8, 50, 100])
@on_loop
async def test_batches_are_spread_over_brokers(count: int, size: int) -> None:
    sends = Sends(buffer_bytes=256 << 20)
    for _ in range(3 * len(BROKERS) * QUEUES):
        await sends.batch([bytes(size)] * count)
    assert sends.queues == {(broker, queue): 3 * count for broker in BROKERS for queue in range(QUEUES)}


@pytest.mark.parametrize("count", [1024, 1500, 2048])
@on_loop
async def test_batches_that_fill_requests_by_number_are_spread(count: int) -> None:
    sends = Sends()
    for _ in range(2 * len(BROKERS) * QUEUES):
        await sends.batch([b"x"] * count)
    assert sends.queues == {(broker, queue): 2 * count for broker in BROKERS for queue in range(QUEUES)}


@on_loop
async def test_batches_of_different_sizes_are_spread() -> None:
    sends = Sends()
    for _ in range(len(BROKERS) * QUEUES):
        await sends.batch([b"x"] * 20)
        await sends.batch([b"x"])
    assert sends.messages == dict.fromkeys(BROKERS, 21 * QUEUES)
    sends = Sends()
    sizes = [100_000, 20_000, 20_000, 20_000, 20_000, 20_000]
    for _ in range(5):
        await sends.batch([bytes(size) for size in sizes] * 20)
    by_broker = [sum(channel.requests) for channel in sends.channels.values()]
    assert max(by_broker) - min(by_broker) <= 3 * 256 * 1024


@on_loop
async def test_a_batch_larger_than_a_request_uses_every_queue() -> None:
    sends = Sends()
    await sends.batch([bytes(100_000)] * 100)
    assert set(sends.messages) == set(BROKERS)
    assert max(sends.messages.values()) - min(sends.messages.values()) <= 6
    assert len(sends.queues) == len(BROKERS) * QUEUES
    assert max(max(channel.requests) for channel in sends.channels.values()) <= 256 * 1024
    assert sum(len(channel.requests) for channel in sends.channels.values()) <= 50 + len(BROKERS) * QUEUES


@on_loop
async def test_a_small_batch_stays_together() -> None:
    sends = Sends()
    await sends.batch([b"x"] * 100)
    assert len(sends.queues) == 1
    assert sum(len(channel.requests) for channel in sends.channels.values()) == 1


@pytest.mark.parametrize("max_batch_messages", [1, 1024])
@on_loop
async def test_messages_with_an_ordering_key_do_not_move_the_others(max_batch_messages: int) -> None:
    sends = Sends(max_batch_messages=max_batch_messages)
    for number in range(40):
        await sends.batch([b"x"])
        await sends.batch([b"x"], ordering_key=f"k{number % 5}")
    keyed = {(receipt.broker, receipt.queue_id) for receipt in sends.receipts[1::2]}
    others = Counter(receipt.broker for receipt in sends.receipts[::2])
    assert others == {"broker-1": 20, "broker-2": 20}
    assert len(keyed) <= 5


@on_loop
async def test_an_ordering_key_keeps_its_queue_in_batches_of_any_size() -> None:
    sends = Sends()
    await sends.batch([bytes(100_000)] * 20, ordering_key="customer-7")
    await sends.batch([b"x"] * 3000, ordering_key="customer-7")
    assert len(sends.queues) == 1


@on_loop
async def test_keys_keep_their_queue_with_key_hash_and_the_others_are_spread() -> None:
    sends = Sends(queue_choice="key_hash")
    for _ in range(40):
        await sends.batch([bytes(100_000)] * 3, keys=("k-1",))
    assert len(sends.queues) == 1
    sends.receipts.clear()
    for _ in range(40):
        await sends.batch([b"x"])
        await sends.batch([b"x"], keys=("k-1",))
    assert Counter(receipt.broker for receipt in sends.receipts[::2]) == {"broker-1": 20, "broker-2": 20}
