"""How large the parts of a record may be. What is over a limit is refused before it is stored, by both codecs alike."""

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

# A topic in a record may be a system topic that carries a user's whole name behind its prefix: "%RETRY%" + 127 bytes.
MAX_TOPIC_BYTES: Final = len("%RETRY%") + MAX_NAME_BYTES

LARGEST_RECORD: Final = 64 * 1024 * 1024
# A dead letter holds the record that died whole, and its story beside it.
_DEAD_LETTER_EXTRA: Final = 64 * 1024
_LARGEST_STORED: Final = LARGEST_RECORD + _DEAD_LETTER_EXTRA


@dataclass(frozen=True, slots=True)
class RecordLimits:
    """The one limit that is a setting: the size of a whole record."""

    max_record_bytes: int = 4 * 1024 * 1024

    def __post_init__(self) -> None:
        if not isinstance(self.max_record_bytes, int) or not 1024 <= self.max_record_bytes <= _LARGEST_STORED:
            raise InvalidArgumentError(f"max_record_bytes={self.max_record_bytes!r}: choose 1024 … {_LARGEST_STORED}")


DEFAULT_LIMITS: Final = RecordLimits()
# For what is read back from a log: whatever the limit for sending is now, it may have been any other when the record was sent.
STORED_LIMITS: Final = RecordLimits(_LARGEST_STORED)
