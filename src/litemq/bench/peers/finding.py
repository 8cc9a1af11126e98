"""Finds the peers on this machine, with their versions and settings."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import re
import subprocess
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Final

from litemq import __version__
from litemq.bench.peers import servers
from litemq.bench.peers.aiokafka_client import AiokafkaClient
from litemq.bench.peers.confluent_client import ConfluentClient
from litemq.bench.peers.litemq_client import LiteMQClient
from litemq.bench.peers.nats_client import NatsClient
from litemq.bench.peers.peer import Peer, PeerClient, RunningServer, Workload
from litemq.bench.peers.redis_client import RedisClient
from litemq.bench.peers.rocketmq_client import RocketMQClient

__all__ = ["find_peer", "find_peers"]

_WRITTEN: Final = "acknowledged when it is written"
_SYNCED: Final = "acknowledged when it is synced"
_JVM_S: Final = 6.0  # until the hot code of a JVM is compiled
_NATS_SYNCS_SINCE: Final = [2, 10]  # earlier versions cannot sync each message
# What a peer that syncs each message is measured with: reading does not depend on it.
_OF_SENDS: Final[tuple[Workload, ...]] = ("awaited", "send_nowait", "steady")

Serve = Callable[..., AbstractContextManager[RunningServer]]  # takes ``fsync``


def find_peers() -> list[Peer]:
    """Return LiteMQ and the peers that are installed, with their clients."""
    return [*_litemq(), *_redis(), *_nats(), *_kafka(), *_rocketmq()]


def find_peer(name: str) -> Peer | None:
    """Return the peer ``name``, or ``None`` if it is not installed."""
    return next((peer for peer in find_peers() if peer.name == name), None)


def _litemq() -> Iterator[Peer]:
    yield Peer(
        "litemq_memory",
        f"LiteMQ {__version__}, durability memory: {_WRITTEN}",
        "memory",
        servers.litemq,
        partial(LiteMQClient, promise="memory"),
    )
    yield Peer(
        "litemq_disk",
        f"LiteMQ {__version__}, durability disk: {_SYNCED}",
        "disk",
        servers.litemq,
        partial(LiteMQClient, promise="disk"),
        _OF_SENDS,
    )


def _redis() -> Iterator[Peer]:
    program, client = servers.find_server("redis-server"), _client("redis")
    if program is not None and client is not None:
        what = f"Redis {_version(program)}, streams, redis-py {client}"
        everysec = "appendfsync everysec: acknowledged when it is in memory and written"
        yield _unsynced("redis", f"{what}, {everysec}", servers.redis, RedisClient)
        yield _synced("redis", f"{what}, appendfsync always", servers.redis, RedisClient)


def _nats() -> Iterator[Peer]:
    program, client = servers.find_server("nats-server"), _client("nats-py", "nats")
    if program is None or client is None:
        return
    version = _version(program)
    what = f"NATS {version}, JetStream on files, nats-py {client}"
    yield _unsynced("nats", f"{what}, synced every 2 minutes: {_WRITTEN}", servers.nats, NatsClient)
    if [int(part) for part in re.findall(r"\d+", version)] >= _NATS_SYNCS_SINCE:
        yield _synced("nats", f"{what}, sync_interval always", servers.nats, NatsClient)


def _kafka() -> Iterator[Peer]:
    jars = servers.find_jars(servers.KAFKA_VARIABLE)
    if jars is None:
        return
    what, serve = f"Kafka {_jar_version(jars, r'kafka_[0-9.]+')}", partial(servers.kafka, jars)
    confluent, aiokafka = _client("confluent-kafka", "confluent_kafka"), _client("aiokafka")
    if confluent is not None:
        client = f"{what}, confluent-kafka {confluent}"
        yield _unsynced("kafka", f"{client}, acks all: {_WRITTEN}", serve, ConfluentClient, _JVM_S)
        yield _synced("kafka", f"{client}, flush.messages 1", serve, ConfluentClient, _JVM_S)
    if aiokafka is not None:
        client = f"{what}, aiokafka {aiokafka}"
        yield _unsynced("kafka_aiokafka", f"{client}, acks all: {_WRITTEN}", serve, AiokafkaClient, _JVM_S)


def _rocketmq() -> Iterator[Peer]:
    jars = servers.find_jars(servers.ROCKETMQ_VARIABLE)
    if jars is None:
        return
    what = f"RocketMQ {_jar_version(jars, 'rocketmq-broker')} with its Java client"
    serve = partial(servers.rocketmq, jars)
    for peer in (
        _unsynced("rocketmq", f"{what}, ASYNC_FLUSH: {_WRITTEN}", serve, RocketMQClient, _JVM_S),
        _synced("rocketmq", f"{what}, SYNC_FLUSH", serve, RocketMQClient, _JVM_S),
    ):
        yield replace(peer, is_python=False)


def _unsynced(name: str, what: str, serve: Serve, connect: Callable[[str], PeerClient], warm_up_s: float = 1.0) -> Peer:
    return Peer(name, what, "memory", partial(serve, fsync=False), connect, warm_up_s=warm_up_s)


def _synced(name: str, what: str, serve: Serve, connect: Callable[[str], PeerClient], warm_up_s: float = 1.0) -> Peer:
    said = f"{what}: {_SYNCED}"
    return Peer(f"{name}_fsync", said, "disk", partial(serve, fsync=True), connect, _OF_SENDS, warm_up_s)


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


def _jar_version(jars: Path, name: str) -> str:
    names = [re.fullmatch(rf"{name}-([\d.]+)\.jar", path.name) for path in jars.iterdir()]
    return next((name[1] for name in names if name), "of unknown version")
