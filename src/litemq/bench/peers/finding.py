"""Finds the peers on this machine, with their versions and settings."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import re
import subprocess
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Final

from litemq import __version__
from litemq.bench.peers import servers
from litemq.bench.peers.aiokafka_client import AiokafkaClient
from litemq.bench.peers.confluent_client import ConfluentClient
from litemq.bench.peers.litemq_client import LiteMQClient
from litemq.bench.peers.nats_client import NatsClient
from litemq.bench.peers.peer import Peer, Workload
from litemq.bench.peers.redis_client import RedisClient

__all__ = ["find_peers"]

_JVM_S: Final = 6.0  # until the hot code of a JVM is compiled
_NATS_SYNCS_SINCE: Final = [2, 10]  # earlier versions cannot sync each message
# What a peer that syncs each message is measured with: reading does not depend on it.
_OF_SENDS: Final[tuple[Workload, ...]] = ("awaited", "send_nowait", "steady")


def find_peers() -> list[Peer]:
    """Return LiteMQ and the peers whose server and Python client are installed."""
    return [*_litemq(), *_redis(), *_nats(), *_kafka()]


def _litemq() -> Iterator[Peer]:
    yield Peer(
        "litemq_memory",
        f"LiteMQ {__version__}, durability memory: acknowledged when it is written",
        "memory",
        servers.litemq,
        partial(LiteMQClient, promise="memory"),
    )
    yield Peer(
        "litemq_disk",
        f"LiteMQ {__version__}, durability disk: acknowledged when it is synced",
        "disk",
        servers.litemq,
        partial(LiteMQClient, promise="disk"),
        _OF_SENDS,
    )


def _redis() -> Iterator[Peer]:
    program, client = servers.find_server("redis-server"), _client("redis")
    if program is None or client is None:
        return
    what = f"Redis {_version(program)}, streams, redis-py {client}"
    yield Peer(
        "redis",
        f"{what}, appendfsync everysec: acknowledged when it is in memory and written",
        "memory",
        partial(servers.redis, fsync=False),
        RedisClient,
    )
    yield Peer(
        "redis_fsync",
        f"{what}, appendfsync always: acknowledged when it is synced",
        "disk",
        partial(servers.redis, fsync=True),
        RedisClient,
        _OF_SENDS,
    )


def _nats() -> Iterator[Peer]:
    program, client = servers.find_server("nats-server"), _client("nats-py", "nats")
    if program is None or client is None:
        return
    version = _version(program)
    what = f"NATS {version}, JetStream on files, nats-py {client}"
    yield Peer(
        "nats",
        f"{what}, synced every 2 minutes: acknowledged when it is written",
        "memory",
        partial(servers.nats, fsync=False),
        NatsClient,
    )
    if [int(part) for part in re.findall(r"\d+", version)] < _NATS_SYNCS_SINCE:
        return
    yield Peer(
        "nats_fsync",
        f"{what}, sync_interval always: acknowledged when it is synced",
        "disk",
        partial(servers.nats, fsync=True),
        NatsClient,
        _OF_SENDS,
    )


def _kafka() -> Iterator[Peer]:
    jars = servers.kafka_jars()
    if jars is None:
        return
    what = f"Kafka {_kafka_version(jars)}"
    confluent, aiokafka = _client("confluent-kafka", "confluent_kafka"), _client("aiokafka")
    if confluent is not None:
        yield Peer(
            "kafka",
            f"{what}, confluent-kafka {confluent}, acks all: acknowledged when it is written",
            "memory",
            partial(servers.kafka, jars, fsync=False),
            ConfluentClient,
            warm_up_s=_JVM_S,
        )
        yield Peer(
            "kafka_fsync",
            f"{what}, confluent-kafka {confluent}, flush.messages 1: acknowledged when it is synced",
            "disk",
            partial(servers.kafka, jars, fsync=True),
            ConfluentClient,
            _OF_SENDS,
            _JVM_S,
        )
    if aiokafka is not None:
        yield Peer(
            "kafka_aiokafka",
            f"{what}, aiokafka {aiokafka}, acks all: acknowledged when it is written",
            "memory",
            partial(servers.kafka, jars, fsync=False),
            AiokafkaClient,
            warm_up_s=_JVM_S,
        )


def _client(distribution: str, module: str = "") -> str | None:
    """Return the version of a client library, or ``None`` if it is not installed."""
    if importlib.util.find_spec(module or distribution) is None:
        return None
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return "of unknown version"


def _version(program: str) -> str:
    said = subprocess.run([program, "--version"], capture_output=True, text=True, check=False).stdout  # noqa: S603
    found = re.search(r"\d+\.\d+\.\d+", said)
    return found[0] if found else "of unknown version"


def _kafka_version(jars: Path) -> str:
    names = [re.fullmatch(r"kafka_[\d.]+-([\d.]+)\.jar", path.name) for path in jars.iterdir()]
    return next((name[1] for name in names if name), "of unknown version")
