"""The words of the domain: what a message is, in plain Python values."""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import IntEnum
from types import MappingProxyType
from typing import Final, Literal, NamedTuple

from litemq.errors import InvalidArgumentError

__all__ = [
    "CLOCKS_DIFFER_MS",
    "DEFAULT_PRIORITY",
    "JOB_PROPERTY",
    "LATEST_TIME_MS",
    "LEAST_DELAY_MS",
    "MAX_NAME_BYTES",
    "MOST_DELAY_MS",
    "PRIORITY_CLASSES",
    "RETRIES_PROPERTY",
    "SYSTEM_PREFIXES",
    "TICK_PROPERTY",
    "TIMEOUT_PROPERTY",
    "Archived",
    "ArchivedChoice",
    "BodyCodec",
    "CatchUp",
    "ConsumerFacts",
    "DeadReason",
    "Durability",
    "MessageStatus",
    "MessageType",
    "Overlap",
    "Priorities",
    "Record",
    "RecordKind",
    "Stamp",
    "StoredRecord",
    "WhenFull",
    "check_name",
    "check_readable",
    "is_system_name",
    "priority_class",
]

DEFAULT_PRIORITY: Final = 128
Priorities = Literal["none", "strict", "weighted"]  # of a topic; under leases the highest class first, or each its share
ArchivedChoice = Literal["no", "block", "drop-with-record"]  # of a topic; whether retention waits for its archive, and for how long
WhenFull = Literal["reject", "dead_letter"]  # what becomes of a message to a queue with too many
PRIORITY_CLASSES: Final = 8  # of 32 priorities each; a topic that has them has as many queue ids for each queue

# The last millisecond of the year 9999: what calendars, JSON and Arrow's microseconds can all hold.
LATEST_TIME_MS: Final = 253_402_300_799_999

# A message may wait for so long.
LEAST_DELAY_MS: Final = 10
MOST_DELAY_MS: Final = 365 * 24 * 3600 * 1000
CLOCKS_DIFFER_MS: Final = 60_000  # a client's clock from a broker's

# Properties of messages that jobs send: whose they are, for which time, and what a run may take.
JOB_PROPERTY: Final = "litemq-job"
TICK_PROPERTY: Final = "litemq-tick"
TIMEOUT_PROPERTY: Final = "litemq-timeout-ms"
RETRIES_PROPERTY: Final = "litemq-max-retries"

MAX_NAME_BYTES: Final = 127
SYSTEM_PREFIXES: Final = ("%", "LITEMQ_SYS_", "RMQ_SYS_")
_NAME = re.compile(r"[A-Za-z0-9_.\-]+", re.ASCII)


class MessageType(IntEnum):
    """What the producer meant. The fields decide what happens; the type is kept for people and for version 1."""

    NORMAL = 0
    DELAY = 1
    TRANSACTION = 2
    BROADCAST = 3
    ORDER = 4


class Durability(IntEnum):
    """What an acknowledgement promises; the record's reliability byte."""

    NONE = 0
    MEMORY = 1
    DISK = 2
    REPLICAS = 3


class RecordKind(IntEnum):
    """What a record is in the log."""

    MESSAGE = 0
    PENDING = 1
    FIRED = 2
    HALF = 3
    COMMITTED = 4
    RETRY = 5
    DEAD = 6
    CONTROL = 7


class DeadReason(IntEnum):
    """Why a message is in the dead letters."""

    MAX_RETRY = 1
    TTL_EXPIRED = 2
    QUEUE_FULL = 3
    CONSUME_ERROR = 4
    FILTERED = 5
    UNDECIDED = 6  # a half whose transaction nobody decided


class Archived(IntEnum):
    """Whether retention waits for a topic's archive: not at all, until it has come, or for a time."""

    NO = 0
    BLOCK = 1
    DROP_WITH_RECORD = 2


class Overlap(IntEnum):
    """What becomes of a job's tick while the run before it is not over."""

    ALLOW = 0
    SKIP = 1
    QUEUE_ONE = 2


