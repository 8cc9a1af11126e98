"""Reads dead letters: those of a topic that were neither redriven nor dropped."""

from __future__ import annotations

import logging
from typing import Final, NamedTuple

from litemq.errors import CorruptStoreError, InvalidArgumentError, OffsetOutOfRangeError, StorageError
from litemq.format.dead_letters import (
    DEAD_PREFIX,
    DeadLetterHistory,
    DeadSelection,
    dead_topic,
    history_from_properties,
    original_record,
)
from litemq.format.limits import STORED_LIMITS
from litemq.format.record_decode import decode_record
from litemq.proto import wire_pb2 as wire
from litemq.proto.wire_pb2 import DeadLetterFacts
from litemq.storage.state import QueueKey
from litemq.storage.state.delivery.dead_letters import DeadLetters
from litemq.storage.store import Store
from litemq.types import DeadReason, Record, RecordKind, StoredRecord

__all__ = ["DamagedDeadLetter", "DeadLetter", "DeadLetterReader", "selection_from_wire"]

_MAX_IDS: Final = 10_000
_LOG = logging.getLogger(__name__)


class DeadLetter(NamedTuple):
    """A dead letter as it is stored in the log."""

    log_offset: int
    queue_offset: int
    raw: bytes
    record: Record
    history: DeadLetterHistory

    def original(self) -> StoredRecord:
        """Return the record that died. Raise if the dead letter contains none."""
        return original_record(self.record)

    def to_wire(self) -> DeadLetterFacts:
        """Return the entry of a list."""
        record, history = self.record, self.history
        return DeadLetterFacts(
            log_offset=self.log_offset,
            queue_offset=self.queue_offset,
            message_id=record.message_id,
            keys=record.keys,
            reason=history.reason,
            detail=history.detail,
            group=history.group,
            consumer=history.consumer,
            error=history.error,
            tries=history.tries,
            dead_at=history.dead_at,
            fingerprint=history.fingerprint,
            size=len(self.raw),
        )


class DamagedDeadLetter(NamedTuple):
    """A dead letter that cannot be read, and why."""

    log_offset: int
    problem: str


class DeadLetterReader:
    """The dead letters of a store. List them on the event loop; any thread may read them."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def topics(self) -> dict[str, int]:
        """Return the number of dead letters by topic, for all topics that have some."""
        topics = self._store.state.topics.values()
        dead = [topic.name for topic in topics if topic.name.startswith(DEAD_PREFIX) and not topic.deleted]
        counted = {name.removeprefix(DEAD_PREFIX): self.count(name.removeprefix(DEAD_PREFIX)) for name in sorted(dead)}
        return {topic: count for topic, count in counted.items() if count}

    def count(self, topic: str) -> int:
        """Return the number of dead letters of a topic."""
        dead = self._store.state.topic(dead_topic(topic))
        return 0 if dead is None else self._index.count(QueueKey(dead.topic_id, 0))

    def after(self, topic: str, log_offset: int, limit: int) -> list[int]:
        """Return the log offsets of up to ``limit`` dead letters after ``log_offset``, in the order
        in which they died.
        """
        dead = self._store.state.topic(dead_topic(topic))
        return [] if dead is None else self._index.after(QueueKey(dead.topic_id, 0), log_offset, limit)

    @property
    def _index(self) -> DeadLetters:
        return self._store.state.parts.dead_letters

    def is_there(self, log_offset: int) -> bool:
        """Return whether ``log_offset`` has a dead letter that was neither redriven nor dropped."""
        return log_offset in self._index

    def read(self, log_offset: int) -> DeadLetter | DamagedDeadLetter | None:
        """Read the dead letter at ``log_offset``; ``None`` if it is gone.

        It may wait for the disk.
        """
        try:
            raw = self._store.read_raw(log_offset)
        except OffsetOutOfRangeError:
            return None
        except (CorruptStoreError, StorageError) as error:
            _LOG.error("the dead letter at log offset %d cannot be read: %s", log_offset, error)
            return DamagedDeadLetter(log_offset, str(error))
        stored = decode_record(raw, limits=STORED_LIMITS, verify_crc=False)  # the store has verified it
        if stored.stamp is None or stored.stamp.kind is not RecordKind.DEAD:
            return DamagedDeadLetter(log_offset, "the record is not a dead letter")
        return DeadLetter(
            log_offset, stored.stamp.queue_offset, raw, stored.record, history_from_properties(stored.record.properties)
        )


def selection_from_wire(message: wire.DeadSelection) -> DeadSelection:
    """Return the selection of a wire ``message``, or raise if it is invalid."""
    if len(message.message_ids) > _MAX_IDS:
        raise InvalidArgumentError(f"{len(message.message_ids)} message ids in a selection: name at most {_MAX_IDS}")
    try:
        reasons = frozenset(map(DeadReason, message.reasons))
    except ValueError:
        known = ", ".join(map(str, map(int, DeadReason)))
        raise InvalidArgumentError(f"unknown reason in {list(message.reasons)[:8]}: choose from {known}") from None
    return DeadSelection(
        frozenset(message.message_ids),
        message.since,
        message.until,
        reasons,
        message.group,
        message.fingerprint,
        message.undecodable if message.HasField("undecodable") else None,
    )
