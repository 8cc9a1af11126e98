"""A broker's settings, with their defaults."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, Literal

from litemq.errors import ConfigurationError, UnsupportedFeatureError
from litemq.types import Durability

__all__ = ["BrokerConfig", "check_address", "check_port"]

_NAME = re.compile(r"[A-Za-z0-9_.\-]{1,127}", re.ASCII)
_LARGEST_RECORD: Final = 64 << 20
# The broker's own records, a dead letter or a part of a snapshot, may exceed what producers send by this much.
_OWN_EXTRA: Final = 64 << 10


@dataclass(frozen=True, slots=True)
class BrokerConfig:
    """Who a broker is, where it listens, what it keeps and for how long."""

    broker_id: str = "broker-1"
    broker_name: str = "broker-1"
    # Where it is: consumers that choose assignment="same_zone" are given the queues of brokers near them.
    zone: str = ""

    # Where it listens, and the name by which clients reach it, which is the same unless it is said; port 0: any that is free.
    host: str = "127.0.0.1"
    port: int = 10911
    advertised_host: str = ""
    # Until users and rights are checked, listening on more than this machine must be asked for.
    insecure: bool = False
    nameservers: tuple[str, ...] = ("127.0.0.1:9876",)

    data_path: str = "./litemq-data/broker"
    # When a message is acknowledged whose producer does not say: "sync", on disk; "async", in memory.
    flush_mode: Literal["sync", "async"] = "sync"
    file_size: int = 1 << 30
    max_record_bytes: int = 4 << 20
    # What is older goes, and what is more than that; None: nothing goes for that reason.
    retention_ms: int | None = 72 * 3600 * 1000
    max_log_bytes: int | None = None

    # Whether a message to a topic that is not there creates it, and with how many queues.
    auto_create_topics: bool = False
    default_queues: int = 4

    # What one client may send; 0: as much as it likes.
    quota_messages_per_s: int = 0
    quota_bytes_per_s: int = 0

    # Events of messages in LITEMQ_SYS_TRACE: of no message, of one in ``trace_one_in``, or of all.
    trace: Literal["off", "sampled", "all"] = "off"
    trace_one_in: int = 100

    # What jobs write and nobody decides or adds to for so long is rolled back; and how much of it there may be.
    half_lifetime_ms: int = 24 * 3600 * 1000
    max_half_bytes: int = 64 << 30
    check_after_ms: int = 60_000
    check_every_ms: int = 60_000
    max_checks: int = 15

    shutdown_timeout_ms: int = 30_000

    replication_role: Literal["master", "slave"] = "master"
    replication_mode: Literal["async", "sync"] = "async"

    def __post_init__(self) -> None:
        for name in ("broker_id", "broker_name"):
            value = getattr(self, name)
            if not _NAME.fullmatch(value):
                raise ConfigurationError(f"{name}={value!r}: use 1 to 127 of A-Z a-z 0-9 _ - .")
        if not self.host:
            raise ConfigurationError("host is empty: choose 127.0.0.1, or the address of a network that is yours alone")
        check_port("port", self.port)
        if not self.nameservers:
            raise ConfigurationError("nameservers is empty: name at least one, such as 127.0.0.1:9876")
        for address in self.nameservers:
            check_address("nameservers", address)
        if not self.data_path:
            raise ConfigurationError("data_path is empty: choose a directory, such as ./litemq-data/broker")
        if self.flush_mode not in ("sync", "async"):
            raise ConfigurationError(f"flush_mode={self.flush_mode!r}: choose sync (acknowledged when on disk) or async (when in memory)")
        self._check_sizes()
        self._check_numbers()
        self._check_replication()

    def _check_sizes(self) -> None:
        if not 1024 <= self.max_record_bytes <= _LARGEST_RECORD:
            raise ConfigurationError(f"max_record_bytes={self.max_record_bytes}: choose 1024 … {_LARGEST_RECORD}")
        least = self.max_record_bytes + _OWN_EXTRA
        if self.file_size % 8 or self.file_size < least:
            raise ConfigurationError(f"file_size={self.file_size}: choose a multiple of 8 of at least {least}, room for one record")

    def _check_numbers(self) -> None:
        for name in ("half_lifetime_ms", "max_half_bytes", "check_after_ms", "check_every_ms", "max_checks"):
            if getattr(self, name) <= 0:
                raise ConfigurationError(f"{name}={getattr(self, name)}: choose a positive number")
        for name in ("retention_ms", "max_log_bytes"):
            value = getattr(self, name)
            if value is not None and value <= 0:
                raise ConfigurationError(f"{name}={value}: choose a positive number, or leave it out to keep everything")
        if not 1 <= self.default_queues <= 65536:
            raise ConfigurationError(f"default_queues={self.default_queues}: choose 1 … 65536")
        if self.trace not in ("off", "sampled", "all"):
            raise ConfigurationError(f"trace={self.trace!r}: choose off, sampled or all")
        if self.trace_one_in < 1:
            raise ConfigurationError(f"trace_one_in={self.trace_one_in}: choose 1 or more")
        for name in ("quota_messages_per_s", "quota_bytes_per_s", "shutdown_timeout_ms"):
            if getattr(self, name) < 0:
                raise ConfigurationError(f"{name}={getattr(self, name)}: choose 0 or more")

    def _check_replication(self) -> None:
        if self.replication_role not in ("master", "slave"):
            raise ConfigurationError(f"replication_role={self.replication_role!r}: choose master")
        if self.replication_mode not in ("async", "sync"):
            raise ConfigurationError(f"replication_mode={self.replication_mode!r}: choose async or sync")
        if self.replication_role != "master":
            raise UnsupportedFeatureError("replication_role='slave': this version keeps one copy; choose master, and start more brokers")

    @property
    def reachable_host(self) -> str:
        """The host that clients connect to."""
        return self.advertised_host or self.host

    @property
    def default_durability(self) -> Durability:
        """What a message promises whose producer does not say."""
        return Durability.DISK if self.flush_mode == "sync" else Durability.MEMORY


def check_port(name: str, port: int) -> None:
    """Raise where a number is no port to listen on."""
    if not 0 <= port <= 65535:
        raise ConfigurationError(f"{name}={port}: choose 1 … 65535, or 0 for any that is free")


def check_address(name: str, address: str) -> tuple[str, int]:
    """``host:port`` in its two parts, or raise with what would be right."""
    host, colon, port = address.rpartition(":")
    if not host or not colon or not port.isascii() or not port.isdigit() or not 1 <= int(port) <= 65535:
        raise ConfigurationError(f"{name}={address!r}: write host:port, such as 127.0.0.1:9876")
    return host.removeprefix("[").removesuffix("]"), int(port)
