"""Writes dead letters: one record that settles a delivery and stores its message with the cause."""

from __future__ import annotations

from typing import NamedTuple

from litemq.broker.dead_letters.fingerprint import error_fingerprint
from litemq.format.dead_letters import DeadLetterHistory, encode_dead_letter
from litemq.format.record import STAMPED_BYTES_AT
from litemq.storage.state import QueueKey, dead_letter_topic
from litemq.storage.store import Placed, Store
from litemq.types import DeadReason, RecordKind

__all__ = ["DeadDelivery", "dead_letter_records", "read_log_offset"]


class DeadDelivery(NamedTuple):
    """A delivery that ends as a dead letter, and why."""

    record: bytes | memoryview
    topic_id: int  # of the message, also if it died in a retry queue
    key: QueueKey
    offset: int
    group: str
    tries: int
    reason: DeadReason
    detail: str = ""
    error: str = ""
    stack: str = ""
    consumer: str = ""


def dead_letter_records(store: Store, deliveries: list[DeadDelivery], now: int) -> list[Placed]:
    """Return the records of the dead letters of ``deliveries``, to be appended."""
    dead_letters = []
    for delivery in deliveries:
        history = DeadLetterHistory(
            delivery.reason,
            delivery.detail,
            delivery.group,
            f"{delivery.key.topic_id}/{delivery.key.queue_id}/{delivery.offset}",
            delivery.consumer,
            delivery.error,
            delivery.stack,
            delivery.tries,
            now,
            error_fingerprint(delivery.reason, delivery.detail, delivery.error, delivery.stack),
        )
        topic = store.system_topic(dead_letter_topic(store.state.topics[delivery.topic_id].name))
        dead_letter = encode_dead_letter(bytes(delivery.record), history)
        dead_letters.append(Placed(dead_letter, topic.topic_id, 0, RecordKind.DEAD, read_log_offset(delivery.record)))
    return dead_letters


def read_log_offset(record: bytes | memoryview) -> int:
    """Return the log offset of a stored record, from its stamp."""
    return int.from_bytes(record[STAMPED_BYTES_AT : STAMPED_BYTES_AT + 8], "big")
