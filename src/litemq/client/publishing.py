"""Sending for one open client: serialize, compress, apply the options, pass the middleware, post to the engine."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, Final

from litemq.client.config import ClientConfig, DurabilityName, durability_level
from litemq.client.engine.engine import Backend
from litemq.client.extensions.middleware import Middleware, Publish, around_sending
from litemq.client.extensions.plugins import Plugins
from litemq.client.messages.delivery_options import PLAIN, Terms, in_batch, terms_of
from litemq.client.messages.outgoing import OutgoingMessage, SendReceipt
from litemq.client.messages.serializers import Serializers
from litemq.errors import BufferFullError, LiteMQError
from litemq.format.compression import compress
from litemq.types import BodyCodec, Durability

__all__ = ["Publisher"]

_NO_CODEC: Final = BodyCodec.NONE  # a member of an enum costs much to look up
_CODECS: Final = {"none": BodyCodec.NONE, "lz4": BodyCodec.LZ4, "zstd": BodyCodec.ZSTD}
_LEVELS: Final[dict[str | None, Durability | None]] = {None: None, **{level.name.lower(): level for level in Durability}}


class Publisher:
    """Posts messages to the engine of one client.

    If ``is_plain``, ``AsyncClient.send`` and ``send_nowait`` pass bytes without options to ``engine_post``
    themselves: most messages are such, and one more call would cost each of them.
    """

    __slots__ = ("_codec", "_config", "_layers", "_plugins", "_serializers", "engine", "engine_post", "is_observed", "is_plain", "level")

    def __init__(
        self, engine: Backend, config: ClientConfig, serializers: Serializers, layers: Sequence[Middleware], plugins: Plugins
    ) -> None:
        """``engine`` is open; ``layers`` and ``plugins`` may grow, followed by ``refresh``."""
        self.engine = engine
        self.engine_post = engine.post
        self._config = config
        self._serializers = serializers
        self._layers = layers
        self._plugins = plugins
        self._codec = _CODECS[config.compression_type]
        self.level = _LEVELS[config.durability]
        self.refresh()

    def refresh(self) -> None:
        """Read again what is between a message and the engine, after a serializer, a layer or a plug-in was added."""
        self.is_plain = self._codec is _NO_CODEC and not self._serializers.has_choices  # bytes are sent as they are
        self.is_observed = self._plugins.hears_sending or any(type(layer).publish is not Middleware.publish for layer in self._layers)

    def post(
        self,
        topic: str,
        body: Any,
        tags: str | Sequence[str],
        keys: str | Sequence[str],
        properties: Mapping[str, str] | None,
        ordering_key: str,
        durability: DurabilityName | None,
        terms: Terms,
    ) -> asyncio.Future[SendReceipt]:
        """Serialize and compress ``body`` and post it; raise ``BufferFullError`` if the send buffer is full."""
        body, content_type = self._serializers.dumps(topic, body)
        codec = _NO_CODEC
        if self._codec is not _NO_CODEC and len(body) >= self._config.compression_min_bytes:
            smaller = compress(body, self._codec)
            if len(smaller) < len(body):
                body, codec = smaller, self._codec
        if durability is None:
            durability = self._config.durability
        if durability is not None and durability not in _LEVELS:
            durability_level(durability)  # its error lists the choices
        return self.engine_post(
            topic,
            body,
            codec,
            content_type,
            _words(tags) if tags else (),
            _words(keys) if keys else (),
            tuple(properties.items()) if properties else (),
            ordering_key,
            _LEVELS[durability],
            terms,
        )

    def _post_message(self, topic: str, message: OutgoingMessage, durability: DurabilityName | None) -> asyncio.Future[SendReceipt]:
        """Post one message of a batch. A message that cannot be sent fails its own future, not the batch."""
        try:
            terms = PLAIN
            if message.has_terms:
                terms = terms_of(
                    self.engine.wall_ms(), message.delay, message.deliver_at, message.ttl, message.priority, message.delay_level
                )
            body, tags, keys, ordering_key = message.body, message.tags, message.keys, message.ordering_key
            properties = in_batch(message.properties, message.batch_id) if message.batch_id else message.properties
            if type(body) is bytes and self.is_plain and durability is None and not (tags or keys or properties):
                return self.engine_post(topic, body, _NO_CODEC, "", (), (), (), ordering_key, self.level, terms)
            return self.post(topic, body, tags, keys, properties, ordering_key, durability, terms)
        except BufferFullError:
            raise
        except LiteMQError as reason:
            refused: asyncio.Future[SendReceipt] = asyncio.get_running_loop().create_future()
            refused.set_exception(reason)
            return refused

    async def _post_patiently(self, topic: str, message: OutgoingMessage, durability: DurabilityName | None) -> asyncio.Future[SendReceipt]:
        """Post one message, and wait while the send buffer is full."""
        while True:
            try:
                return self._post_message(topic, message, durability)
            except BufferFullError:
                await self.engine.wait_for_room()

    async def publish(self, topic: str, message: OutgoingMessage, durability: DurabilityName | None) -> SendReceipt:
        """Send one message through the layers, and report it to the plug-ins."""

        async def post(topic: str, message: OutgoingMessage) -> SendReceipt:
            receipt = await (await self._post_patiently(topic, message, durability))
            self._plugins.produced(topic, message, receipt)
            return receipt

        return await around_sending(self._layers, post)(topic, message)

    def through(self, send: Publish) -> Publish:
        """Put the layers and the plug-ins around ``send``, if any of them observes messages."""
        if not self.is_observed:
            return send

        async def send_and_report(topic: str, message: OutgoingMessage) -> SendReceipt:
            receipt = await send(topic, message)
            self._plugins.produced(topic, message, receipt)
            return receipt

        return around_sending(self._layers, send_and_report)

    async def publish_batch(
        self, topic: str, messages: Sequence[OutgoingMessage | bytes | str], durability: DurabilityName | None
    ) -> list[SendReceipt]:
        """Send ``messages`` and wait for all; if some fail, raise the first error with a note that lists them."""
        waiting: list[asyncio.Future[SendReceipt]] = []
        for each in messages:
            message = each if isinstance(each, OutgoingMessage) else OutgoingMessage(each)
            if self.is_observed:
                waiting.append(asyncio.ensure_future(self.publish(topic, message, durability)))
            else:
                try:
                    waiting.append(self._post_message(topic, message, durability))
                except BufferFullError:
                    waiting.append(await self._post_patiently(topic, message, durability))
        return await _receipts(waiting)


async def _receipts(waiting: Sequence[asyncio.Future[SendReceipt]]) -> list[SendReceipt]:
    receipts: list[SendReceipt] = []
    failed: dict[int, Exception] = {}
    try:
        for number, waiter in enumerate(waiting):  # a request answers many: most are done when their turn comes
            try:
                receipts.append(await waiter)
            except Exception as error:  # noqa: BLE001  the others are awaited all the same
                failed[number] = error
    except asyncio.CancelledError:
        for waiter in waiting:
            waiter.cancel()
        raise
    if failed:
        first = next(iter(failed.values()))
        first.add_note(f"{len(receipts)} of {len(waiting)} messages were stored; not those with the numbers {list(failed)[:20]}")
        raise first
    return receipts


def _words(words: str | Sequence[str]) -> tuple[str, ...]:
    return (words,) if isinstance(words, str) else tuple(words)
