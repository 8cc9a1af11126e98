"""Several ``litemq worker`` processes of one module, each killed and restarted now and then."""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from litemq.client.async_client import AsyncClient
from litemq.errors import LiteMQError
from support.chaos_length import SETTLE_S


class WorkerProcesses:
    """Workers of ``support.<module>:mq``. They append what they did to ``record``, line by line."""

    def __init__(self, module: str, url: str, directory: Path, count: int) -> None:
        self.record = directory / "record"
        self.record.touch()
        self._target = f"support.{module}:mq"
        self._directory = directory
        self._count = count
        self._environment = {**os.environ, "LITEMQ_URL": url, "RECORD_FILE": str(self.record)}
        self._processes: list[subprocess.Popen[bytes]] = []

    @contextlib.contextmanager
    def running(self) -> Iterator[None]:
        try:
            self._processes = [self._start() for _ in range(self._count)]
            yield
        finally:
            for process in self._processes:
                process.kill()
                process.wait()

    def _start(self) -> subprocess.Popen[bytes]:
        with (self._directory / "workers.log").open("ab") as log:
            return subprocess.Popen(
                [sys.executable, "-m", "litemq", "worker", self._target],
                env=self._environment,
                cwd=Path(__file__).parent.parent,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )

    def kill_one(self) -> None:
        number = random.randrange(self._count)
        self._processes[number].kill()
        self._processes[number].wait()
        self._processes[number] = self._start()

    def lines(self) -> list[str]:
        """Return the record so far. A line is written completely, also if its worker is killed."""
        return self.record.read_text().splitlines()


async def drained(mq: AsyncClient, group: str) -> None:
    """Wait until no message of ``group`` is left, in flight or to be retried."""
    until = time.monotonic() + SETTLE_S
    last: object = None
    while time.monotonic() < until:
        with contextlib.suppress(LiteMQError):
            last = facts = await mq.admin.describe_group(group)
            if facts.lag == facts.waiting_tries == 0:
                return
        await asyncio.sleep(0.2)
    raise AssertionError(f"not drained within {SETTLE_S:g} s: {last}")
