"""Reading dead letters: those of a topic that were neither sent on nor dropped, and that a selection means."""

from __future__ import annotations

import logging
from typing import Final, NamedTuple

from litemq.errors import CorruptStoreError, InvalidArgumentError, OffsetOutOfRangeError, StorageError
from litemq.format.dead_letters import DEAD_PREFIX, DeadSelection, Story, dead_topic, original_of, story_of
from litemq.format.limits import STORED_LIMITS
from litemq.format.record_decode import decode_record
from litemq.proto import wire_pb2 as wire
from litemq.proto.wire_pb2 import DeadLetterFacts
from litemq.storage.state import QueueKey
from litemq.storage.state.delivery.dead_letters import DeadLetters
from litemq.storage.store import Store
from litemq.types import DeadReason, Record, RecordKind, StoredRecord

__all__ = ["Damaged", "Letter", "Letters", "selection_of"]

_MOST_IDS: Final = 10_000
_LOG = logging.getLogger(__name__)


class Letter(NamedTuple):
    """A dead letter as it stands in the log."""

    log_offset: int
    queue_offset: int
    raw: bytes
    record: Record
    story: Story

    def original(self) -> StoredRecord:
        """The record that died; raises where there is none in it."""
        return original_of(self.record)

    def facts(self) -> DeadLetterFacts:
        """What a list tells about it."""
        record, story = self.record, self.story
        return DeadLetterFacts(
            log_offset=self.log_offset,
            queue_offset=self.queue_offset,
            message_id=record.message_id,
            keys=record.keys,
            reason=story.reason,
            detail=story.detail,
            group=story.group,
            consumer=story.consumer,
            error=story.error,
            tries=story.tries,
            dead_at=story.dead_at,
            fingerprint=story.fingerprint,
            size=len(self.raw),
        )


class Damaged(NamedTuple):
    """A dead letter that cannot be read, and why."""

    log_offset: int
    problem: str


class Letters:
    """What is dead in a store. Which there are is asked on the event loop; they are read from any thread."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def topics(self) -> dict[str, int]:
        """The topics that have dead letters, and how many."""
        dead = [facts.name for facts in self._store.state.topics.values() if facts.name.startswith(DEAD_PREFIX) and not facts.deleted]
        counted = {name.removeprefix(DEAD_PREFIX): self.count(name.removeprefix(DEAD_PREFIX)) for name in sorted(dead)}
        return {topic: count for topic, count in counted.items() if count}

    def count(self, topic: str) -> int:
        """How many dead letters a topic has."""
        facts = self._store.state.topic(dead_topic(topic))
        return 0 if facts is None else self._there.count(QueueKey(facts.topic_id, 0))

    def after(self, topic: str, log_offset: int, most: int) -> list[int]:
        """Up to so many of a topic's dead letters, by their log offsets, in the order in which they died."""
        facts = self._store.state.topic(dead_topic(topic))
        return [] if facts is None else self._there.after(QueueKey(facts.topic_id, 0), log_offset, most)

    @property
    def _there(self) -> DeadLetters:
        return self._store.state.delivery.dead_letters

    def is_there(self, log_offset: int) -> bool:
        """Whether it is a dead letter that was neither sent on nor dropped."""
        return log_offset in self._there

    def read(self, log_offset: int) -> Letter | Damaged | None:
        """One of them; nothing, if it has gone meanwhile. It may wait for the disk."""
        try:
            raw = self._store.read_raw(log_offset)
        except OffsetOutOfRangeError:
            return None
        except (CorruptStoreError, StorageError) as error:
            _LOG.error("the dead letter at log offset %d cannot be read: %s", log_offset, error)
            return Damaged(log_offset, str(error))
        stored = decode_record(raw, limits=STORED_LIMITS, verify_crc=False)  # which the store has done
        if stored.stamp is None or stored.stamp.kind is not RecordKind.DEAD:
            return Damaged(log_offset, "what stands there is no dead letter")
        return Letter(log_offset, stored.stamp.queue_offset, raw, stored.record, story_of(stored.record.properties))


def selection_of(told: wire.DeadSelection) -> DeadSelection:
    """A selection as it came over the wire."""
    if len(told.message_ids) > _MOST_IDS:
        raise InvalidArgumentError(f"a selection of {len(told.message_ids)} message ids: name at most {_MOST_IDS} at a time")
    try:
        reasons = frozenset(map(DeadReason, told.reasons))
    except ValueError:
        raise InvalidArgumentError(f"reasons {list(told.reasons)[:8]}: choose of {', '.join(map(str, map(int, DeadReason)))}") from None
    return DeadSelection(
        frozenset(told.message_ids),
        told.since,
        told.until,
        reasons,
        told.group,
        told.fingerprint,
        told.undecodable if told.HasField("undecodable") else None,
    )
