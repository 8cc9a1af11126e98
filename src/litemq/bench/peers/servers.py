"""The servers of peers, each with fresh data on a free port of the loopback address."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from importlib import resources
from pathlib import Path
from typing import Final

from litemq.bench.clusters import free_port, running_broker
from litemq.bench.peers.peer import RunningServer
from litemq.errors import LiteMQError

__all__ = [
    "KAFKA_VARIABLE",
    "ROCKETMQ_VARIABLE",
    "find_jars",
    "find_server",
    "kafka",
    "litemq",
    "nats",
    "redis",
    "rocketmq",
]

KAFKA_VARIABLE: Final = "LITEMQ_BENCH_KAFKA"  # the directory with Kafka's jars
ROCKETMQ_VARIABLE: Final = "LITEMQ_BENCH_ROCKETMQ"  # the one with RocketMQ's
_START_S: Final = 60.0
_STOP_S: Final = 30.0
_CLUSTER_ID: Final = "MkU3OEVBNTcwNTJENDM2Qg"
_KAFKA: Final = """\
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller}
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}
advertised.listeners=PLAINTEXT://127.0.0.1:{port}
controller.listener.names=CONTROLLER
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT
log.dirs={folder}/logs
num.partitions=4
offsets.topic.replication.factor=1
offsets.topic.num.partitions=4
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
share.coordinator.state.topic.replication.factor=1
group.initial.rebalance.delay.ms=0
"""
_ROCKETMQ_NAMESERVER: Final = """\
listenPort={port}
bindAddress=127.0.0.1
kvConfigPath={folder}/kv.json
configStorePath={folder}/nameserver.properties
"""
_ROCKETMQ_BROKER: Final = """\
brokerName=broker-a
brokerIP1=127.0.0.1
listenPort={port}
namesrvAddr=127.0.0.1:{nameserver}
storePathRootDir={folder}/store
flushDiskType={flush}
"""
# RocketMQ's classes use internals of Java's.
_OPENED: Final = tuple(
    f"--add-opens=java.base/{package}=ALL-UNNAMED"
    for package in ("java.nio", "sun.nio.ch", "java.lang", "java.util.concurrent")
)
# As in Kafka's start script.
_JVM: Final = ("-Xmx1G", "-Xms1G", "-server", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20", "-Djava.awt.headless=true")


def find_server(name: str) -> str | None:
    """Return the path of a server's program."""
    return shutil.which(name, path=os.pathsep.join([os.environ.get("PATH", ""), "/usr/sbin"]))


def find_jars(variable: str) -> Path | None:
    """Return the directory with jars that a variable names, if it and Java exist."""
    folder = Path(os.environ.get(variable) or os.devnull).absolute()  # servers have their own directories
    return folder if folder.is_dir() and shutil.which("java") else None


@contextmanager
def litemq() -> Iterator[RunningServer]:
    """Run a NameServer and a broker with default settings."""
    with running_broker() as broker:
        yield RunningServer(broker.url, (broker.pid,))


@contextmanager
def redis(*, fsync: bool) -> Iterator[RunningServer]:
    """Run Redis with an append-only file, synced every second or before each answer."""
    with _folder() as folder:
        port = free_port()
        command = ["--bind", "127.0.0.1", "--port", str(port), "--dir", str(folder), "--save", ""]
        command += ["--appendonly", "yes", "--appendfsync", "always" if fsync else "everysec"]
        with _running([find_server("redis-server") or "", *command], folder, port) as pid:
            yield RunningServer(f"redis://127.0.0.1:{port}", (pid,))


@contextmanager
def nats(*, fsync: bool) -> Iterator[RunningServer]:
    """Run NATS with JetStream on files, synced every two minutes or before each answer."""
    with _folder() as folder:
        port = free_port()
        sync = "sync_interval: always" if fsync else ""
        settings = f'listen: "127.0.0.1:{port}"\njetstream {{ store_dir: "{folder}/js"\n {sync} }}\n'
        (folder / "nats.conf").write_text(settings)
        with _running([find_server("nats-server") or "", "-c", str(folder / "nats.conf")], folder, port) as pid:
            yield RunningServer(f"nats://127.0.0.1:{port}", (pid,))


