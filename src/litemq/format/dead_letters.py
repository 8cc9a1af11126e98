"""A dead letter: the record that died, whole, as the body of another one whose properties tell its story.

It stands in ``%DLQ%<topic>``. The id, the keys and the tags are those of the record that died, so that it is found by them. All that is told
has a size: an error is cut at its end, a stack trace at its beginning, since the frames that matter are its last.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from litemq.errors import InvalidArgumentError, RecordFormatError
from litemq.format.limits import STORED_LIMITS
from litemq.format.record import PRODUCER_BYTES_AT, STAMP_AT, Buffer, Stage
from litemq.format.record_decode import decode_record
from litemq.format.record_encode import encode_record
from litemq.types import DeadReason, Record, StoredRecord

__all__ = [
    "DEAD_PREFIX",
    "TRANSACTION_OF",
    "UNDECODABLE",
    "DeadSelection",
    "Story",
    "dead_topic",
    "encode_dead_letter",
    "original_of",
    "story_of",
]

DEAD_PREFIX: Final = "%DLQ%"
UNDECODABLE: Final = "undecodable"  # the detail of a message whose body nobody could read

_MOST_ERROR_BYTES: Final = 2 << 10
_MOST_STACK_BYTES: Final = 24 << 10
_MOST_WORD_BYTES: Final = 512
_PROPERTY: Final = "litemq-"
TRANSACTION_OF: Final = _PROPERTY + "transaction"  # of a half that nobody decided


class Story(NamedTuple):
    """What is told about a message that died. ``place`` is "topic_id/queue_id/offset" of the delivery, empty if there was none."""

    reason: DeadReason
    detail: str = ""
    group: str = ""
    place: str = ""
    consumer: str = ""
    error: str = ""
    stack: str = ""
    tries: int = 0
    dead_at: int = 0  # ms
    fingerprint: str = ""
    transaction: str = ""

    @property
    def is_undecodable(self) -> bool:
        """Whether its body could not be read: trying it again as it is helps nobody."""
        return self.detail == UNDECODABLE

    def properties(self) -> dict[str, str]:
        """As the dead letter carries it: what is empty is left out."""
        told = {
            "reason": str(int(self.reason)),
            "detail": _cut(self.detail, _MOST_WORD_BYTES),
            "group": self.group,
            "place": self.place,
            "consumer": _cut(self.consumer, _MOST_WORD_BYTES),
            "error": _cut(self.error, _MOST_ERROR_BYTES),
            "stack": _cut_front(self.stack, _MOST_STACK_BYTES),
            "count": str(self.tries),
            "dead-at": str(self.dead_at),
            "fingerprint": self.fingerprint,
            "transaction": self.transaction,
        }
        return {_PROPERTY + name: value for name, value in told.items() if value}


class DeadSelection(NamedTuple):
    """Which dead letters are meant: those that fit all that is said. Times are when they died, in ms."""

    message_ids: frozenset[str] = frozenset()
    since: int = 0
    until: int = 0  # 0: at any time
    reasons: frozenset[DeadReason] = frozenset()
    group: str = ""
    fingerprint: str = ""
    undecodable: bool | None = None  # only those whose body nobody could read, or all but those

    def matches(self, message_id: str, story: Story) -> bool:
        """Whether a letter is meant."""
        return (
            (not self.message_ids or message_id in self.message_ids)
            and story.dead_at >= self.since
            and (not self.until or story.dead_at < self.until)
            and (not self.reasons or story.reason in self.reasons)
            and (not self.group or story.group == self.group)
            and (not self.fingerprint or story.fingerprint == self.fingerprint)
            and (self.undecodable is None or story.is_undecodable is self.undecodable)
        )


def dead_topic(topic: str) -> str:
    """Where the dead letters of a topic are."""
    return DEAD_PREFIX + topic


def encode_dead_letter(original: Buffer, story: Story) -> bytes:
    """The dead letter of a record, stored or refused, as it is to be placed in ``%DLQ%<topic>``."""
    died = _decode(original).record
    letter = Record(
        dead_topic(died.topic),
        bytes(original),
        died.message_id,
        died.tags,
        died.keys,
        story.properties(),
        priority=died.priority,
        born_timestamp=story.dead_at,
        sharding_key=died.sharding_key,
    )
    return encode_record(letter, limits=STORED_LIMITS)


def story_of(properties: Mapping[str, str]) -> Story:
    """What a dead letter's properties say. What is missing or makes no sense is empty: such a letter can still be listed and sent on."""
    told = {name.removeprefix(_PROPERTY): value for name, value in properties.items() if name.startswith(_PROPERTY)}
    try:
        reason = DeadReason(_number(told.get("reason", "")))
    except ValueError:
        reason = DeadReason.CONSUME_ERROR
    words = {name: told.get(name, "") for name in ("detail", "group", "place", "consumer", "error", "stack", "fingerprint", "transaction")}
    return Story(reason, tries=_number(told.get("count", "")), dead_at=_number(told.get("dead-at", "")), **words)


def original_of(letter: Record) -> StoredRecord:
    """The record that died."""
    try:
        return _decode(letter.body)
    except RecordFormatError as error:
        raise InvalidArgumentError(f"message {letter.message_id} of {letter.topic} is no dead letter: {error}") from None


def _decode(original: Buffer) -> StoredRecord:
    """What was refused when it was sent has never been stamped."""
    stage = Stage.STORED if any(original[STAMP_AT:PRODUCER_BYTES_AT]) else Stage.SENT
    return decode_record(original, stage=stage, limits=STORED_LIMITS)


def _number(text: str) -> int:
    return int(text) if text.isascii() and text.isdigit() and len(text) < 19 else 0


def _cut(text: str, most: int) -> str:
    encoded = text.encode()
    return text if len(encoded) <= most else encoded[:most].decode(errors="ignore")


def _cut_front(text: str, most: int) -> str:
    encoded = text.encode()
    return text if len(encoded) <= most else encoded[-most:].decode(errors="ignore")