class CatchUp(IntEnum):
    """What becomes of ticks that nobody was there to send: the latest is sent, all are, or none."""

    ONE = 0
    ALL = 1
    SKIP = 2


class BodyCodec(IntEnum):
    """How the body's bytes are compressed."""

    NONE = 0
    LZ4 = 1
    ZSTD = 2


class MessageStatus(IntEnum):
    """The transaction status that version 1 wrote into every record; later versions say it with the record's kind."""

    NORMAL = 0
    PREPARED = 1
    COMMITTED = 2
    ROLLBACK = 3


_NO_PROPERTIES: Mapping[str, str] = MappingProxyType({})


class Record(NamedTuple):
    """What a producer writes. Times are milliseconds since 1970; 0 means none."""

    topic: str
    body: bytes = b""
    message_id: str = ""
    tags: tuple[str, ...] = ()
    keys: tuple[str, ...] = ()
    properties: Mapping[str, str] = _NO_PROPERTIES
    type: MessageType = MessageType.NORMAL
    priority: int = DEFAULT_PRIORITY
    reliability: Durability = Durability.DISK
    born_timestamp: int = 0
    delay_time: int = 0
    expire_at: int = 0
    producer_id: int = 0
    sequence: int = 0
    transaction_id: str = ""
    sharding_key: str = ""
    born_host: str = ""
    codec: BodyCodec = BodyCodec.NONE
    encrypted: bool = False


class Stamp(NamedTuple):
    """What the broker writes into a record when it appends it."""

    commitlog_offset: int = 0
    queue_offset: int = 0
    store_timestamp: int = 0
    origin: int = -1
    topic_id: int = 0
    queue_id: int = 0
    epoch: int = 0
    kind: RecordKind = RecordKind.MESSAGE
    consume_count: int = 0


class ConsumerFacts(NamedTuple):
    """What version 1 wrote into every record and later versions keep elsewhere: with the consumers, the kinds and the epochs."""

    status: MessageStatus = MessageStatus.NORMAL
    broadcast: bool = False
    store_host: str = ""
    store_size: int = 0
    consume_start_time: int = 0
    consume_end_time: int = 0


class StoredRecord(NamedTuple):
    """A record as it stands in a log. ``facts`` is set for version 1 only; ``stamp`` is ``None`` before a broker appended it."""

    record: Record
    stamp: Stamp | None
    size: int
    version: int = 2
    facts: ConsumerFacts | None = None


def priority_class(priority: int) -> int:
    """The class of a priority, 0 … 7: messages of a higher one come first."""
    return priority * PRIORITY_CLASSES // 256


def is_system_name(name: str) -> bool:
    """Whether a topic belongs to the broker: such names can be read, but are not the user's to write."""
    return name.startswith(SYSTEM_PREFIXES)


def check_name(name: str, what: str = "topic") -> str:
    """Return a user's topic or group name, or raise with the rule that it breaks."""
    if not name:
        raise InvalidArgumentError(f"a {what} name must not be empty")
    if len(name) > MAX_NAME_BYTES:
        raise InvalidArgumentError(f"{what} name of {len(name)} bytes: at most {MAX_NAME_BYTES} are allowed")
    if is_system_name(name):
        raise InvalidArgumentError(f"{what} name {name!r}: names beginning with {', '.join(SYSTEM_PREFIXES)} are the broker's own")
    if not _NAME.fullmatch(name) or name in {".", ".."}:
        raise InvalidArgumentError(f"{what} name {name!r}: use A-Z a-z 0-9 _ - . only, and neither '.' nor '..'")
    return name


def check_readable(name: str) -> str:
    """Return the name of a topic that may be read, the broker's own included, or raise with the rule that it breaks."""
    if is_system_name(name) and name.isascii() and name.isprintable() and "/" not in name and len(name) <= 2 * MAX_NAME_BYTES:
        return name
    return check_name(name)
