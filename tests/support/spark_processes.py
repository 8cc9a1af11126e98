"""Spark processes to be killed: a driver with its child processes, and a cluster on loopback."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple, Self

from support.processes import free_port
from support.waiting import HANG_S

__all__ = ["EndedError", "SparkCluster", "SparkDriver", "SparkProcess", "spark_environment"]

_SUPPORT: Final = Path(__file__).parent
# The process ends with its parent, and its children end with it: Java when its pipe breaks, Python
# workers when Java is gone.
_PROGRAM: Final = """
import ctypes, os, signal, sys
ctypes.CDLL(None).prctl(1, signal.SIGKILL)
os.execv(sys.argv[1], sys.argv[1:])
"""


class Process(NamedTuple):
    """A running process."""

    pid: int
    arguments: str

    @property
    def kind(self) -> str:
        """The role of the process in Spark."""
        if "CoarseGrainedExecutorBackend" in self.arguments:
            return "executor"
        if "org.apache.spark.deploy" in self.arguments:
            return "jvm"
        if "pyspark/daemon" in self.arguments or "pyspark.daemon" in self.arguments:
            return "worker"  # the daemon that forks them, and they
        return "python"


def spark_environment(**more: str) -> dict[str, str]:
    """Return an environment for Spark on loopback; Python finds this project and fail points."""
    import pyspark

    paths = [str(_SUPPORT / "spark_points"), str(_SUPPORT.parent), *filter(None, sys.path)]
    return {
        **os.environ,
        "SPARK_HOME": str(Path(pyspark.__file__).parent),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_MASTER_OPTS": "-Dspark.master.rest.enabled=false",
        "PYSPARK_PYTHON": sys.executable,
        "PYTHONPATH": os.pathsep.join(dict.fromkeys(paths)),
        **more,
    }


class EndedError(AssertionError):
    """A process has ended that should run."""


class SparkProcess:
    """A command in a session of its own, by which all its child processes are found."""

    def __init__(self, command: Sequence[str], log: Path, environment: Mapping[str, str]) -> None:
        self.log = log
        with log.open("ab") as output:
            self._process = subprocess.Popen(
                [sys.executable, "-c", _PROGRAM, *command],
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exception: object) -> None:
        self.kill()

    @property
    def is_running(self) -> bool:
        return self._process.poll() is None

    def processes(self) -> list[Process]:
        return list(_of_session(self._process.pid))

    def kill(self) -> None:
        """Kill all processes at once, as when a host fails; wait until they are gone."""
        while found := self.processes():
            for process in found:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(process.pid, signal.SIGKILL)
            self._process.poll()  # or it stays as a zombie, which is still found
        self._process.wait()

    def kill_one(self, kind: str) -> bool:
        """Kill one process of a kind; return whether there was one."""
        found = [process for process in self.processes() if process.kind == kind]
        if found:
            with contextlib.suppress(ProcessLookupError):
                os.kill(random.choice(found).pid, signal.SIGKILL)
        return bool(found)

    def wait(self, within: float) -> int:
        """Wait for the end; return the exit status."""
        try:
            return self._process.wait(within)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"it still runs after {within:g} s: {self.tail()}") from None

    def stop(self, within: float = HANG_S) -> int:
        """Stop it as an operator does; return the exit status."""
        self._process.terminate()
        return self.wait(within)

    def wait_for(self, text: str, within: float, count: int = 1) -> None:
        """Wait until it has printed a text ``count`` times."""
        until = time.monotonic() + within
        while self.log.read_text(errors="replace").count(text) < count:
            if not self.is_running:
                raise EndedError(f"it has ended without {text!r}: {self.tail()}")
            assert time.monotonic() < until, f"no {text!r} within {within:g} s: {self.tail()}"
            time.sleep(0.05)

    def tail(self, size: int = 4000) -> str:
        return self.log.read_text(errors="replace")[-size:]


def _of_session(session: int) -> Iterator[Process]:
    for entry in Path("/proc").iterdir():
        if not entry.name.isdecimal():
            continue
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            state, _, _, sid = (entry / "stat").read_text().rpartition(")")[2].split()[:4]
            if int(sid) == session and state != "Z":
                yield Process(
                    int(entry.name), (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
                )


class SparkDriver(SparkProcess):
    """A driver: a Python program of ours, or a module, that makes a session by itself."""

    def __init__(self, arguments: Sequence[str], log: Path, **environment: str) -> None:
        if "LITEMQ_TEST_KILL_COUNT" in environment:  # each driver counts from the start
            Path(environment["LITEMQ_TEST_KILL_COUNT"]).unlink(missing_ok=True)
        super().__init__([sys.executable, *arguments], log, spark_environment(**environment))


class SparkCluster:
    """Spark standalone: a master and workers with one core each, all on loopback."""

    def __init__(self, folder: Path, workers: int = 2) -> None:
        self._folder = folder
        self._count = workers
        self._port = free_port()
        self._stack = contextlib.ExitStack()
        self.workers: list[SparkProcess] = []

    @property
    def url(self) -> str:
        return f"spark://127.0.0.1:{self._port}"

    def __enter__(self) -> Self:
        with contextlib.ExitStack() as stack:
            master = stack.enter_context(self._start("master.Master", "--port", str(self._port), log="master.log"))
            self.workers = [
                stack.enter_context(
                    self._start(
                        "worker.Worker",
                        *(
                            "--cores",
                            "1",
                            "--memory",
                            "1g",
                            "--work-dir",
                            str(self._folder / f"work-{number}"),
                            self.url,
                        ),
                        log=f"worker-{number}.log",
                    )
                )
                for number in range(self._count)
            ]
            master.wait_for("Registering worker", within=120, count=self._count)
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_exception: object) -> None:
        self._stack.close()

    def kill_executor(self) -> bool:
        """Kill one executor, but not its host."""
        return any(worker.kill_one("executor") for worker in random.sample(self.workers, len(self.workers)))

    def _start(self, name: str, *arguments: str, log: str) -> SparkProcess:
        environment = spark_environment(
            SPARK_LOCAL_DIRS=str(self._folder / "local"),
            SPARK_CONF_DIR=str(self._folder / "conf"),
            SPARK_DAEMON_MEMORY="256m",
        )
        command = [
            f"{environment['SPARK_HOME']}/bin/spark-class",
            f"org.apache.spark.deploy.{name}",
            "--host",
            "127.0.0.1",
        ]
        return SparkProcess([*command, "--webui-port", "0", *arguments], self._folder / log, environment)