@contextmanager
def kafka(jars: Path, *, fsync: bool) -> Iterator[RunningServer]:
    """Run Kafka as broker and controller, with its default flushes or with one for each write."""
    with _folder() as folder:
        port = free_port()
        settings = _KAFKA.format(port=port, controller=free_port(), folder=folder)
        path = folder / "server.properties"
        path.write_text(settings + ("log.flush.interval.messages=1\n" if fsync else ""))
        java = [shutil.which("java") or "java"]
        classes = ["-cp", f"{jars}/*"]
        formatting = [*java, *classes, "kafka.tools.StorageTool", "format", "-t", _CLUSTER_ID, "-c", str(path)]
        subprocess.run(formatting, check=True, capture_output=True, timeout=_START_S)  # noqa: S603
        with _running([*java, *_JVM, *classes, "kafka.Kafka", str(path)], folder, port) as pid:
            yield RunningServer(f"127.0.0.1:{port}", (pid,))


@contextmanager
def rocketmq(jars: Path, *, fsync: bool) -> Iterator[RunningServer]:
    """Run a NameServer, a broker and the load process. The address is that of the last one."""
    with _folder() as folder, ExitStack() as running:
        nameserver, broker, load = free_port(), free_port(), free_port()
        (folder / "nameserver.conf").write_text(_ROCKETMQ_NAMESERVER.format(port=nameserver, folder=folder))
        flush = "SYNC_FLUSH" if fsync else "ASYNC_FLUSH"
        (folder / "broker.conf").write_text(
            _ROCKETMQ_BROKER.format(port=broker, nameserver=nameserver, folder=folder, flush=flush)
        )
        home = [f"-Drocketmq.home.dir={folder}", f"-Duser.home={folder}"]
        java = [shutil.which("java") or "java", *_OPENED, *home, "-cp", f"{jars}/*"]
        named = [*java, "-Xmx256m", "org.apache.rocketmq.namesrv.NamesrvStartup", "-c", str(folder / "nameserver.conf")]
        running.enter_context(_running(named, folder, nameserver))
        stored = [*java, *_JVM, "org.apache.rocketmq.broker.BrokerStartup", "-c", str(folder / "broker.conf")]
        pid = running.enter_context(_running(stored, folder, broker))
        with resources.as_file(resources.files(__package__) / "RocketMQLoad.java") as source:
            loading = [*java, *_JVM, str(source), f"127.0.0.1:{nameserver}", str(load)]
            running.enter_context(_running(loading, folder, load))
        yield RunningServer(f"127.0.0.1:{load}", (pid,))


@contextmanager
def _folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="litemq-bench-", ignore_cleanup_errors=True) as folder:
        yield Path(folder)


@contextmanager
def _running(command: Sequence[str], folder: Path, port: int) -> Iterator[int]:
    """Run a server until the block ends; yield its process id once it accepts connections."""
    with (
        (folder / f"output-{port}").open("wb") as output,
        subprocess.Popen(command, cwd=folder, stdout=output, stderr=subprocess.STDOUT) as process,  # noqa: S603
    ):
        try:
            _wait_until_open(port, process, folder / f"output-{port}")
            yield process.pid
        finally:
            process.terminate()
            try:
                process.wait(timeout=_STOP_S)
            except subprocess.TimeoutExpired:
                process.kill()


def _wait_until_open(port: int, process: subprocess.Popen[bytes], output: Path) -> None:
    until = time.monotonic() + _START_S
    while process.poll() is None and time.monotonic() < until:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
        except OSError:
            time.sleep(0.05)
        else:
            return
    raise LiteMQError(f"{Path(process.args[0]).name} did not start: {output.read_text(errors='replace')[-2000:]}")  # type: ignore[index, arg-type]
