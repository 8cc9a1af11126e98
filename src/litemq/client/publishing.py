"""Sending of one open client: serialize, compress, pass the middleware, post to the engine."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

from litemq.client.config import ClientConfig, DurabilityName, durability_level
from litemq.client.engine.engine import AddPlain, Engine
from litemq.client.extensions.middleware import Middleware, Publish, wrap_publish
from litemq.client.extensions.plugins import Plugins
from litemq.client.labels import property_pairs, strings
from litemq.client.messages.body_compression import BodyCompression
from litemq.client.messages.delivery_options import NO_OPTIONS, DeliveryOptions, delivery_options, with_batch_id
from litemq.client.messages.outgoing import OutgoingMessage, SendReceipt
from litemq.client.messages.send_options import GivenOptions
from litemq.client.messages.serializers import Serializers
from litemq.errors import BufferFullError, InvalidArgumentError, LiteMQError
from litemq.types import BodyCodec, Durability, check_name

__all__ = ["Publisher"]

_NO_TIMING: Final = (None,) * 5
_NO_CODEC: Final = BodyCodec.NONE  # looking up an enum member is slow
_NO_ADD_PLAIN: Final[Mapping[str, AddPlain]] = MappingProxyType({})
_LEVELS: Final[dict[str | None, Durability | None]] = {
    None: None,
    **{level.name.lower(): level for level in Durability},
}


class Publisher:
    """Posts the messages of one client to its engine.

    ``AsyncClient.send`` and ``send_nowait`` pass bodies without options to ``add_plain`` directly:
    most messages are such, and a further call would cost each of them.
    """

    __slots__ = (
        "_compression",
        "_config",
        "_layers",
        "_plugins",
        "_serializers",
        "add_plain",
        "engine",
        "engine_post",
        "is_observed",
        "is_plain",
        "level",
    )

    def __init__(
        self,
        engine: Engine,
        config: ClientConfig,
        serializers: Serializers,
        layers: Sequence[Middleware],
        plugins: Plugins,
    ) -> None:
        """``engine`` is open. After adding to ``layers`` or ``plugins``, call ``refresh``."""
        self.engine = engine
        self.engine_post = engine.post
        self._config = config
        self._serializers = serializers
        self._layers = layers
        self._plugins = plugins
        self._compression = BodyCompression(config)
        self.level = _LEVELS[config.durability]
        self.refresh()

    def refresh(self) -> None:
        """Update ``is_plain`` and ``is_observed`` after a serializer, layer or plug-in is added."""
        self.is_plain = not self._compression.is_on and not self._serializers.has_choices  # bytes are sent unchanged
        self.is_observed = self._plugins.wants_produced or any(
            type(layer).publish is not Middleware.publish for layer in self._layers
        )
        self.add_plain = self.engine.add_plain if self.is_plain and not self.is_observed else _NO_ADD_PLAIN

    async def send(self, topic: str, body: Any, options: GivenOptions) -> SendReceipt:
        """Send a message as ``AsyncClient.send`` does; wait while the send buffer is full."""
        if self.is_observed:
            return await self.publish(topic, *_outgoing(body, options))
        while True:
            try:
                waiter = self.send_nowait(topic, body, options)
            except BufferFullError:
                await self.engine.wait_for_buffer()
            else:
                return await waiter

    def send_nowait(self, topic: str, body: Any, options: GivenOptions) -> asyncio.Future[SendReceipt]:
        """Send a message as ``AsyncClient.send_nowait`` does."""
        if self.is_observed:
            return asyncio.ensure_future(self.publish(topic, *_outgoing(body, options)))
        tags, keys, properties, ordering_key, durability = options[:5]
        timing, batch_id = options[5:10], options[10]
        delivery = NO_OPTIONS if timing == _NO_TIMING else delivery_options(self.engine.wall_ms(), *timing)
        if batch_id:
            properties = with_batch_id(properties, batch_id)
        return self.post(topic, body, tags, keys, properties, ordering_key, durability, delivery)

    def post(
        self,
        topic: str,
        body: Any,
        tags: str | Sequence[str],
        keys: str | Sequence[str],
        properties: Mapping[str, str] | None,
        ordering_key: str,
        durability: DurabilityName | None,
        delivery: DeliveryOptions,
    ) -> asyncio.Future[SendReceipt]:
        """Serialize and compress ``body``, and post it to the engine.

        Raises:
            BufferFullError: The send buffer is full.
            InvalidArgumentError, SerializationError: An argument is invalid.
            BodyTooLargeError: No consumer would decompress the body.
        """
        if type(topic) is not str:
            check_name(topic)
        if type(body) is bytes and self.is_plain and durability is None and not (tags or keys or properties):
            return self.engine_post(topic, body, _NO_CODEC, "", (), (), (), ordering_key, self.level, delivery)
        body, content_type = self._serializers.dumps(topic, body)
        codec = _NO_CODEC
        if self._compression.is_on:
            body, codec = self._compression.compress(body)
        if durability is None:
            durability = self._config.durability
        return self.engine_post(
            topic,
            body,
            codec,
            content_type,
            strings(tags, "tags") if tags else (),
            strings(keys, "keys") if keys else (),
            property_pairs(properties) if properties else (),
            ordering_key,
            _level(durability),
            delivery,
        )

    def _post_message(
        self, topic: str, message: OutgoingMessage, durability: DurabilityName | None
    ) -> asyncio.Future[SendReceipt]:
        """Post one message of a batch. An invalid message fails its own future, not the batch."""
        try:
            delivery = NO_OPTIONS
            if message.has_delivery_options:
                timing = (message.delay, message.deliver_at, message.ttl, message.priority, message.delay_level)
                delivery = delivery_options(self.engine.wall_ms(), *timing)
            properties = with_batch_id(message.properties, message.batch_id) if message.batch_id else message.properties
            return self.post(
                topic,
                message.body,
                message.tags,
                message.keys,
                properties,
                message.ordering_key,
                durability,
                delivery,
            )
        except BufferFullError:
            raise
        except LiteMQError as reason:
            refused: asyncio.Future[SendReceipt] = asyncio.get_running_loop().create_future()
            refused.set_exception(reason)
            return refused

    async def _post_when_space(
        self, topic: str, message: OutgoingMessage, durability: DurabilityName | None
    ) -> asyncio.Future[SendReceipt]:
        """Post one message; wait while the send buffer is full."""
        while True:
            try:
                return self._post_message(topic, message, durability)
            except BufferFullError:
                await self.engine.wait_for_buffer()

    async def publish(self, topic: str, message: OutgoingMessage, durability: DurabilityName | None) -> SendReceipt:
        """Send one message through the layers, and report it to the plug-ins."""

        async def post(topic: str, message: OutgoingMessage) -> SendReceipt:
            receipt = await (await self._post_when_space(topic, message, durability))
            self._plugins.produced(topic, message, receipt)
            return receipt

        return await wrap_publish(self._layers, post)(topic, message)

    def through(self, send: Publish) -> Publish:
        """Put the layers and plug-ins around ``send``, if any of them observes messages."""
        if not self.is_observed:
            return send

        async def send_and_report(topic: str, message: OutgoingMessage) -> SendReceipt:
            receipt = await send(topic, message)
            self._plugins.produced(topic, message, receipt)
            return receipt

        return wrap_publish(self._layers, send_and_report)

    async def publish_batch(
        self, topic: str, messages: Sequence[OutgoingMessage | bytes | str], durability: DurabilityName | None
    ) -> list[SendReceipt]:
        """Send ``messages`` and wait for all.

        Raises the first error, with a note that lists the failed messages.
        """
        if isinstance(messages, (str, bytes)) or not isinstance(messages, Iterable):
            raise InvalidArgumentError(
                f"messages={messages!r:.80}: expected a list of messages, got {type(messages).__name__}"
            )
        waiting: list[asyncio.Future[SendReceipt]] = []
        for each in messages:
            message = each if isinstance(each, OutgoingMessage) else OutgoingMessage(each)
            if self.is_observed:
                waiting.append(asyncio.ensure_future(self.publish(topic, message, durability)))
            else:
                try:
                    waiting.append(self._post_message(topic, message, durability))
                except BufferFullError:
                    waiting.append(await self._post_when_space(topic, message, durability))
        return await _receipts(waiting)


async def _receipts(waiting: Sequence[asyncio.Future[SendReceipt]]) -> list[SendReceipt]:
    receipts: list[SendReceipt] = []
    failed: dict[int, Exception] = {}
    try:
        for number, waiter in enumerate(waiting):  # one answer covers many messages: most futures are done already
            try:
                receipts.append(await waiter)
            except Exception as error:  # noqa: BLE001  await the others, too
                failed[number] = error
    except asyncio.CancelledError:
        for waiter in waiting:
            waiter.cancel()
        raise
    if failed:
        first = next(iter(failed.values()))
        first.add_note(f"{len(receipts)} of {len(waiting)} messages were stored; failed: numbers {list(failed)[:20]}")
        raise first
    return receipts


def _level(durability: DurabilityName | None) -> Durability | None:
    try:
        return _LEVELS[durability]
    except (KeyError, TypeError):
        return durability_level(str(durability))  # its error lists the choices


def _outgoing(body: Any, options: GivenOptions) -> tuple[OutgoingMessage, DurabilityName | None]:
    tags, keys, properties, ordering_key, durability = options[:5]
    return OutgoingMessage(body, tags, keys, properties or {}, ordering_key, *options[5:]), durability
