"""Publishing, over an engine that stores nothing: bodies, batches, and the layers around both."""

import asyncio
from typing import Any

import pytest

from litemq import Middleware, OutgoingMessage, Plugin, SendReceipt
from litemq.client.config import ClientConfig
from litemq.client.engine.engine import AddPlain
from litemq.client.extensions.middleware import Publish
from litemq.client.extensions.plugins import Plugins
from litemq.client.messages.delivery_options import NO_OPTIONS
from litemq.client.messages.serializers import Json, Serializers
from litemq.client.publishing import Publisher
from litemq.errors import BufferFullError, InvalidArgumentError, SerializationError
from litemq.types import BodyCodec, Durability
from support.on_loop import on_loop


class _Engine:
    """Records posts; the buffer is full for the first ``full`` of them."""

    def __init__(self) -> None:
        self.posts: list[tuple[Any, ...]] = []
        self.full = 0
        self.waited = 0
        self.add_plain: dict[str, AddPlain] = {}

    def post(self, *arguments: Any) -> "asyncio.Future[SendReceipt]":
        if self.full:
            self.full -= 1
            raise BufferFullError("full")
        self.posts.append(arguments)
        receipt: asyncio.Future[SendReceipt] = asyncio.get_running_loop().create_future()
        receipt.set_result(SendReceipt(arguments[0], str(len(self.posts)), "a", 0, len(self.posts), 0))
        return receipt

    async def wait_for_buffer(self) -> None:
        self.waited += 1

    def wall_ms(self) -> int:
        return 1_000


class _Upper(Middleware):
    async def publish(self, topic: str, message: OutgoingMessage, call_next: Publish) -> SendReceipt:
        return await call_next(topic, OutgoingMessage(message.body.upper()))


class _Hearing(Plugin):
    def __init__(self) -> None:
        self.heard: list[bytes] = []

    def produced(self, topic: str, message: OutgoingMessage, receipt: SendReceipt) -> None:  # noqa: ARG002
        self.heard.append(message.body)


def _publisher(
    engine: Any, layers: list[Middleware] | None = None, plugins: Plugins | None = None, **settings: Any
) -> Publisher:
    return Publisher(
        engine, ClientConfig(**settings), Serializers(), layers if layers is not None else [], plugins or Plugins()
    )


def test_bytes_are_plain_until_they_are_compressed_or_serialized() -> None:
    serializers = Serializers()
    publisher = Publisher(_Engine(), ClientConfig(), serializers, [], Plugins())  # type: ignore[arg-type]
    assert (publisher.is_plain, publisher.level) == (True, None)
    serializers.choose("orders", Json())
    publisher.refresh()
    assert not publisher.is_plain
    assert not _publisher(_Engine(), compression_type="lz4").is_plain
    assert _publisher(_Engine(), durability="disk").level is Durability.DISK


@on_loop
async def test_a_body_is_compressed_where_that_makes_it_smaller() -> None:
    engine = _Engine()
    publisher = _publisher(engine, compression_type="zstd", compression_min_bytes=10)
    for body in (b"short", b"long " * 100, bytes(range(256))):
        publisher.post("orders", body, "tag", ["k1", "k2"], {"p": "v"}, "key", "memory", NO_OPTIONS)
    assert [post[2] for post in engine.posts] == [BodyCodec.NONE, BodyCodec.ZSTD, BodyCodec.NONE]
    assert [len(post[1]) < 50 for post in engine.posts] == [True, True, False]
    assert engine.posts[0][3:] == ("", ("tag",), ("k1", "k2"), (("p", "v"),), "key", Durability.MEMORY, NO_OPTIONS)
    with pytest.raises(InvalidArgumentError, match="replicas"):
        publisher.post("orders", b"x", (), (), None, "", "safe", NO_OPTIONS)  # type: ignore[arg-type]


@on_loop
async def test_a_batch_waits_for_buffer_space_and_a_bad_message_fails_alone() -> None:
    engine = _Engine()
    engine.full = 2
    publisher = _publisher(engine)
    receipts = await publisher.publish_batch(
        "orders", [b"a", "text", OutgoingMessage(b"b", delay=1.0, batch_id="n")], None
    )
    assert [receipt.queue_offset for receipt in receipts] == [1, 2, 3]
    assert engine.waited == 1  # the buffer was full at the first post and at its retry
    assert engine.posts[2][-1].delay_time == 2_000
    with pytest.raises(SerializationError) as failed:
        await publisher.publish_batch("orders", [b"a", OutgoingMessage({1, 2}), b"c"], None)
    assert failed.value.__notes__ == ["2 of 3 messages were stored; failed: numbers [1]"]


@on_loop
async def test_layers_and_plugins_observe_what_is_sent() -> None:
    engine, plugins, hearing = _Engine(), Plugins(), _Hearing()
    layers: list[Middleware] = [Middleware()]
    publisher = _publisher(engine, layers, plugins)

    async def send(topic: str, message: OutgoingMessage) -> SendReceipt:
        return await publisher.engine_post(topic, message.body, BodyCodec.NONE, "", (), (), (), "", None)

    assert publisher.through(send) is send
    layers.append(_Upper())
    plugins.add(hearing)
    assert not publisher.is_observed
    publisher.refresh()
    await publisher.publish("orders", OutgoingMessage(b"a"), None)
    await publisher.publish_batch("orders", [b"b"], None)
    await publisher.through(send)("orders", OutgoingMessage(b"c"))
    assert [post[1] for post in engine.posts] == [b"A", b"B", b"C"]
    assert hearing.heard == [b"A", b"B", b"C"]
