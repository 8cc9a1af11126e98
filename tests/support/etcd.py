"""Real etcd servers for tests: one process per member, on free loopback ports."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
import tempfile
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any, Final, Self

import pytest

from support.processes import free_port
from support.waiting import HANG_S, wait_until

__all__ = ["EtcdCluster"]

# A command that ends with the process that started it.
_PROGRAM: Final = """
import ctypes, os, signal, sys
ctypes.CDLL(None).prctl(1, signal.SIGKILL)
os.execv(sys.argv[1], sys.argv[1:])
"""


class EtcdCluster:
    """An etcd cluster with ``size`` members. It ends with its ``with`` block."""

    def __init__(self, size: int) -> None:
        self._program = shutil.which("etcd")
        if self._program is None:
            pytest.fail("etcd is not installed: apt-get install etcd-server")
        self._folder = Path(tempfile.mkdtemp(prefix="litemq-etcd-"))
        self._clients = [free_port() for _ in range(size)]
        self._peers = [free_port() for _ in range(size)]
        self._members: list[subprocess.Popen[bytes] | None] = [None] * size

    @property
    def endpoints(self) -> list[str]:
        return [f"127.0.0.1:{port}" for port in self._clients]

    def start(self, number: int) -> None:
        """Start a member, with the data that it has."""
        client, peer = f"http://127.0.0.1:{self._clients[number]}", f"http://127.0.0.1:{self._peers[number]}"
        everyone = ",".join(f"m{each}=http://127.0.0.1:{port}" for each, port in enumerate(self._peers))
        command = [sys.executable, "-c", _PROGRAM, str(self._program), "--name", f"m{number}"]
        command += ["--data-dir", str(self._folder / f"m{number}"), "--logger", "zap", "--log-level", "error"]
        command += ["--listen-client-urls", client, "--advertise-client-urls", client]
        command += ["--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer]
        command += ["--initial-cluster", everyone, "--initial-cluster-token", self._folder.name]
        with (self._folder / f"m{number}.log").open("ab") as log:
            self._members[number] = subprocess.Popen(command, stdout=log, stderr=log, cwd=self._folder)

    def stop(self, number: int, how: signal.Signals = signal.SIGKILL) -> None:
        """Stop a member by a signal, SIGSTOP included."""
        member = self._members[number]
        assert member is not None
        member.send_signal(how)
        if how != signal.SIGSTOP:
            member.wait(HANG_S)
            self._members[number] = None

    def wipe(self) -> None:
        """Kill all members, and start them again without their data: with the same cluster id."""
        self._stop_all()
        for number in range(len(self._members)):
            shutil.rmtree(self._folder / f"m{number}")
            self.start(number)
        self.wait_healthy()

    def save(self, copy: Path) -> None:
        """Copy the data of all members to the folder ``copy`` while they are stopped."""
        self._stop_all()
        shutil.copytree(self._folder, copy)
        for number in range(len(self._members)):
            self.start(number)
        self.wait_healthy()

    def restore(self, copy: Path) -> None:
        """Kill all members, and start them again with the data in ``copy``."""
        self._stop_all()
        for number in range(len(self._members)):
            shutil.rmtree(self._folder / f"m{number}")
            shutil.copytree(copy / f"m{number}", self._folder / f"m{number}")
            self.start(number)
        self.wait_healthy()

    def _stop_all(self) -> None:
        for number, member in enumerate(self._members):
            if member is not None:
                self.stop(number)

    def resume(self, number: int) -> None:
        """Let a member continue after SIGSTOP."""
        member = self._members[number]
        assert member is not None
        member.send_signal(signal.SIGCONT)

    def leader(self) -> int:
        """Return the number of the leader."""
        for number, member in enumerate(self._members):
            status = self._ask(number, "v3/maintenance/status") if member is not None else None
            if status is not None and status.get("leader") == status["header"]["member_id"]:
                return number
        raise AssertionError("no leader")

    def _ask(self, number: int, what: str) -> dict[str, Any] | None:
        url = f"http://127.0.0.1:{self._clients[number]}/{what}"
        try:
            with urllib.request.urlopen(url, b"{}" if what.startswith("v3") else None, HANG_S) as answer:
                found: dict[str, Any] = json.load(answer)
                return found
        except (OSError, urllib.error.URLError):
            return None

    def _is_healthy(self, number: int) -> bool:
        member = self._members[number]
        if member is not None and member.poll() is not None:
            pytest.fail(f"etcd ended: {(self._folder / f'm{number}.log').read_text()[-2_000:]}")
        return (self._ask(number, "health") or {}).get("health") == "true"

    def wait_healthy(self) -> None:
        """Wait until each running member can serve requests."""
        for number, member in enumerate(self._members):
            if member is not None:
                wait_until(lambda number=number: self._is_healthy(number))  # type: ignore[misc]

    def __enter__(self) -> Self:
        for number in range(len(self._members)):
            self.start(number)
        self.wait_healthy()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop_all()
        shutil.rmtree(self._folder, ignore_errors=True)
