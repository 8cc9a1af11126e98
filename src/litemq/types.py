"""Domain types: records, their enums and limits, and the rules for topic and group names."""

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
    "MAX_DELAY_MS",
    "MAX_NAME_BYTES",
    "MAX_PROBLEM_CHARS",
    "MAX_REPLICAS",
    "MIN_DELAY_MS",
    "PRIORITY_CLASSES",
    "RETRIES_PROPERTY",
    "SYSTEM_PREFIXES",
    "TICK_PROPERTY",
    "TIMEOUT_PROPERTY",
    "Archived",
    "ArchivedChoice",
    "BodyCodec",
    "CatchUp",
    "Compatibility",
    "CompatibilityChoice",
    "ConsumerInfo",
    "DeadReason",
    "Durability",
    "MessageStatus",
    "MessageType",
    "Overlap",
    "Priorities",
    "Record",
    "RecordKind",
    "ReplicaAck",
    "ReplicaAckChoice",
    "Stamp",
    "StoredRecord",
    "Visibility",
    "VisibilityChoice",
    "WhenFull",
    "check_name",
    "check_readable",
    "is_system_name",
    "priority_class",
]

DEFAULT_PRIORITY: Final = 128
MAX_PROBLEM_CHARS: Final = 1_000  # of a replica, in its report
MAX_REPLICAS: Final = 64  # of a group, with those that are gone
# Topic settings. With leases, "strict" delivers the highest class first, "weighted" gives each
# class a share.
Priorities = Literal["none", "strict", "weighted"]
ArchivedChoice = Literal["no", "block", "drop-with-record"]  # see ``Archived``
CompatibilityChoice = Literal["backward", "none"]  # see ``Compatibility``
ReplicaAckChoice = Literal["disk", "memory"]  # see ``ReplicaAck``
VisibilityChoice = Literal["confirmed", "received"]  # see ``Visibility``
WhenFull = Literal["reject", "dead_letter"]  # for a message to a queue at ``max_backlog``
# Of 32 priorities each. A topic with priorities has this number of queue ids for each queue.
PRIORITY_CLASSES: Final = 8

# The last millisecond of the year 9999: calendars, JSON and Arrow's microseconds can all hold it.
LATEST_TIME_MS: Final = 253_402_300_799_999

# The range of a message's delay.
MIN_DELAY_MS: Final = 10
MAX_DELAY_MS: Final = 365 * 24 * 3600 * 1000
CLOCKS_DIFFER_MS: Final = 60_000  # accepted between a client and a broker

# Properties of messages that jobs send: job id, tick time, timeout and maximum retries of the run.
JOB_PROPERTY: Final = "litemq-job"
TICK_PROPERTY: Final = "litemq-tick"
TIMEOUT_PROPERTY: Final = "litemq-timeout-ms"
RETRIES_PROPERTY: Final = "litemq-max-retries"

MAX_NAME_BYTES: Final = 127
SYSTEM_PREFIXES: Final = ("%", "LITEMQ_SYS_", "RMQ_SYS_")
_NAME = re.compile(r"[A-Za-z0-9_.\-]+", re.ASCII)


class MessageType(IntEnum):
    """The producer's message type. Informational: the other fields decide about delivery."""

    NORMAL = 0
    DELAY = 1
    TRANSACTION = 2
    BROADCAST = 3
    ORDER = 4


class Durability(IntEnum):
    """The guarantee of an acknowledgement; the record's reliability byte."""

    NONE = 0
    MEMORY = 1
    DISK = 2
    REPLICAS = 3


class RecordKind(IntEnum):
    """The role of a record in the log."""

    MESSAGE = 0
    PENDING = 1
    FIRED = 2
    HALF = 3
    COMMITTED = 4
    RETRY = 5
    DEAD = 6
    CONTROL = 7


class DeadReason(IntEnum):
    """The reason why a message became a dead letter."""

    MAX_RETRY = 1
    TTL_EXPIRED = 2
    QUEUE_FULL = 3
    CONSUME_ERROR = 4
    FILTERED = 5
    UNDECIDED = 6  # a half whose transaction ran out of checks


class Archived(IntEnum):
    """The policy of retention for unarchived messages: delete, keep, or keep for a limited time."""

    NO = 0
    BLOCK = 1
    DROP_WITH_RECORD = 2


