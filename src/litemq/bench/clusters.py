"""Clusters for measurements: each of its own, started by the commands that users type, on free ports."""

from __future__ import annotations

import contextlib
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

from litemq.errors import LiteMQError

__all__ = ["RunningBroker", "free_port", "running_broker", "running_broker_on", "running_brokers", "running_cluster"]

_START_S: Final = 60.0
_LISTENS: Final = "listening on"
# The command, which ends with the benchmark even if that is killed (Linux: PR_SET_PDEATHSIG).
_PROGRAM: Final = """
import ctypes, os, signal, sys
ctypes.CDLL(None).prctl(1, signal.SIGKILL)
os.execv(sys.executable, [sys.executable, "-m", "litemq", *sys.argv[1:]])
"""


class RunningBroker(NamedTuple):
    """A broker of whose process and files more is to be known."""

    url: str
    pid: int
    data: Path

    @property
    def resident_bytes(self) -> int:
        """What of it is in memory now."""
        for line in Path(f"/proc/{self.pid}/status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) * 1024
        return 0

    @property
    def derived_bytes(self) -> int:
        """What its files take on disk, besides those of the log: they are made in full before they are written to."""
        paths = (path for path in self.data.rglob("*") if path.is_file() and path.parent.name != "commitlog")
        return sum(path.stat().st_blocks * 512 for path in paths)


@contextlib.contextmanager
def running_cluster() -> Iterator[str]:
    """A cluster of its own, by the command that users type; gives its URL."""
    with tempfile.TemporaryDirectory(prefix="litemq-bench-") as folder:
        names, broker = free_port(), free_port()
        command = ["up", "--data", str(Path(folder) / "data"), "--nameserver-port", str(names), "--port", str(broker)]
        with _running(command, "is ready"):
            yield f"litemq://127.0.0.1:{names}"


@contextlib.contextmanager
def running_brokers(count: int) -> Iterator[str]:
    """A NameServer and so many brokers; gives the cluster's URL."""
    with tempfile.TemporaryDirectory(prefix="litemq-bench-") as folder, contextlib.ExitStack() as stack:
        names = f"127.0.0.1:{free_port()}"
        stack.enter_context(
            _running(["nameserver", "--port", names.rpartition(":")[2], "--data-path", str(Path(folder) / "names")], _LISTENS)
        )
        for number in range(count):
            name = f"broker-{number}"
            command = ["broker", "--broker-id", name, "--broker-name", name, "--port", str(free_port()), "--nameserver", names]
            stack.enter_context(_running([*command, "--data-path", str(Path(folder) / name)], _LISTENS))
        yield f"litemq://{names}"


@contextlib.contextmanager
def running_broker() -> Iterator[RunningBroker]:
    """A NameServer, and a broker with nothing in it yet."""
    with tempfile.TemporaryDirectory(prefix="litemq-bench-") as folder, _broker_on(Path(folder) / "broker") as broker:
        yield broker


@contextlib.contextmanager
def running_broker_on(data: Path) -> Iterator[str]:
    """A NameServer, and a broker on a data directory that is there already; gives the cluster's URL."""
    with _broker_on(data) as broker:
        yield broker.url


@contextlib.contextmanager
def _broker_on(data: Path) -> Iterator[RunningBroker]:
    with tempfile.TemporaryDirectory(prefix="litemq-bench-") as folder:
        names = f"127.0.0.1:{free_port()}"
        server = ["nameserver", "--port", names.rpartition(":")[2], "--data-path", str(Path(folder) / "names")]
        broker = ["broker", "--port", str(free_port()), "--nameserver", names, "--data-path", str(data)]
        with _running(server, _LISTENS), _running(broker, _LISTENS) as pid:
            yield RunningBroker(f"litemq://{names}", pid, data)


@contextlib.contextmanager
def _running(command: list[str], ready: str) -> Iterator[int]:
    """A command, until the block ends; gives the number of its process."""
    arguments = [sys.executable, "-c", _PROGRAM, *command]
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:  # noqa: S603
        output = _wait_until(ready, process)
        try:
            if output is not None:
                raise LiteMQError(f"litemq {command[0]} did not start: {output}")
            yield process.pid
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(timeout=_START_S)


def _wait_until(ready: str, process: subprocess.Popen[str]) -> str | None:
    """Nothing once it is ready; what it said, where it ended instead."""
    output: list[str] = []
    if process.stdout is not None:
        for line in process.stdout:
            output.append(line)
            if ready in line:
                # What it says later is read, too, or else it would stop when nobody does.
                threading.Thread(target=process.stdout.read, daemon=True).start()
                return None
    return "".join(output) or "it said nothing"


def free_port() -> int:
    """A port that nobody listens on now."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])
