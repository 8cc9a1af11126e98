"""NameServers and brokers in processes of their own: to be killed, frozen and started again under their old address."""

from __future__ import annotations

import os
import random
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Final, Self

from support.waiting import HANG_S

_READY_WITHIN_S: Final = HANG_S
# A command of ours that ends with whoever started it.
_PROGRAM: Final = """
import ctypes, os, signal, sys
ctypes.CDLL(None).prctl(1, signal.SIGKILL)
os.execv(sys.executable, [sys.executable, "-m", "litemq", *sys.argv[1:]])
"""


def free_port() -> int:
    """A port that nobody listens on, and that no outgoing connection is given: a server that comes back finds it free."""
    while True:
        port = random.randrange(20_000, 32_000)
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port


class ServerProcess:
    """One server: ``litemq broker`` or ``litemq nameserver``, with flags. It ends with the block that it was made for."""

    def __init__(self, command: str, log: Path, **flags: object) -> None:
        self.port = free_port()
        self.starts: list[float] = []  # how long each took until it answered, in seconds
        self._log = log
        self._arguments = [command, f"--port={self.port}"]
        self._arguments += [f"--{name.replace('_', '-')}" + ("" if value is True else f"={value}") for name, value in flags.items()]
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        self.start()
        self.wait_ready()
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
        """Begin; it is not ready yet. From the main thread only: with the thread that starts it, it ends."""
        assert not self.is_running
        self._began, self._answered = time.monotonic(), False
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-c", _PROGRAM, *self._arguments], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=log
            )

    @property
    def is_ready(self) -> bool:
        """Whether somebody listens."""
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

    def kill(self) -> None:
        """At once, and as often as one likes."""
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
        """As an operator does; gives the exit status."""
        assert self._process is not None
        self._process.terminate()
        return self._process.wait(HANG_S)

    # What it takes ------------------------------------------------------------------------------------------------------------

    def memory(self) -> tuple[int, int]:
        """Resident bytes: all, and those of no file, which only this process can give back."""
        assert self._process is not None
        wanted = {"VmRSS": 0, "RssAnon": 0}
        for line in Path(f"/proc/{self._process.pid}/status").read_text().splitlines():
            name, _, value = line.partition(":")
            if name in wanted:
                wanted[name] = int(value.split()[0]) * 1024
        return wanted["VmRSS"], wanted["RssAnon"]

    def cpu_seconds(self) -> float:
        assert self._process is not None
        user, system = Path(f"/proc/{self._process.pid}/stat").read_text().rpartition(")")[2].split()[11:13]
        return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")
