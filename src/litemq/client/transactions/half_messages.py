"""Messages of transactions: written as halves, each with its transaction and its number there, and sent to the broker that has it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from litemq.client.config import ClientConfig, DurabilityName, durability_level
from litemq.client.engine.transactions import TransactionBackend
from litemq.client.identity import MessageIds
from litemq.client.messages.delivery_options import PLAIN, in_batch, terms_of
from litemq.client.messages.outgoing import OutgoingMessage, SendReceipt
from litemq.client.messages.serializers import Serializers
from litemq.errors import InvalidArgumentError
from litemq.format.compression import compress
from litemq.format.limits import RecordLimits
from litemq.format.record_encode import RecordTemplate
from litemq.format.transactions import transaction_name
from litemq.types import BodyCodec, Durability, MessageType, check_name

__all__ = ["Begun", "Half", "HalfMessages"]

_MOST_TEMPLATES: Final = 256
_CODECS: Final = {"none": BodyCodec.NONE, "lz4": BodyCodec.LZ4, "zstd": BodyCodec.ZSTD}
_TRANSACTION: Final = MessageType.TRANSACTION

_TemplateKey = tuple[str, Durability, tuple[str, ...], tuple[tuple[str, str], ...], int]


class Begun(NamedTuple):
    """What is known of a transaction when its next message is written. The first one finds neither an id nor a broker."""

    group_id: str
    transaction_id: str = ""
    broker: str = ""
    sent: int = 0


class Half(NamedTuple):
    """A message of a transaction, as it is sent, and where to."""

    transaction_id: str
    message_id: str
    topic: str
    broker: str
    queue_id: int
    record: bytes


class HalfMessages:
    """What all transactions of one client share."""

    def __init__(self, backend: TransactionBackend, config: ClientConfig, serializers: Serializers) -> None:
        self._backend = backend
        self._config = config
        self._serializers = serializers
        self._ids = MessageIds()
        self._codec = _CODECS[config.compression_type]
        self._templates: dict[_TemplateKey, RecordTemplate] = {}

    async def prepare(
        self,
        begun: Begun,
        topic: str,
        message: OutgoingMessage,
        durability: DurabilityName | None,
        more: Mapping[str, str],
        now_ms: int,
    ) -> Half:
        """The next message of a transaction, written for its queue; the first one gives the transaction its id, and its broker."""
        check_name(topic)
        terms = PLAIN
        if message.has_terms:
            terms = terms_of(now_ms, message.delay, message.deliver_at, message.ttl, message.priority, message.delay_level)
        keys = (message.keys,) if isinstance(message.keys, str) else tuple(message.keys)
        tags = (message.tags,) if isinstance(message.tags, str) else tuple(message.tags)
        place = await self._backend.place(topic, begun.broker, message.ordering_key, keys, terms.priority)
        chosen = durability or self._config.durability
        level = place.default_durability if chosen is None else durability_level(chosen)
        if level is Durability.NONE:
            raise InvalidArgumentError(
                "durability='none' in a transaction: nobody would know whether it is whole. Choose 'memory' or 'disk'"
            )
        message_id, born = self._ids.next()
        transaction_id = begun.transaction_id or transaction_name(begun.group_id, message_id, place.broker)
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
            sequence=begun.sent,
            delay_time=terms.delay_time,
            expire_at=terms.expire_at,
            transaction_id=transaction_id,
            sharding_key=message.ordering_key,
            message_type=_TRANSACTION,
            codec=codec,
        )
        return Half(transaction_id, message_id, topic, place.broker, place.queue_id, record)

    async def send(self, half: Half) -> SendReceipt:
        """Store one, and wait until that is as safe as it is to be."""
        stored_at = await self._backend.send(half.broker, half.topic, half.queue_id, half.record)
        return SendReceipt(half.topic, half.message_id, half.broker, half.queue_id, -1, stored_at)

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
