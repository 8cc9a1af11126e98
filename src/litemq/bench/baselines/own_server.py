"""A server of a benchmark, in a process of its own."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final, NamedTuple

__all__ = ["OwnServer", "running"]

_STOP_S: Final = 60.0


class OwnServer(NamedTuple):
    """The process id and the port of a running server."""

    pid: int
    port: int


@contextmanager
def running(serve: Callable[[], None]) -> Iterator[OwnServer]:
    """Run the function ``serve`` of a module, which prints its port, until the block ends."""
    command = [sys.executable, "-c", f"from {serve.__module__} import {serve.__name__} as serve; serve()"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:  # noqa: S603
        try:
            yield OwnServer(process.pid, int(process.stdout.readline()) if process.stdout is not None else 0)
        finally:
            process.terminate()
            process.wait(timeout=_STOP_S)