class Compatibility(IntEnum):
    """The check of a topic's new schema: it reads messages of all earlier ones, or no check."""

    BACKWARD = 0
    NONE = 1


class Visibility(IntEnum):
    """The messages of a topic that its consumers read: confirmed ones, or all that were received.

    A power cut never takes a confirmed message back.
    """

    CONFIRMED = 0
    RECEIVED = 1


class ReplicaAck(IntEnum):
    """Where each replica in sync has a message of durability ``replicas`` when it is acknowledged.

    With ``MEMORY``, a power cut of all replicas may take it back.
    """

    DISK = 0
    MEMORY = 1


class Overlap(IntEnum):
    """The policy for a tick of a job whose previous run has not finished."""

    ALLOW = 0
    SKIP = 1
    QUEUE_ONE = 2


class CatchUp(IntEnum):
    """The policy for ticks missed during downtime: send the latest, all, or none."""

    ONE = 0
    ALL = 1
    SKIP = 2


class BodyCodec(IntEnum):
    """The compression of a body."""

    NONE = 0
    LZ4 = 1
    ZSTD = 2


class MessageStatus(IntEnum):
    """The transaction status in a record of version 1. Version 2 uses the record's kind instead."""

    NORMAL = 0
    PREPARED = 1
    COMMITTED = 2
    ROLLBACK = 3


_NO_PROPERTIES: Mapping[str, str] = MappingProxyType({})


class Record(NamedTuple):
    """The producer's part of a record. Times are milliseconds since 1970; 0 means none."""

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
    """The broker's part of a record, written when the broker appends it."""

    commitlog_offset: int = 0
    queue_offset: int = 0
    store_timestamp: int = 0
    origin: int = -1
    topic_id: int = 0
    queue_id: int = 0
    epoch: int = 0
    kind: RecordKind = RecordKind.MESSAGE
    consume_count: int = 0


class ConsumerInfo(NamedTuple):
    """Fields of version 1 that version 2 does not store in the record."""

    status: MessageStatus = MessageStatus.NORMAL
    broadcast: bool = False
    store_host: str = ""
    store_size: int = 0
    consume_start_time: int = 0
    consume_end_time: int = 0


class StoredRecord(NamedTuple):
    """A decoded record.

    ``stamp`` is ``None`` before a broker has appended it; ``facts`` is set for version 1 only.
    """

    record: Record
    stamp: Stamp | None
    size: int
    version: int = 2
    facts: ConsumerInfo | None = None


def priority_class(priority: int) -> int:
    """Return the class of ``priority``, 0 … 7; higher classes are delivered first."""
    return priority * PRIORITY_CLASSES // 256


def is_system_name(name: str) -> bool:
    """Return whether ``name`` is reserved for the broker: users may read it, not write to it."""
    return name.startswith(SYSTEM_PREFIXES)


def check_name(name: str, what: str = "topic") -> str:
    """Return ``name``, or raise unless it is a valid name for a user's topic or other ``what``."""
    if not isinstance(name, str):
        raise _not_a_string(name, what)
    if not name:
        raise InvalidArgumentError(f"a {what} name must not be empty")
    if len(name) > MAX_NAME_BYTES:
        raise InvalidArgumentError(f"{what} name of {len(name)} bytes: use at most {MAX_NAME_BYTES}")
    if is_system_name(name):
        reserved = ", ".join(SYSTEM_PREFIXES)
        raise InvalidArgumentError(f"{what} name {name!r}: names that begin with {reserved} are the broker's own")
    if not _NAME.fullmatch(name) or name in {".", ".."}:
        raise InvalidArgumentError(f"{what} name {name!r}: use A-Z a-z 0-9 _ - . only, and neither '.' nor '..'")
    return name


def check_readable(name: str) -> str:
    """Return ``name``, or raise if it is no valid topic name; accept the broker's own topics."""
    if not isinstance(name, str):
        raise _not_a_string(name, "topic")
    if (
        is_system_name(name)
        and name.isascii()
        and name.isprintable()
        and "/" not in name
        and len(name) <= 2 * MAX_NAME_BYTES
    ):
        return name
    return check_name(name)


def _not_a_string(name: object, what: str) -> InvalidArgumentError:
    return InvalidArgumentError(f"{what} name {name!r}: expected a string, got {type(name).__name__}")
