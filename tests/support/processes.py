"""NameServers and brokers in their own processes: killed, frozen, restarted at the same address."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Final, Self

from litemq.net.blocking import BlockingPeer
from litemq.proto.wire_pb2 import BrokersAnswer, Opcode
from support.waiting import HANG_S

_READY_WITHIN_S: Final = HANG_S
# A command that ends with the process that started it.
_PROGRAM: Final = """
import ctypes, os, resource, signal, sys
ctypes.CDLL(None).prctl(1, signal.SIGKILL)
limit = int(sys.argv[1])
if limit:
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))
os.execv(sys.executable, [sys.executable, "-m", "litemq", *sys.argv[2:]])
"""


def free_port() -> int:
    """Return a free port that outgoing connections do not use: a server can restart on it."""
    while True:
        port = random.randrange(20_000, 32_000)
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port


class ServerProcess:
    """One server, ``litemq broker`` or ``litemq nameserver``. It ends with its ``with`` block."""

    def __init__(self, command: str, log: Path, *, max_descriptors: int = 0, **flags: object) -> None:
        """``max_descriptors`` lowers the limit of the process; 0 leaves it as it is."""
        self.port = free_port()
        self._max_descriptors = max_descriptors
        self.starts: list[float] = []  # how long each took until it answered, in seconds
        self._log = log
        self._arguments = [command, f"--port={self.port}"]
        self._arguments += [
            f"--{name.replace('_', '-')}" + ("" if value is True else f"={value}") for name, value in flags.items()
        ]
        self._nameserver = str(flags.get("nameserver", ""))
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        self.start()
        self.wait_ready()
        if self._nameserver:
            self._wait_registered()
        return self

    def __exit__(self, *_exception: object) -> None:
        self.kill()

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def start(self) -> None:
        """Start the process, without waiting until it is ready.

        Call it from the main thread: the process ends with the thread that started it.
        """
        assert not self.is_running
        self._began, self._answered = time.monotonic(), False
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-c", _PROGRAM, str(self._max_descriptors), *self._arguments],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=log,
            )

    @property
    def is_ready(self) -> bool:
        """Return whether the server listens."""
        if not self.is_running:
            raise RuntimeError(f"it has ended by itself: {self._log.read_text()[-2000:]}")
        with socket.socket() as probe:
            probe.settimeout(1)
            if probe.connect_ex(("127.0.0.1", self.port)):
                return False
        if not self._answered:
            self._answered = True
            self.starts.append(time.monotonic() - self._began)
        return True

    def wait_ready(self) -> None:
        while not self.is_ready:
            if time.monotonic() - self._began > _READY_WITHIN_S:
                raise RuntimeError(f"not ready within {_READY_WITHIN_S:g} s: {self._log.read_text()[-2000:]}")
            time.sleep(0.02)

    def _wait_registered(self) -> None:
        """Wait until the NameServer knows this broker: new topics leave it out before that."""
        host, _, port = self._nameserver.rpartition(":")
        with contextlib.closing(BlockingPeer(host, int(port), client_id="tests")) as names:
            while True:
                answer = BrokersAnswer.FromString(names.request(Opcode.LIST_BROKERS, b"").header)
                if any(state.facts.port == self.port and state.alive for state in answer.brokers):
                    return
                if time.monotonic() - self._began > _READY_WITHIN_S:
                    raise RuntimeError(f"not registered: {self._log.read_text()[-2000:]}")
                time.sleep(0.02)

    def kill(self) -> None:
        """Kill it at once. May be called again."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def freeze(self) -> None:
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        assert self._process is not None
        self._process.send_signal(signal.SIGCONT)

    def stop(self) -> int:
        """Stop it as an operator does; return the exit status."""
        assert self._process is not None
        self._process.terminate()
        return self._process.wait(HANG_S)

    @property
    def log_bytes(self) -> int:
        """The size of what it has logged."""
        return self._log.stat().st_size

    # What it takes --------------------------------------------------------------------------------

    def memory(self) -> tuple[int, int]:
        """Return the resident bytes: all, and anonymous ones."""
        assert self._process is not None
        wanted = {"VmRSS": 0, "RssAnon": 0}
        for line in Path(f"/proc/{self._process.pid}/status").read_text().splitlines():
            name, _, value = line.partition(":")
            if name in wanted:
                wanted[name] = int(value.split()[0]) * 1024
        return wanted["VmRSS"], wanted["RssAnon"]

    def descriptors(self) -> int:
        """Return the number of open descriptors."""
        assert self._process is not None
        return sum(1 for _ in Path(f"/proc/{self._process.pid}/fd").iterdir())

    def cpu_seconds(self) -> float:
        assert self._process is not None
        user, system = Path(f"/proc/{self._process.pid}/stat").read_text().rpartition(")")[2].split()[11:13]
        return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")
