"""Dead letters: records of ``%DLQ%<topic>`` with a failed record and the history of its failure.

The body is the complete failed record; the properties are the history. Id, keys and tags are those
of the failed record, so that lookups find it. The size of the history is limited: an error is cut
at its end, a stack trace at its start, because its last frames matter most.
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
    "TRANSACTION_PROPERTY",
    "UNDECODABLE",
    "DeadLetterHistory",
    "DeadSelection",
    "dead_topic",
    "encode_dead_letter",
    "history_from_properties",
    "original_record",
]

DEAD_PREFIX: Final = "%DLQ%"
UNDECODABLE: Final = "undecodable"  # the detail of a message whose body could not be deserialized

_MAX_ERROR_BYTES: Final = 2 << 10
_MAX_STACK_BYTES: Final = 24 << 10
_MAX_DETAIL_BYTES: Final = 512
_PROPERTY: Final = "litemq-"
TRANSACTION_PROPERTY: Final = _PROPERTY + "transaction"  # of an undecided half


class DeadLetterHistory(NamedTuple):
    """The history of a dead letter.

    ``position`` is "topic_id/queue_id/offset" of the last delivery; empty if there was none.
    """

    reason: DeadReason
    detail: str = ""
    group: str = ""
    position: str = ""
    consumer: str = ""
    error: str = ""
    stack: str = ""
    tries: int = 0
    dead_at: int = 0  # ms
    fingerprint: str = ""
    transaction: str = ""

    @property
    def is_undecodable(self) -> bool:
        """Whether its body could not be deserialized, so that a retry would fail again."""
        return self.detail == UNDECODABLE

    def properties(self) -> dict[str, str]:
        """Return the properties of the dead letter; empty fields are omitted."""
        fields = {
            "reason": str(int(self.reason)),
            "detail": _cut_end(self.detail, _MAX_DETAIL_BYTES),
            "group": self.group,
            "place": self.position,
            "consumer": _cut_end(self.consumer, _MAX_DETAIL_BYTES),
            "error": _cut_end(self.error, _MAX_ERROR_BYTES),
            "stack": _cut_start(self.stack, _MAX_STACK_BYTES),
            "count": str(self.tries),
            "dead-at": str(self.dead_at),
            "fingerprint": self.fingerprint,
            "transaction": self.transaction,
        }
        return {_PROPERTY + name: value for name, value in fields.items() if value}


class DeadSelection(NamedTuple):
    """Criteria for dead letters, all of which must match. Times are the times of death (ms)."""

    message_ids: frozenset[str] = frozenset()
    since: int = 0
    until: int = 0  # 0: no limit
    reasons: frozenset[DeadReason] = frozenset()
    group: str = ""
    fingerprint: str = ""
    undecodable: bool | None = None  # only undecodable ones, or all others

    def matches(self, message_id: str, history: DeadLetterHistory) -> bool:
        """Return whether a dead letter matches all criteria."""
        return (
            (not self.message_ids or message_id in self.message_ids)
            and history.dead_at >= self.since
            and (not self.until or history.dead_at < self.until)
            and (not self.reasons or history.reason in self.reasons)
            and (not self.group or history.group == self.group)
            and (not self.fingerprint or history.fingerprint == self.fingerprint)
            and (self.undecodable is None or history.is_undecodable is self.undecodable)
        )


def dead_topic(topic: str) -> str:
    """Return the topic that holds the dead letters of ``topic``."""
    return DEAD_PREFIX + topic


def encode_dead_letter(original: Buffer, history: DeadLetterHistory) -> bytes:
    """Encode the dead letter of a record that was stored, or refused before it was stored."""
    failed = _decode(original).record
    dead_letter = Record(
        dead_topic(failed.topic),
        bytes(original),
        failed.message_id,
        failed.tags,
        failed.keys,
        history.properties(),
        priority=failed.priority,
        born_timestamp=history.dead_at,
        sharding_key=failed.sharding_key,
    )
    return encode_record(dead_letter, limits=STORED_LIMITS)


def history_from_properties(properties: Mapping[str, str]) -> DeadLetterHistory:
    """Read the history of a dead letter. Missing and invalid fields are empty."""
    fields = {name.removeprefix(_PROPERTY): value for name, value in properties.items() if name.startswith(_PROPERTY)}
    try:
        reason = DeadReason(_number(fields.get("reason", "")))
    except ValueError:
        reason = DeadReason.CONSUME_ERROR
    names = ("detail", "group", "consumer", "error", "stack", "fingerprint", "transaction")
    return DeadLetterHistory(
        reason,
        position=fields.get("place", ""),
        tries=_number(fields.get("count", "")),
        dead_at=_number(fields.get("dead-at", "")),
        **{name: fields.get(name, "") for name in names},
    )


def original_record(dead_letter: Record) -> StoredRecord:
    """Decode the failed record in ``dead_letter``."""
    try:
        return _decode(dead_letter.body)
    except RecordFormatError as error:
        message = f"message {dead_letter.message_id} of {dead_letter.topic} is not a dead letter: {error}"
        raise InvalidArgumentError(message) from None


def _decode(original: Buffer) -> StoredRecord:
    """Decode a record that was stored, or refused and therefore never stamped."""
    stage = Stage.STORED if any(original[STAMP_AT:PRODUCER_BYTES_AT]) else Stage.SENT
    return decode_record(original, stage=stage, limits=STORED_LIMITS)


def _number(text: str) -> int:
    return int(text) if text.isascii() and text.isdigit() and len(text) < 19 else 0


def _cut_end(text: str, max_bytes: int) -> str:
    encoded = text.encode()
    return text if len(encoded) <= max_bytes else encoded[:max_bytes].decode(errors="ignore")


def _cut_start(text: str, max_bytes: int) -> str:
    encoded = text.encode()
    return text if len(encoded) <= max_bytes else encoded[-max_bytes:].decode(errors="ignore")
