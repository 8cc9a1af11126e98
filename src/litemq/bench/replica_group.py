"""A replicated group for benchmarks: a NameServer and replicas, which are killed and started again.

The servers are processes of the released command, on free ports of this machine, and the members of
etcd if the facts of the group are there.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from litemq.bench.clusters import LISTENS, START_S, free_port, start_command
from litemq.bench.etcd_members import EtcdMember, endpoints_of, running_etcd
from litemq.errors import LiteMQError

__all__ = ["GROUP", "REPLICAS", "GroupSettings", "ReplicaGroup", "ServerProcess", "running_group"]

GROUP: Final = "bench"
REPLICAS: Final = 3
_STEP_S: Final = 0.01


@dataclass(frozen=True, slots=True)
class GroupSettings:
    """The settings of a group: the lease of its master (s), its cluster store, and further flags.

    Without members of etcd, the store is the embedded one.
    """

    lease_s: float = 5.0
    etcd_members: int = 0
    replica: tuple[str, ...] = ()


class ServerProcess:
    """One server, which can be killed and started again. It is started by the main thread."""

    def __init__(self, command: list[str], data: Path) -> None:
        self._command = [*command, "--data-path", str(data)]
        self._data = data
        self._log = data.with_suffix(".log")
        self._begun = 0  # of the log, when the process was last started
        self._process: subprocess.Popen[str] | None = None

    @property
    def pid(self) -> int:
        """The process id; 0 if it was not started yet."""
        return self._process.pid if self._process is not None else 0

    @property
    def output(self) -> str:
        """All that the process has printed since its last start."""
        return self._log.read_text("utf-8")[self._begun :]

    @property
    def is_listening(self) -> bool:
        """Whether others can connect; raise if the process has ended."""
        output = self.output
        if LISTENS in output:
            return True
        if self._process is None or self._process.poll() is not None:
            raise LiteMQError(f"litemq {self._command[0]} did not start: {output or 'no output'}")
        return False

    def start(self) -> None:
        """Start the process, without waiting until it listens."""
        self._begun = len(self._log.read_text("utf-8")) if self._log.exists() else 0
        with self._log.open("a", encoding="utf-8") as log:
            self._process = start_command(self._command, log)

    def wait_listening(self) -> None:
        """Wait until others can connect."""
        until = time.monotonic() + START_S
        while not self.is_listening:
            if time.monotonic() > until:
                raise LiteMQError(f"litemq {self._command[0]} did not listen within {START_S:g} s: {self.output}")
            time.sleep(_STEP_S)

    def kill(self) -> None:
        """Kill the process (SIGKILL)."""
        self._signal(signal.SIGKILL)

    def terminate(self) -> None:
        """Ask the process to stop (SIGTERM)."""
        self._signal(signal.SIGTERM)

    def _signal(self, number: signal.Signals) -> None:
        if self._process is not None and self._process.poll() is None:
            os.kill(self._process.pid, number)

    def wait_ended(self) -> None:
        """Wait until the process has ended."""
        if self._process is not None:
            self._process.wait(timeout=START_S)

    def wipe(self) -> None:
        """Remove the data directory of the process, which has ended."""
        shutil.rmtree(self._data)

    @property
    def log_start(self) -> int:
        """The log offset at which the oldest segment of the data directory begins."""
        return min(int(path.name) for path in (self._data / "commitlog").iterdir() if re.fullmatch(r"\d+", path.name))


class ReplicaGroup:
    """A running NameServer, the replicas by their broker ids, and the members of etcd, if any."""

    def __init__(self, settings: GroupSettings, etcd: Sequence[EtcdMember], folder: Path) -> None:
        self.etcd = etcd
        self.address = ("127.0.0.1", free_port())
        names = f"{self.address[0]}:{self.address[1]}"
        self.url = f"litemq://{names}"
        lease = f"--master-lease={round(settings.lease_s * 1000)}ms"
        store = ("--store-kind", "etcd", "--etcd-endpoints", endpoints_of(etcd)) if etcd else ()
        self.nameserver = ServerProcess(["nameserver", "--port", str(self.address[1]), lease, *store], folder / "names")
        self.replicas = {
            name: ServerProcess(
                [
                    *("broker", "--broker-id", name, "--broker-name", GROUP, "--port", "0", "--nameserver", names),
                    *("--replicas", str(REPLICAS), "--experimental", *settings.replica),
                ],
                folder / name,
            )
            for name in (f"replica-{number}" for number in range(1, REPLICAS + 1))
        }

    @property
    def servers(self) -> list[ServerProcess]:
        """The processes, in the order in which they stop."""
        return [*self.replicas.values(), self.nameserver]


@contextlib.contextmanager
def running_group(settings: GroupSettings | None = None) -> Iterator[ReplicaGroup]:
    """Run a NameServer and three replicas until the block ends."""
    settings = settings or GroupSettings()
    with (
        tempfile.TemporaryDirectory(prefix="litemq-bench-") as folder,
        running_etcd(settings.etcd_members, Path(folder)) as etcd,
    ):
        group = ReplicaGroup(settings, etcd, Path(folder))
        try:
            group.nameserver.start()
            group.nameserver.wait_listening()
            for replica in group.replicas.values():
                replica.start()
            for replica in group.replicas.values():
                replica.wait_listening()
            yield group
        finally:
            for server in group.servers:  # their data are removed: an orderly stop would take longer
                server.kill()
            for server in group.servers:
                server.wait_ended()
