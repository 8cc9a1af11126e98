"""Size limits of records and their parts, enforced by both codecs before a record is stored."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from litemq.errors import InvalidArgumentError
from litemq.types import MAX_NAME_BYTES

__all__ = [
    "DEFAULT_LIMITS",
    "LARGEST_RECORD",
    "MAX_KEYS",
    "MAX_KEY_BYTES",
    "MAX_MESSAGE_ID_BYTES",
    "MAX_PROPERTIES_BYTES",
    "MAX_TAGS",
    "MAX_TAG_BYTES",
    "MAX_TOPIC_BYTES",
    "STORED_LIMITS",
    "RecordLimits",
]

MAX_MESSAGE_ID_BYTES: Final = 64
MAX_TAGS: Final = 64
MAX_TAG_BYTES: Final = 255
MAX_KEYS: Final = 64
MAX_KEY_BYTES: Final = 255
MAX_PROPERTIES_BYTES: Final = 32 * 1024

# A system topic is a prefix and a user's topic: "%RETRY%" + 127 bytes.
MAX_TOPIC_BYTES: Final = len("%RETRY%") + MAX_NAME_BYTES

LARGEST_RECORD: Final = 64 * 1024 * 1024
# A dead letter holds the complete failed record, and the history of the failure.
_DEAD_LETTER_EXTRA: Final = 64 * 1024
_LARGEST_STORED: Final = LARGEST_RECORD + _DEAD_LETTER_EXTRA


@dataclass(frozen=True, slots=True)
class RecordLimits:
    """The configurable limit: the size of a whole record."""

    max_record_bytes: int = 4 * 1024 * 1024

    def __post_init__(self) -> None:
        if not isinstance(self.max_record_bytes, int) or not 1024 <= self.max_record_bytes <= _LARGEST_STORED:
            raise InvalidArgumentError(f"max_record_bytes={self.max_record_bytes!r}: choose 1024 … {_LARGEST_STORED}")


DEFAULT_LIMITS: Final = RecordLimits()
# For reading a log: the limit may have been higher when the record was sent.
STORED_LIMITS: Final = RecordLimits(_LARGEST_STORED)
