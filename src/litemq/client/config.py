"""The settings of a client, with their defaults and allowed ranges."""

from __future__ import annotations

import os
import socket
from dataclasses import dataclass, fields
from typing import Literal, get_args

from litemq.client.identity import new_suffix
from litemq.errors import InvalidArgumentError
from litemq.types import Durability

__all__ = [
    "AssignmentChoice",
    "ClientConfig",
    "CompressionType",
    "ConsumeMode",
    "DurabilityName",
    "OffsetReset",
    "QueueChoice",
    "ReadFrom",
    "durability_level",
]

DurabilityName = Literal["none", "memory", "disk", "replicas"]
CompressionType = Literal["none", "lz4", "zstd"]
QueueChoice = Literal["round_robin", "random", "key_hash", "least_latency"]
ConsumeMode = Literal["queue", "lease", "broadcast"]
OffsetReset = Literal["earliest", "latest", "error"]
AssignmentChoice = Literal["average", "consistent_hash", "same_zone"]
ReadFrom = Literal["master", "replica"]

_LEVELS = {level.name.lower(): level for level in Durability}


def durability_level(name: str) -> Durability:
    """Return the durability level called ``name``."""
    level = _LEVELS.get(name)
    if level is None:
        raise InvalidArgumentError(f"durability={name!r:.80}: choose one of {', '.join(_LEVELS)}")
    return level


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientConfig:
    """The settings of a client. Durations end in ``_ms``, sizes in ``_bytes``."""

    client_id: str = ""  # empty: host, process id and a random suffix

    # Sending
    durability: DurabilityName | None = None  # None: the broker's default
    linger_ms: int = 0  # 0: batch the messages of one tick of the event loop
    max_batch_bytes: int = 256 * 1024
    max_batch_messages: int = 1024  # for each request
    max_in_flight_requests: int = 32  # for each queue
    buffer_bytes: int = 32 * 1024 * 1024
    compression_type: CompressionType = "none"
    compression_min_bytes: int = 1024
    queue_choice: QueueChoice = "round_robin"  # for messages without ordering_key
    delivery_timeout_ms: int = 30_000
    max_record_bytes: int = 4 * 1024 * 1024

    # Receiving
    auto_offset_reset: OffsetReset = "earliest"
    enable_auto_commit: bool = True  # commit the offsets of acknowledged messages in the background
    auto_commit_interval_ms: int = 200
    session_timeout_ms: int = 5_000  # a consumer without heartbeats for this long loses its queues to other members
    assignment: AssignmentChoice = "average"  # how a group's queues are distributed
    zone: str = ""  # the zone of this client, for assignment="same_zone"
    read_from: ReadFrom = "master"  # of a replicated group, for reads without a group
    max_poll_records: int = 1024
    prefetch_bytes: int = 8 * 1024 * 1024  # for each consumer
    fetch_wait_ms: int = 5_000
    max_body_bytes: int = 64 * 1024 * 1024  # of a decompressed body
    offsets_directory: str = "~/.litemq/offsets"  # of broadcast consumers

    # Connections
    connections_per_broker: int = 1
    connect_timeout_ms: int = 5_000
    contact_timeout_ms: int = 1_000  # lists go on without a broker that does not answer for this long
    request_timeout_ms: int = 10_000
    retry_backoff_ms: int = 50
    max_retry_backoff_ms: int = 1_000
    route_refresh_ms: int = 5_000
    shutdown_timeout_ms: int = 30_000

    def __post_init__(self) -> None:
        for item in fields(self):
            if item.name.endswith(("_ms", "_bytes", "_messages", "_records", "_requests", "_broker")):
                _check_number(item.name, getattr(self, item.name))
        _check_choice("compression_type", self.compression_type, get_args(CompressionType))
        _check_choice("queue_choice", self.queue_choice, get_args(QueueChoice))
        _check_choice("auto_offset_reset", self.auto_offset_reset, get_args(OffsetReset))
        _check_choice("assignment", self.assignment, get_args(AssignmentChoice))
        _check_choice("read_from", self.read_from, get_args(ReadFrom))
        if self.durability is not None:
            durability_level(self.durability)
        if self.request_timeout_ms > self.delivery_timeout_ms:
            raise InvalidArgumentError(
                f"request_timeout_ms={self.request_timeout_ms} is longer than "
                f"delivery_timeout_ms={self.delivery_timeout_ms}: "
                "choose a shorter request_timeout_ms or a longer delivery_timeout_ms"
            )
        if self.max_batch_bytes > self.buffer_bytes:
            raise InvalidArgumentError(
                f"max_batch_bytes={self.max_batch_bytes}: choose at most buffer_bytes={self.buffer_bytes}"
            )
        if not self.client_id:
            object.__setattr__(self, "client_id", f"{socket.gethostname()}-{os.getpid()}-{new_suffix()}")


_RANGES = {
    "linger_ms": (0, 60_000),
    "max_batch_messages": (1, 1024),
    "max_batch_bytes": (1024, 8 << 20),
    "max_in_flight_requests": (1, 1024),
    "max_record_bytes": (1024, 64 << 20),
    "compression_min_bytes": (0, 1 << 31),
    "connections_per_broker": (1, 64),
    "max_poll_records": (1, 100_000),
    "fetch_wait_ms": (0, 60_000),
    "session_timeout_ms": (100, 600_000),
    "prefetch_bytes": (64 * 1024, 1 << 31),
    "buffer_bytes": (64 * 1024, 1 << 40),
}


def _check_number(name: str, value: object) -> None:
    minimum, maximum = _RANGES.get(name, (1, 1 << 40 if name.endswith("_bytes") else 86_400_000))
    if not isinstance(value, int) or isinstance(value, bool) or not minimum <= value <= maximum:
        raise InvalidArgumentError(f"{name}={value!r}: choose a whole number, {minimum} … {maximum}")


def _check_choice(name: str, value: str, choices: tuple[str, ...]) -> None:
    if value not in choices:
        raise InvalidArgumentError(f"{name}={value!r}: choose one of {', '.join(choices)}")
