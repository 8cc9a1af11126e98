"""Half messages: encode the numbered messages of a transaction and send them to its broker."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from litemq.client.config import ClientConfig, DurabilityName, durability_level
from litemq.client.engine.transactions import TransactionEngine
from litemq.client.identity import new_message_ids
from litemq.client.labels import property_pairs, strings
from litemq.client.messages.body_compression import BodyCompression
from litemq.client.messages.delivery_options import NO_OPTIONS, delivery_options, with_batch_id
from litemq.client.messages.outgoing import OutgoingMessage, SendReceipt
from litemq.client.messages.serializers import Serializers
from litemq.errors import InvalidArgumentError
from litemq.format.limits import RecordLimits
from litemq.format.record_encode import RecordTemplate
from litemq.format.transactions import transaction_name
from litemq.types import Durability, MessageType, check_name

__all__ = ["Half", "HalfMessages", "TransactionProgress"]

_MAX_TEMPLATES: Final = 256
_TRANSACTION: Final = MessageType.TRANSACTION

_TemplateKey = tuple[str, Durability, tuple[str, ...], tuple[tuple[str, str], ...], int]


class TransactionProgress(NamedTuple):
    """The state of a transaction before its next message.

    The first message sets the id and the broker.
    """

    group_id: str
    transaction_id: str = ""
    broker: str = ""
    sent: int = 0


class Half(NamedTuple):
    """An encoded message of a transaction, and its destination."""

    transaction_id: str
    message_id: str
    topic: str
    broker: str
    queue_id: int
    record: bytes


class HalfMessages:
    """Encodes and sends the half messages of all transactions of one client."""

    def __init__(self, engine: TransactionEngine, config: ClientConfig, serializers: Serializers) -> None:
        self._engine = engine
        self._config = config
        self._serializers = serializers
        self._ids = new_message_ids()
        self._compression = BodyCompression(config)
        self._templates: dict[_TemplateKey, RecordTemplate] = {}

    async def prepare(
        self,
        progress: TransactionProgress,
        topic: str,
        message: OutgoingMessage,
        durability: DurabilityName | None,
        more: Mapping[str, str],
        now_ms: int,
    ) -> Half:
        """Select the queue of ``message`` and encode it, with ``more`` properties.

        The first message determines the transaction's id and broker.

        Raises:
            InvalidArgumentError: An option is invalid, or the topic has no queue on the
                transaction's broker.
            SerializationError: The serializer cannot write the body.
        """
        check_name(topic)
        delivery = NO_OPTIONS
        if message.has_delivery_options:
            delivery = delivery_options(
                now_ms, message.delay, message.deliver_at, message.ttl, message.priority, message.delay_level
            )
        keys, tags = strings(message.keys, "keys"), strings(message.tags, "tags")
        given = dict(property_pairs(message.properties))
        position = await self._engine.choose_queue(
            topic, progress.broker, message.ordering_key, keys, delivery.priority
        )
        chosen = durability or self._config.durability
        level = position.default_durability if chosen is None else durability_level(chosen)
        if level is Durability.NONE:
            raise InvalidArgumentError("durability='none' is not possible in a transaction: choose 'memory' or 'disk'")
        message_id, born = self._ids.next()
        transaction_id = progress.transaction_id or transaction_name(progress.group_id, message_id, position.broker)
        body, content_type = self._serializers.dumps(topic, message.body)
        body, codec = self._compression.compress(body)
        properties = {
            **(with_batch_id(given, message.batch_id) if message.batch_id else given),
            **more,
        }
        if content_type:
            properties.setdefault("content-type", content_type)
        record = self._template((topic, level, tags, tuple(properties.items()), delivery.priority)).encode(
            body,
            message_id=message_id,
            keys=keys,
            born_timestamp=born,
            sequence=progress.sent,
            delay_time=delivery.delay_time,
            expire_at=delivery.expire_at,
            transaction_id=transaction_id,
            sharding_key=message.ordering_key,
            message_type=_TRANSACTION,
            codec=codec,
        )
        return Half(transaction_id, message_id, topic, position.broker, position.queue_id, record)

    async def send(self, half: Half) -> SendReceipt:
        """Send ``half`` and wait until the broker has stored it."""
        stored_at = await self._engine.send(half.broker, half.topic, half.queue_id, half.record)
        return SendReceipt(half.topic, half.message_id, half.broker, half.queue_id, -1, stored_at)

    def _template(self, key: _TemplateKey) -> RecordTemplate:
        template = self._templates.get(key)
        if template is None:
            if len(self._templates) >= _MAX_TEMPLATES:
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
