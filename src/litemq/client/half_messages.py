"""Messages of transactions: written as halves, each with its transaction and its number there, and sent to the broker that has it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from litemq.client.config import ClientConfig, DurabilityName, durability_level
from litemq.client.identity import MessageIds
from litemq.client.messages import OutgoingMessage, SendReceipt
from litemq.client.serializers import Serializers
from litemq.client.terms import PLAIN, in_batch, terms_of
from litemq.client.transaction_backend import TransactionBackend
from litemq.errors import InvalidArgumentError
from litemq.format.compression import compress
from litemq.format.limits import RecordLimits
from litemq.format.record import RecordTemplate
from litemq.format.transactions import transaction_name
from litemq.types import BodyCodec, Durability, MessageType, check_name

__all__ = ["HalfMessages"]

_MOST_TEMPLATES: Final = 256
_CODECS: Final = {"none": BodyCodec.NONE, "lz4": BodyCodec.LZ4, "zstd": BodyCodec.ZSTD}
_TRANSACTION: Final = MessageType.TRANSACTION

_TemplateKey = tuple[str, Durability, tuple[str, ...], tuple[tuple[str, str], ...], int]


class HalfMessages:
    """What all transactions of one client share."""

    def __init__(self, backend: TransactionBackend, config: ClientConfig, serializers: Serializers) -> None:
        self._backend = backend
        self._config = config
        self._serializers = serializers
        self._ids = MessageIds()
        self._codec = _CODECS[config.compression_type]
        self._templates: dict[_TemplateKey, RecordTemplate] = {}

    async def send(
        self,
        transaction_id: str,
        group_id: str,
        broker: str,
        number: int,
        topic: str,
        message: OutgoingMessage,
        durability: DurabilityName | None,
        more: Mapping[str, str],
        now_ms: int,
    ) -> tuple[str, SendReceipt]:
        """Store one message of a transaction, the first of which has no id yet; returns the id, and the receipt."""
        check_name(topic)
        terms = PLAIN
        if message.has_terms:
            terms = terms_of(now_ms, message.delay, message.deliver_at, message.ttl, message.priority, message.delay_level)
        keys = (message.keys,) if isinstance(message.keys, str) else tuple(message.keys)
        tags = (message.tags,) if isinstance(message.tags, str) else tuple(message.tags)
        place = await self._backend.place(topic, broker, message.ordering_key, keys, terms.priority)
        chosen = durability or self._config.durability
        level = place.default_durability if chosen is None else durability_level(chosen)
        if level is Durability.NONE:
            raise InvalidArgumentError(
                "durability='none' in a transaction: nobody would know whether it is whole. Choose 'memory' or 'disk'"
            )
        message_id, born = self._ids.next()
        transaction_id = transaction_id or transaction_name(group_id, message_id, place.broker)
        body, content_type = self._serializers.dumps(topic, message.body)
        codec = BodyCodec.NONE
        if self._codec is not BodyCodec.NONE and len(body) >= self._config.compression_min_bytes:
            smaller = compress(body, self._codec)
            if len(smaller) < len(body):
                body, codec = smaller, self._codec
        properties = {**(in_batch(message.properties, message.batch_id) if message.batch_id else message.properties), **more}
        if content_type:
            properties.setdefault("content-type", content_type)
        record = self._template((topic, level, tags, tuple(properties.items()), terms.priority)).encode(
            body,
            message_id=message_id,
            keys=keys,
            born_timestamp=born,
            sequence=number,
            delay_time=terms.delay_time,
            expire_at=terms.expire_at,
            transaction_id=transaction_id,
            sharding_key=message.ordering_key,
            message_type=_TRANSACTION,
            codec=codec,
        )
        stored_at = await self._backend.send(place.broker, topic, place.queue_id, record)
        return transaction_id, SendReceipt(topic, message_id, place.broker, place.queue_id, -1, stored_at)

    def _template(self, key: _TemplateKey) -> RecordTemplate:
        template = self._templates.get(key)
        if template is None:
            if len(self._templates) >= _MOST_TEMPLATES:
                self._templates.clear()
            topic, level, tags, properties, priority = key
            template = self._templates[key] = RecordTemplate(
                topic,
                tags=tags,
                properties=dict(properties),
                priority=priority,
                reliability=level,
                limits=RecordLimits(self._config.max_record_bytes),
            )
        return template
