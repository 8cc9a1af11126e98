"""The members of a local etcd cluster, which are killed and started again."""

from __future__ import annotations

import contextlib
import http.client
import importlib.util
import json
import shutil
import subprocess
import time
import urllib.request
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from litemq.bench.clusters import START_S, free_port, start_program
from litemq.errors import LiteMQError

__all__ = ["EtcdMember", "endpoints_of", "leader_of", "running_etcd", "why_no_etcd"]

_STEP_S: Final = 0.05
_ANSWER_S: Final = 2.0


def why_no_etcd() -> str:
    """Return why figures with etcd cannot be measured here; empty if they can."""
    if shutil.which("etcd") is None:
        return "etcd is not installed (Debian: apt-get install etcd-server)"
    if importlib.util.find_spec("grpc") is None:
        return "the extra is not installed: pip install 'litemq[etcd]'"
    return ""


class EtcdMember:
    """One member; ``everyone`` is the flag that names all members with their addresses."""

    def __init__(self, name: str, client_port: int, peer_port: int, everyone: str, folder: Path) -> None:
        self.endpoint = f"127.0.0.1:{client_port}"
        client, peer = f"http://{self.endpoint}", f"http://127.0.0.1:{peer_port}"
        self._command = [shutil.which("etcd") or "", "--name", name, "--data-dir", str(folder / name)]
        self._command += ["--logger", "zap", "--log-level", "error", "--initial-cluster", everyone]
        self._command += ["--listen-client-urls", client, "--advertise-client-urls", client]
        self._command += ["--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer]
        self._log = folder / f"{name}.log"
        self._process: subprocess.Popen[str] | None = None

    def start(self) -> None:
        """Start the member with the data that it has, without waiting until it is healthy."""
        with self._log.open("a", encoding="utf-8") as log:
            self._process = start_program(self._command, log)

    def wait_healthy(self) -> None:
        """Wait until the member can serve requests."""
        until = time.monotonic() + START_S
        while self._ask("health").get("health") != "true":
            if time.monotonic() > until or self._process is None or self._process.poll() is not None:
                raise LiteMQError(f"etcd did not start: {self._log.read_text('utf-8')[-2_000:] or 'no output'}")
            time.sleep(_STEP_S)

    @property
    def is_leader(self) -> bool:
        """Whether the member is the leader by its own account; ``False`` if it does not answer."""
        status = self._ask("v3/maintenance/status", b"{}")
        return bool(status) and status.get("leader") == status["header"]["member_id"]

    def _ask(self, path: str, body: bytes | None = None) -> dict[str, Any]:
        try:
            with urllib.request.urlopen(f"http://{self.endpoint}/{path}", body, _ANSWER_S) as answer:
                found: dict[str, Any] = json.load(answer)
        except (OSError, http.client.HTTPException, ValueError):
            return {}
        return found

    def kill(self) -> None:
        """Kill the member (SIGKILL)."""
        if self._process is not None and self._process.poll() is None:
            self._process.kill()

    def wait_ended(self) -> None:
        """Wait until the process has ended."""
        if self._process is not None:
            self._process.wait(timeout=START_S)


def endpoints_of(members: Sequence[EtcdMember]) -> str:
    """Return the endpoints of all members, as the NameServer takes them."""
    return ",".join(member.endpoint for member in members)


def leader_of(members: Sequence[EtcdMember]) -> EtcdMember:
    """Return the leader, once there is one."""
    until = time.monotonic() + START_S
    while time.monotonic() < until:
        for member in members:
            if member.is_leader:
                return member
        time.sleep(_STEP_S)
    raise LiteMQError(f"etcd has had no leader for {START_S:g} s")


@contextlib.contextmanager
def running_etcd(count: int, folder: Path) -> Iterator[list[EtcdMember]]:
    """Run an etcd cluster of ``count`` members, with their data below ``folder``."""
    peers = {f"etcd-{number}": free_port() for number in range(1, count + 1)}
    everyone = ",".join(f"{name}=http://127.0.0.1:{port}" for name, port in peers.items())
    members = [EtcdMember(name, free_port(), port, everyone, folder) for name, port in peers.items()]
    try:
        for member in members:
            member.start()
        for member in members:
            member.wait_healthy()
        yield members
    finally:
        for member in members:
            member.kill()
        for member in members:
            member.wait_ended()
