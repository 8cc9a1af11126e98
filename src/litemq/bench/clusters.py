"""Clusters for benchmarks, started with the ``litemq`` command on free ports."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, Final, NamedTuple

from litemq.bench.disk_space import BROKER_ENVIRONMENT
from litemq.errors import LiteMQError

__all__ = [
    "LISTENS",
    "START_S",
    "RunningBroker",
    "RunningBrokers",
    "free_port",
    "running_broker",
    "running_broker_on",
    "running_brokers",
    "running_cluster",
    "start_command",
    "start_program",
]

START_S: Final = 60.0  # the longest start or stop of a server
LISTENS: Final = "listening on"  # in the output of a server that others can connect to
# Runs a command so that it ends with the benchmark, even if that is killed (Linux:
# PR_SET_PDEATHSIG).
_PROGRAM: Final = """
import ctypes, os, signal, sys
ctypes.CDLL(None).prctl(1, signal.SIGKILL)
os.execv(sys.argv[1], sys.argv[1:])
"""


class RunningBroker(NamedTuple):
    """A running broker, with access to its process and files."""

    url: str
    pid: int
    data: Path

    @property
    def resident_bytes(self) -> int:
        """Resident memory of the process."""
        for line in Path(f"/proc/{self.pid}/status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) * 1024
        return 0

    @property
    def derived_bytes(self) -> int:
        """Disk usage of its files except the log, whose segments are preallocated."""
        paths = (path for path in self.data.rglob("*") if path.is_file() and path.parent.name != "commitlog")
        return sum(path.stat().st_blocks * 512 for path in paths)


@contextlib.contextmanager
def running_cluster() -> Iterator[str]:
    """Run ``litemq up``; yield the URL."""
    with tempfile.TemporaryDirectory(prefix="litemq-bench-") as folder:
        names = free_port()
        command = ["up", "--data", str(Path(folder) / "data"), "--nameserver-port", str(names), "--port", "0"]
        with _running(command, "is ready"):
            yield f"litemq://127.0.0.1:{names}"


class RunningBrokers(NamedTuple):
    """Running brokers of one cluster, with their process ids."""

    url: str
    pids: tuple[int, ...]


@contextlib.contextmanager
def running_brokers(count: int, module: str = "litemq") -> Iterator[RunningBrokers]:
    """Run a NameServer and ``count`` brokers, each the command of ``module``."""
    with tempfile.TemporaryDirectory(prefix="litemq-bench-") as folder, contextlib.ExitStack() as stack:
        names = f"127.0.0.1:{free_port()}"
        stack.enter_context(
            _running(
                ["nameserver", "--port", names.rpartition(":")[2], "--data-path", str(Path(folder) / "names")], LISTENS
            )
        )
        pids = []
        for number in range(count):
            name = f"broker-{number}"
            command = [
                "broker",
                "--broker-id",
                name,
                "--broker-name",
                name,
                "--port",
                "0",
                "--nameserver",
                names,
            ]
            command += ["--data-path", str(Path(folder) / name)]
            pids.append(stack.enter_context(_running(command, LISTENS, module)))
        yield RunningBrokers(f"litemq://{names}", tuple(pids))


@contextlib.contextmanager
def running_broker() -> Iterator[RunningBroker]:
    """Run a NameServer and a new broker."""
    with tempfile.TemporaryDirectory(prefix="litemq-bench-") as folder, _broker_on(Path(folder) / "broker") as broker:
        yield broker


@contextlib.contextmanager
def running_broker_on(data: Path) -> Iterator[str]:
    """Run a NameServer and a broker on the existing directory ``data``; yield the URL."""
    with _broker_on(data) as broker:
        yield broker.url


@contextlib.contextmanager
def _broker_on(data: Path) -> Iterator[RunningBroker]:
    with tempfile.TemporaryDirectory(prefix="litemq-bench-") as folder:
        names = f"127.0.0.1:{free_port()}"
        server = ["nameserver", "--port", names.rpartition(":")[2], "--data-path", str(Path(folder) / "names")]
        broker = ["broker", "--port", "0", "--nameserver", names, "--data-path", str(data)]
        with _running(server, LISTENS), _running(broker, LISTENS) as pid:
            yield RunningBroker(f"litemq://{names}", pid, data)


@contextlib.contextmanager
def _running(command: list[str], ready: str, module: str = "litemq") -> Iterator[int]:
    """Run ``module`` with ``command`` until the block ends; yield its process id.

    ``ready`` is the text in its output that marks the end of its start-up.
    """
    with start_command(command, subprocess.PIPE, module) as process:
        output = _wait_until(ready, process)
        try:
            if output is not None:
                raise LiteMQError(f"litemq {command[0]} did not start: {output}")
            yield process.pid
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(timeout=START_S)


def start_command(command: Sequence[str], output: IO[str] | int, module: str = "litemq") -> subprocess.Popen[str]:
    """Start ``module`` with ``command``; all that it prints goes to ``output``."""
    return start_program([sys.executable, "-m", module, *command], output)


def start_program(command: Sequence[str], output: IO[str] | int) -> subprocess.Popen[str]:
    """Start a program by its path; all that it prints goes to ``output``."""
    arguments = [sys.executable, "-c", _PROGRAM, *command]
    environment = {**os.environ, **BROKER_ENVIRONMENT}
    return subprocess.Popen(  # noqa: S603
        arguments, env=environment, stdout=output, stderr=subprocess.STDOUT, text=True
    )


def _wait_until(ready: str, process: subprocess.Popen[str]) -> str | None:
    """Return ``None`` once the process is ready, or its output if it ended."""
    output: list[str] = []
    if process.stdout is not None:
        for line in process.stdout:
            output.append(line)
            if ready in line:
                # Keep reading its output, or it would block on a full pipe.
                threading.Thread(target=process.stdout.read, daemon=True).start()
                return None
    return "".join(output) or "no output"


def free_port() -> int:
    """Return a port that is free now."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])
