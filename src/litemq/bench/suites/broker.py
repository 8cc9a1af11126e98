"""``litemq bench suite broker``: send and consume rates and latencies of a broker.

Each figure has its own cluster, started with ``litemq up`` on free ports, with its data in the
temporary directory (``TMPDIR``). The load comes from this process through the public client, so
both share the machine's processors. Bodies have 1 KiB.
"""

from __future__ import annotations

import asyncio
import secrets
import subprocess
import sys
import time
from collections.abc import Callable, Coroutine
from typing import Any, Final

from litemq.bench.baselines.bare import bare_sync_p99
from litemq.bench.clusters import running_cluster
from litemq.bench.suite import Figure, at_least, at_most
from litemq.bench.workloads.load import LoadResult, measure_consume, measure_latency, measure_send
from litemq.errors import LiteMQError
from litemq.net.client import Peer
from litemq.net.event_loop import run
from litemq.net.frame import Frame
from litemq.net.sent_answers import pack_sent_answer
from litemq.net.server import FrameServer, Session

__all__ = ["figures"]

_SECONDS: Final = 8.0
_CONNECTIONS: Final = 8
_IN_FLIGHT: Final = 32
_RATE: Final = 10_000
_BODY_BYTES: Final = 1024
_START_S: Final = 60.0


def figures(scale: float) -> list[Figure]:
    """Return the figures of a broker; ``scale`` shortens each measurement."""
    seconds = max(0.3, _SECONDS * scale)
    memory = _SendRate("memory", seconds)
    disk = _SendRate("disk", seconds)
    bare = _BareFrameServer(seconds)
    latency = _Latency(seconds)
    return [
        Figure(
            "send_memory",
            "one message per request, 8 connections × 32 in flight, level memory",
            "msg/s",
            memory.rate,
            at_least(100_000),
        ),
        Figure("send_memory_p99", "p99 latency of the same", "ms", lambda: memory.p99, at_most(10)),
        Figure("send_disk", "the same, level disk", "msg/s", disk.rate, at_least(80_000)),
        Figure("send_disk_p99", "p99 latency of the same", "ms", lambda: disk.p99),
        Figure("bare_frames", "the same frames to a server that only answers", "msg/s", bare.rate),
        Figure("send_over_bare", "send_memory / bare_frames", "×", lambda: memory.last / bare.last),
        Figure(
            "send_nowait",
            "send_nowait, automatic batching, level memory",
            "msg/s",
            lambda: _send_nowait(seconds),
            at_least(200_000),
        ),
        Figure(
            "consume",
            "async for, warm, decoded and acknowledged",
            "msg/s",
            lambda: _consume(seconds),
            at_least(150_000),
        ),
        Figure(
            "end_to_end_p99", "from send to async for, steady 10,000 msg/s, level disk", "ms", latency.p99, at_most(3)
        ),
        Figure("end_to_end_p50", "median of the same", "ms", lambda: latency.p50),
        Figure(
            "bare_sync_p99",
            "disk only: 12 KiB written and synced every millisecond",
            "ms",
            lambda: bare_sync_p99(seconds),
        ),
    ]


def _with_cluster(load: Callable[[str], Coroutine[Any, Any, LoadResult]]) -> LoadResult:
    with running_cluster() as url:
        result = run(load(url))
    if result.failed or result.missing:
        raise LiteMQError(f"{result.failed} messages failed and {result.missing} are missing: {result.first_error}")
    return result


class _SendRate:
    """The rate of sends, with one message per request."""

    def __init__(self, level: str, seconds: float) -> None:
        self._level = level
        self._seconds = seconds
        self.last = self.p99 = 0.0

    def rate(self) -> float:
        result = _with_cluster(
            lambda url: measure_send(
                url,
                connections=_CONNECTIONS,
                in_flight=_IN_FLIGHT,
                size=_BODY_BYTES,
                seconds=self._seconds,
                durability=self._level,
            )
        )
        self.last = result.messages_per_s
        self.p99 = (result.latency_ms or {}).get(99.0, 0.0)
        return self.last


def _send_nowait(seconds: float) -> float:
    result = _with_cluster(
        lambda url: measure_send(
            url, connections=1, in_flight=_IN_FLIGHT, size=_BODY_BYTES, seconds=seconds, durability="memory", batch=True
        )
    )
    return result.messages_per_s


def _consume(seconds: float) -> float:
    async def load(url: str) -> LoadResult:
        sent = await measure_send(
            url,
            connections=1,
            in_flight=_IN_FLIGHT,
            size=_BODY_BYTES,
            seconds=seconds / 2,
            durability="memory",
            batch=True,
        )
        # Once to warm the caches, once to measure.
        await measure_consume(url, messages=sent.messages)
        return await measure_consume(url, messages=sent.messages)

    return _with_cluster(load).messages_per_s


class _Latency:
    """End-to-end latency at a steady rate."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self.p50 = 0.0

    def p99(self) -> float:
        result = _with_cluster(
            lambda url: measure_latency(url, rate=_RATE, size=_BODY_BYTES, seconds=self._seconds, durability="disk")
        )
        latency = result.latency_ms or {}
        self.p50 = latency.get(50.0, 0.0)
        return latency.get(99.0, 0.0)


class _BareFrameServer:
    """A server that only answers frames: the limit of the network layer."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self.last = 1.0

    def rate(self) -> float:
        command = [sys.executable, "-c", "from litemq.bench.suites.broker import answer_frames; answer_frames()"]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:  # noqa: S603
            try:
                port = int(process.stdout.readline()) if process.stdout is not None else 0
                self.last = run(_ask_frames(port, self._seconds))
            finally:
                process.terminate()
                process.wait(timeout=_START_S)
        return self.last


def answer_frames() -> None:
    """Run a server that answers each request like a broker, and print its port."""
    answer = pack_sent_answer(1, 1)

    def handle(session: Session, frames: list[Frame]) -> None:
        for frame in frames:
            session.answer(frame, answer)

    async def serve() -> None:
        server = FrameServer(handle, software="bare")
        _, port = await server.start("127.0.0.1", 0)
        print(port, flush=True)  # noqa: T201
        await asyncio.get_running_loop().create_future()

    run(serve())


async def _ask_frames(port: int, seconds: float) -> float:
    record = secrets.token_bytes(_BODY_BYTES + 200)
    done = 0

    async def ask(peer: Peer, until: float) -> None:
        nonlocal done
        while time.perf_counter() < until:
            await peer.ask(16, b"header", record)
            done += 1

    peers = [await Peer.connect("127.0.0.1", port, client_id="bench") for _ in range(_CONNECTIONS)]
    begin = time.perf_counter()
    await asyncio.gather(*(ask(peer, begin + seconds) for peer in peers for _ in range(_IN_FLIGHT)))
    rate = done / (time.perf_counter() - begin)
    for peer in peers:
        peer.close()
    return rate
