"""The settings of a broker, with defaults and validation."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, Literal

from litemq.errors import ConfigurationError, UnsupportedFeatureError
from litemq.types import MAX_REPLICAS, Durability

__all__ = ["BrokerConfig", "check_address", "check_port", "loss_warning"]

_NAME = re.compile(r"[A-Za-z0-9_.\-]{1,127}", re.ASCII)
_LARGEST_RECORD: Final = 64 << 20
# Dead letters and snapshot parts may exceed max_record_bytes by this.
_OWN_EXTRA: Final = 64 << 10


@dataclass(frozen=True, slots=True)
class BrokerConfig:
    """The settings of a broker: identity, addresses, storage, limits."""

    broker_id: str = "broker-1"
    broker_name: str = "broker-1"
    # Location. Consumers with assignment="same_zone" prefer the queues of brokers in their zone.
    zone: str = ""

    # The listen address (port 0: any free one), and the host that clients connect to if it differs.
    host: str = "127.0.0.1"
    port: int = 10911
    advertised_host: str = ""
    # Required to listen on other than loopback addresses, because there is no authentication yet.
    insecure: bool = False
    nameservers: tuple[str, ...] = ("127.0.0.1:9876",)

    data_path: str = "./litemq-data/broker"
    # The default durability of messages: "sync" is disk, "async" is memory.
    flush_mode: Literal["sync", "async"] = "sync"
    file_size: int = 1 << 30
    max_record_bytes: int = 4 << 20
    # Retention by age and by size; None: unlimited.
    retention_ms: int | None = 72 * 3600 * 1000
    max_log_bytes: int | None = None
    keep_unread: bool = False
    # The used part of the disk from which old segments are deleted early or sends are refused.
    disk_clean_percent: int = 75
    disk_refuse_percent: int = 90

    # Create missing topics on the first send, and their number of queues.
    auto_create_topics: bool = False
    default_queues: int = 4

    # Quotas per client; 0: unlimited.
    quota_messages_per_s: int = 0
    quota_bytes_per_s: int = 0

    # Trace events in LITEMQ_SYS_TRACE: none, of one message in ``trace_one_in``, or of all.
    trace: Literal["off", "sampled", "all"] = "off"
    trace_one_in: int = 100

    # Transactions: the idle time after which those of Spark jobs are rolled back, the size limit of
    # all halves, and the checks of producers' transactions.
    half_lifetime_ms: int = 24 * 3600 * 1000
    max_half_bytes: int = 64 << 30
    check_after_ms: int = 60_000
    check_every_ms: int = 60_000
    max_checks: int = 15

    shutdown_timeout_ms: int = 30_000

    # The number of brokers in this one's group, which share its broker_name, and how many of them
    # must have a message before it is confirmed. ``experimental`` allows replication.
    replicas: int = 1
    min_in_sync: int = 2
    experimental: bool = False
    # How long a replica may lag before it leaves the in-sync set, and the rate at which a replica
    # outside of it catches up; 0: no limit.
    replica_lag_ms: int = 2_000
    catch_up_bytes_per_s: int = 0

    replication_role: Literal["master", "slave"] = "master"
    replication_mode: Literal["async", "sync"] = "async"

    def __post_init__(self) -> None:
        for name in ("broker_id", "broker_name"):
            value = getattr(self, name)
            if not _NAME.fullmatch(value):
                raise ConfigurationError(f"{name}={value!r}: use 1 to 127 of A-Z a-z 0-9 _ - .")
        if not self.host:
            raise ConfigurationError("host is empty: choose 127.0.0.1, or the address of a trusted network")
        check_port("port", self.port)
        if not self.nameservers:
            raise ConfigurationError("nameservers is empty: name at least one, such as 127.0.0.1:9876")
        for address in self.nameservers:
            check_address("nameservers", address)
        if not self.data_path:
            raise ConfigurationError("data_path is empty: choose a directory, such as ./litemq-data/broker")
        if self.flush_mode not in ("sync", "async"):
            raise ConfigurationError(
                f"flush_mode={self.flush_mode!r}: choose sync (acknowledge when on disk) or async (when in memory)"
            )
        self._check_sizes()
        self._check_numbers()
        self._check_replication()

    def _check_sizes(self) -> None:
        if not 1024 <= self.max_record_bytes <= _LARGEST_RECORD:
            raise ConfigurationError(f"max_record_bytes={self.max_record_bytes}: choose 1024 … {_LARGEST_RECORD}")
        min_size = self.max_record_bytes + _OWN_EXTRA
        if self.file_size % 8 or self.file_size < min_size:
            raise ConfigurationError(
                f"file_size={self.file_size}: choose a multiple of 8 of at least {min_size}, so that a record fits"
            )

    def _check_numbers(self) -> None:
        for name in ("disk_clean_percent", "disk_refuse_percent"):
            if not 1 <= getattr(self, name) <= 100:
                raise ConfigurationError(f"{name}={getattr(self, name)}: choose 1 … 100")
        if self.disk_refuse_percent < self.disk_clean_percent < 100:
            raise ConfigurationError(
                f"disk_clean_percent={self.disk_clean_percent}, disk_refuse_percent={self.disk_refuse_percent}: "
                "choose disk_clean_percent <= disk_refuse_percent, or disk_clean_percent=100 for never"
            )
        for name in ("half_lifetime_ms", "max_half_bytes", "check_after_ms", "check_every_ms", "max_checks"):
            if getattr(self, name) <= 0:
                raise ConfigurationError(f"{name}={getattr(self, name)}: choose a positive number")
        for name in ("retention_ms", "max_log_bytes"):
            value = getattr(self, name)
            if value is not None and value <= 0:
                raise ConfigurationError(f"{name}={value}: choose a positive number, or omit it to keep everything")
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
        if not 1 <= self.replicas <= MAX_REPLICAS:
            raise ConfigurationError(f"replicas={self.replicas}: choose 1 … {MAX_REPLICAS}")
        if self.replicas > 1 and not 1 <= self.min_in_sync <= self.replicas:
            raise ConfigurationError(f"min_in_sync={self.min_in_sync}: choose 1 … {self.replicas}, the replicas")
        if self.replicas > 1 and not self.experimental:
            raise UnsupportedFeatureError(
                f"replicas={self.replicas}: replication is not finished, and may lose messages. "
                "To try it, pass --experimental"
            )
        if self.replica_lag_ms < 100:
            raise ConfigurationError(f"replica_lag_ms={self.replica_lag_ms}: choose 100 or more")
        if self.catch_up_bytes_per_s < 0:
            raise ConfigurationError(f"catch_up_bytes_per_s={self.catch_up_bytes_per_s}: choose 0 or more")
        if self.replication_role not in ("master", "slave"):
            raise ConfigurationError(f"replication_role={self.replication_role!r}: choose master")
        if self.replication_mode not in ("async", "sync"):
            raise ConfigurationError(f"replication_mode={self.replication_mode!r}: choose async or sync")
        if self.replication_role != "master":
            raise UnsupportedFeatureError(
                "replication_role='slave': replicated groups elect their masters; choose master, and set replicas"
            )

    @property
    def reachable_host(self) -> str:
        """The host that clients connect to."""
        return self.advertised_host or self.host

    @property
    def default_durability(self) -> Durability:
        """The durability of messages whose producer does not set one."""
        if self.flush_mode != "sync":
            return Durability.MEMORY
        return Durability.REPLICAS if self.replicas > 1 else Durability.DISK


def check_port(name: str, port: int) -> None:
    """Raise unless ``port`` is a valid port to listen on."""
    if not 0 <= port <= 65535:
        raise ConfigurationError(f"{name}={port}: choose 1 … 65535, or 0 for any free port")


def loss_warning(replicas: int, min_in_sync: int) -> str:
    """Say what the loss of a replica stops, in a group that needs all of them."""
    return (
        f"all of its {replicas} replicas must have a message (min_in_sync = {min_in_sync}). While one of them is down, "
        "sends of durability 'replicas' are refused, and no new message can be read. To go on with "
        f"{replicas - 1}, set replication.min_in_sync = {min_in_sync - 1} or the environment variable "
        f"LITEMQ_BROKER_MIN_IN_SYNC={min_in_sync - 1} on each replica, and restart it: then "
        f"{'one disk is' if min_in_sync == 2 else 'fewer disks are'} enough for an acknowledgement. Or add a replica"
    )


def check_address(name: str, address: str, *, example: str = "127.0.0.1:9876") -> tuple[str, int]:
    """Split ``host:port`` into its parts. Raise ``ConfigurationError`` if it is invalid."""
    host, colon, port = address.rpartition(":")
    if not host or not colon or not port.isascii() or not port.isdigit() or not 1 <= int(port) <= 65535:
        raise ConfigurationError(f"{name}={address!r}: write host:port, such as {example}")
    return host.removeprefix("[").removesuffix("]"), int(port)
