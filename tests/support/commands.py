"""The ``litemq`` command as users run it: in its own processes, on free ports."""

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from queue import Empty, Queue

from support.waiting import HANG_S

__all__ = ["Running", "environment_of_commands", "free_ports", "litemq", "running", "up", "up_environment"]


def free_ports(count: int) -> list[int]:
    """Return ports that were free a moment ago."""
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


def environment_of_commands(more: Mapping[str, str] | None) -> dict[str, str]:
    """Return the environment of a user's shell, without the settings of the developer.

    A slow machine does not make answers incomplete, and a full disk does not delete messages.
    """
    own = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith("LITEMQ_") or name.startswith("LITEMQ_BROKER_DISK_")
    }
    return own | {"LITEMQ_CLIENT_CONTACT_TIMEOUT": f"{HANG_S}s"} | dict(more or {})


def _command(arguments: tuple[str, ...]) -> list[str]:
    return [sys.executable, "-P", "-m", "litemq", *arguments]


def litemq(
    *arguments: str, cwd: Path, check: bool = True, given: bytes = b"", environment: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a command to its end."""
    done = subprocess.run(
        _command(arguments),
        cwd=cwd,
        input=given,
        capture_output=True,
        check=False,
        timeout=HANG_S,
        env=environment_of_commands(environment),
    )
    result = subprocess.CompletedProcess(done.args, done.returncode, done.stdout.decode(), done.stderr.decode())
    assert not check or result.returncode == 0, f"{arguments}: {result.returncode}\n{result.stdout}\n{result.stderr}"
    assert "Traceback" not in result.stderr
    return result


class Running:
    """A running command, and its output."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self.printed: list[str] = []
        self._lines: Queue[str | None] = Queue()  # nothing: it has ended
        self._reading = threading.Thread(target=self._read, daemon=True)
        self._reading.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self._lines.put(line.rstrip("\n"))
        self._lines.put(None)

    def wait_for(self, text: str, within: float = HANG_S) -> str:
        """Wait for the first line that contains a text, and return it."""
        until = time.monotonic() + within
        while True:
            try:
                line = self._lines.get(timeout=max(0.01, until - time.monotonic()))
            except Empty:
                raise AssertionError(f"no {text!r} within {within} s, but {self.printed}") from None
            if line is None:
                self._lines.put(None)
                raise AssertionError(f"it ended without {text!r}, but with {self.printed}")
            self.printed.append(line)
            if text in line:
                return line

    def stop(self, number: signal.Signals = signal.SIGTERM, within: float = HANG_S) -> int:
        """Send a signal, and wait for the exit code."""
        self.process.send_signal(number)
        return self.process.wait(within)

    def end(self) -> None:
        """Kill the process group if it still runs, and read its last output."""
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)  # it was started as the leader of a process group
        self._reading.join(HANG_S)

    def all_of_it(self) -> str:
        """Return all output until the end."""
        self.end()
        while not self._lines.empty():
            line = self._lines.get()
            if line is not None:
                self.printed.append(line)
        return "\n".join(self.printed)


@contextmanager
def running(*arguments: str, cwd: Path, environment: Mapping[str, str] | None = None) -> Iterator[Running]:
    """Start a command; kill it after the block if it still runs. Both outputs are read as one."""
    with subprocess.Popen(
        _command(arguments),
        cwd=cwd,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=environment_of_commands(environment),
        start_new_session=True,
    ) as process:
        command = Running(process)
        try:
            yield command
        finally:
            command.end()


def up_environment() -> dict[str, str]:
    """Return the environment in which ``litemq up`` uses free ports, and other commands find it."""
    nameserver, broker = map(str, free_ports(2))
    return {
        "LITEMQ_UP_NAMESERVER_PORT": nameserver,
        "LITEMQ_UP_PORT": broker,
        "LITEMQ_URL": f"litemq://127.0.0.1:{nameserver}",
        "LITEMQ_BROKER_FILE_SIZE": "16MiB",
    }


@contextmanager
def up(cwd: Path, *arguments: str, **variables: str) -> Iterator[tuple[Running, dict[str, str]]]:
    """Run ``litemq up`` on free ports until ready; yield it and the environment for commands."""
    environment = {**up_environment(), **variables}
    with running("up", *arguments, cwd=cwd, environment=environment) as command:
        command.wait_for("Press Ctrl-C to stop.")
        yield command, environment
