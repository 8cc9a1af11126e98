"""NATS JetStream through its Python client, if installed.

Install with ``apt install nats-server`` and ``pip install nats-py``.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import importlib.util
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from typing import Any, Final

from litemq.bench.clusters import free_port
from litemq.errors import LiteMQError

__all__ = ["fetch_and_ack_rate", "is_installed"]

_BATCH: Final = 100
_SEND_BATCH: Final = 500
_TIMEOUT_S: Final = 20.0


def _server() -> str | None:
    return shutil.which("nats-server", path=os.pathsep.join([os.environ.get("PATH", ""), "/usr/sbin"]))


def is_installed() -> bool:
    """Return whether the server and its client are installed."""
    return _server() is not None and importlib.util.find_spec("nats") is not None


@contextlib.contextmanager
def _running() -> Iterator[int]:
    with tempfile.TemporaryDirectory(prefix="litemq-bench-") as folder:
        port = free_port()
        command = [_server() or "nats-server", "-js", "-sd", folder, "-a", "127.0.0.1", "-p", str(port)]
        with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:  # noqa: S603
            try:
                yield port
            finally:
                process.terminate()
                process.wait(timeout=_TIMEOUT_S)


async def _connected(port: int) -> Any:
    nats = importlib.import_module("nats")
    until = time.monotonic() + _TIMEOUT_S
    while time.monotonic() < until:
        try:
            _, writer = await asyncio.open_connection("127.0.0.1", port)
        except OSError:
            await asyncio.sleep(0.05)
        else:
            writer.close()
            return await nats.connect(f"nats://127.0.0.1:{port}")
    raise LiteMQError("nats-server did not start")


def fetch_and_ack_rate(messages: int, body: bytes) -> float:
    """Measure messages per second: fetch ``_BATCH`` at a time, acknowledge each."""

    async def measure(port: int) -> float:
        connection = await _connected(port)
        stream = connection.jetstream()
        await stream.add_stream(name="orders", subjects=["orders"])
        for _ in range(0, messages, _SEND_BATCH):
            await asyncio.gather(*(stream.publish("orders", body) for _ in range(_SEND_BATCH)))
        subscription = await stream.pull_subscribe("orders", durable="bench")
        begin, done = time.perf_counter(), 0
        while done < messages:
            for message in await subscription.fetch(_BATCH, timeout=_TIMEOUT_S):
                await message.ack()
                done += 1
        await connection.flush()
        took = time.perf_counter() - begin
        await connection.close()
        return done / took

    with _running() as port:
        return asyncio.run(measure(port))
