"""Messages that are given up go to the dead letters, with their story: one record that settles the delivery and keeps what died."""

from __future__ import annotations

from typing import NamedTuple

from litemq.broker.dead_letters.fingerprint import fingerprint_of
from litemq.format.dead_letters import Story, encode_dead_letter
from litemq.format.record import STAMPED_BYTES_AT
from litemq.storage.state import QueueKey, dead_letter_topic
from litemq.storage.store import Placed, Store
from litemq.types import DeadReason, RecordKind

__all__ = ["Burial", "letters_of", "log_offset_of"]


class Burial(NamedTuple):
    """A delivery that is to end as a dead letter."""

    record: bytes | memoryview
    topic_id: int  # that it belongs to
    key: QueueKey
    offset: int
    group: str
    tries: int  # so far
    reason: DeadReason
    detail: str = ""
    error: str = ""
    stack: str = ""
    consumer: str = ""


def letters_of(store: Store, burials: list[Burial], now: int) -> list[Placed]:
    """The dead letters, to be appended."""
    letters = []
    for burial in burials:
        story = Story(
            burial.reason,
            burial.detail,
            burial.group,
            f"{burial.key.topic_id}/{burial.key.queue_id}/{burial.offset}",
            burial.consumer,
            burial.error,
            burial.stack,
            burial.tries,
            now,
            fingerprint_of(burial.reason, burial.detail, burial.error, burial.stack),
        )
        topic = store.system_topic(dead_letter_topic(store.state.topics[burial.topic_id].name))
        letter = encode_dead_letter(bytes(burial.record), story)
        letters.append(Placed(letter, topic.topic_id, 0, RecordKind.DEAD, log_offset_of(burial.record)))
    return letters


def log_offset_of(record: bytes | memoryview) -> int:
    """Where a stored record stands, as it says itself."""
    return int.from_bytes(record[STAMPED_BYTES_AT : STAMPED_BYTES_AT + 8], "big")
