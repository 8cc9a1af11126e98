"""``litemq bench suite broker``: send and consume rates and latencies of a broker.

Each figure has its own cluster, started with ``litemq up`` on free ports, with its data in the
temporary directory (``TMPDIR``). The load comes from this process through the public client, so
both share the machine's processors. Bodies have 1 KiB.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, Final

from litemq import Client
from litemq.bench.baselines.bare import bare_sync_p99
from litemq.bench.baselines.bare_loop import measure_bare_loop
from litemq.bench.baselines.cpu_time import count_wakeups, cpu_seconds
from litemq.bench.baselines.own_server import running
from litemq.bench.clusters import running_broker, running_brokers, running_cluster
from litemq.bench.suite import Figure, at_least, at_most
from litemq.bench.workloads import held_disk
from litemq.bench.workloads.load import (
    PERCENTILES,
    LoadResult,
    measure_batches,
    measure_consume,
    measure_latency,
    measure_send,
)
from litemq.client.config import ClientConfig
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
_AWAITING: Final = 1024
_BATCH: Final = 500
_STEADY_RATE: Final = 2_000
_BUSY_RATE: Final = 10_000
_BROKER_RATE: Final = 5_000
_BODY_BYTES: Final = 1024
_SETTLED_S: Final = 4.0
_HEARTBEATS_S: Final = 2.5  # some, once a second
_HELD_UP_S: Final = 1.0  # at least one time


def figures(scale: float) -> list[Figure]:
    """Return the figures of a broker; ``scale`` shortens each measurement."""
    seconds = max(0.3, _SECONDS * scale)
    return [
        *_steady_rates(seconds),
        *_one_per_request(seconds),
        *_throughput(seconds),
        *_more_cores(seconds),
        *_idle(seconds),
    ]


def _steady_rates(seconds: float) -> list[Figure]:
    steady, bare, busy = _Steady(_STEADY_RATE, seconds), _BareLoop(seconds), _Steady(_BUSY_RATE, seconds)
    received = _Steady(_STEADY_RATE, seconds, received=True)
    held_up = _Steady(_STEADY_RATE, max(seconds, _HELD_UP_S), received=True, module=held_disk.__name__)
    return [
        Figure(
            "steady_broker_cpu",
            "broker's CPU per message, steady 2,000 msg/s, level disk",
            "µs",
            steady.broker_cpu,
            at_most(140),
        ),
        Figure("steady_client_cpu", "client's CPU per message of the same", "µs", lambda: steady.client, at_most(60)),
        Figure("steady_p50", "end to end of the same, p50", "ms", lambda: steady.latency[50.0], at_most(1.2)),
        Figure("steady_p99", "the same, p99", "ms", lambda: steady.latency[99.0], at_most(4)),
        Figure("steady_p99.9", "the same, p99.9", "ms", lambda: steady.latency[99.9], at_most(15)),
        Figure("bare_loop_cpu", "CPU of a bare loop: read, write, sync, answer, pass on", "µs", bare.cpu),
        Figure("bare_loop_p50", "end to end of the bare loop, p50", "ms", lambda: bare.p50),
        Figure("bare_loop_p99", "the same, p99", "ms", lambda: bare.p99),
        Figure(
            "broker_cpu_over_bare",
            "steady_broker_cpu / bare_loop_cpu",
            "×",
            lambda: steady.broker / bare.last,
            at_most(2),
        ),
        Figure("p50_over_bare", "steady_p50 / bare_loop_p50", "×", lambda: steady.latency[50.0] / bare.p50, at_most(2)),
        Figure("busy_p99", "end to end, p99, steady 10,000 msg/s, level disk", "ms", busy.p99, at_most(5)),
        Figure("busy_p50", "the same, p50", "ms", lambda: busy.latency[50.0]),
        Figure(
            "received_broker_cpu",
            "broker's CPU per message, 2,000 msg/s, level memory, visibility received",
            "µs",
            received.broker_cpu,
            at_most(70),
        ),
        Figure("received_client_cpu", "client's CPU per message of the same", "µs", lambda: received.client),
        Figure("received_p50", "end to end of the same, p50", "ms", lambda: received.latency[50.0]),
        Figure("received_p99", "the same, p99", "ms", lambda: received.latency[99.0]),
        Figure(
            "held_up_p99",
            "the same with a disk that is held up for 100 ms in each second",
            "ms",
            held_up.p99,
            at_most(5),
        ),
        Figure(
            "bare_sync_p99",
            "disk only: 12 KiB written and synced every millisecond",
            "ms",
            lambda: bare_sync_p99(seconds),
        ),
    ]


def _one_per_request(seconds: float) -> list[Figure]:
    memory, disk, bare = _SendRate("memory", seconds), _SendRate("disk", seconds), _BareFrameServer(seconds)
    return [
        Figure(
            "send_memory",
            "one message per request, 8 connections × 32 in flight, level memory",
            "msg/s",
            memory.rate,
            at_least(100_000),
        ),
        Figure("send_memory_p99", "p99 latency of the same", "ms", lambda: memory.p99, at_most(8)),
        Figure("send_disk", "the same, level disk", "msg/s", disk.rate, at_least(80_000)),
        Figure("send_disk_p99", "p99 latency of the same", "ms", lambda: disk.p99),
        Figure("bare_frames", "the same frames to a server that only answers", "msg/s", bare.rate),
        Figure("send_over_bare", "send_memory / bare_frames", "×", lambda: memory.last / bare.last, at_least(0.5)),
    ]


def _throughput(seconds: float) -> list[Figure]:
    return [
        Figure(
            "awaited_memory",
            "1,024 tasks that await each send, default settings, level memory",
            "msg/s",
            lambda: _awaited("memory", seconds),
            at_least(150_000),
        ),
        Figure("awaited_disk", "the same, level disk", "msg/s", lambda: _awaited("disk", seconds), at_least(120_000)),
        Figure(
            "send_nowait",
            "send_nowait, automatic batching, level memory",
            "msg/s",
            lambda: _send_nowait(seconds),
            at_least(400_000),
        ),
        Figure(
            "consume",
            "async for, warm, decoded and acknowledged",
            "msg/s",
            lambda: _consume(seconds),
            at_least(400_000),
        ),
        Figure(
            "consume_batches",
            "the same, taken and acknowledged 500 at a time",
            "msg/s",
            lambda: _consume(seconds, at_once=_BATCH),
            at_least(700_000),
        ),
    ]


def _more_cores(seconds: float) -> list[Figure]:
    one, two = (_Steady(count * _BROKER_RATE, seconds, brokers=count) for count in (1, 2))
    return [
        Figure("one_broker_cpu", "broker's CPU per message, one broker, 5,000 msg/s, level disk", "µs", one.broker_cpu),
        Figure("two_brokers_cpu", "the same of two brokers together, 10,000 msg/s", "µs", two.broker_cpu),
        Figure("two_over_one", "two_brokers_cpu / one_broker_cpu", "×", lambda: two.broker / one.broker, at_most(1.1)),
    ]


def _idle(seconds: float) -> list[Figure]:
    idle = _Idle(seconds)
    return [
        Figure("idle_wakeups", "wake-ups of an idle broker's threads; heartbeats need one or two", "1/s", idle.wakeups),
        Figure("idle_cpu", "CPU of the same", "%", lambda: idle.cpu_percent),
        Figure("idle_memory", "resident memory of the same", "MB", lambda: idle.megabytes),
    ]


def _with_cluster(load: Callable[[str], Coroutine[Any, Any, LoadResult]]) -> LoadResult:
    with running_cluster() as url:
        result = run(load(url))
    _check(result)
    return result


def _check(result: LoadResult) -> None:
    if result.failed or result.missing:
        raise LiteMQError(f"{result.failed} messages failed and {result.missing} are missing: {result.first_error}")


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


def _awaited(level: str, seconds: float) -> float:
    result = _with_cluster(
        lambda url: measure_send(
            url,
            connections=1,
            in_flight=_AWAITING,
            size=_BODY_BYTES,
            seconds=seconds,
            durability=level,
            settings={"max_batch_messages": ClientConfig().max_batch_messages},
        )
    )
    return result.messages_per_s


def _send_nowait(seconds: float) -> float:
    result = _with_cluster(
        lambda url: measure_send(
            url, connections=1, in_flight=_IN_FLIGHT, size=_BODY_BYTES, seconds=seconds, durability="memory", batch=True
        )
    )
    return result.messages_per_s


def _consume(seconds: float, *, at_once: int = 0) -> float:
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
        if at_once:
            return await measure_batches(url, messages=sent.messages, at_once=at_once)
        return await measure_consume(url, messages=sent.messages)

    return _with_cluster(load).messages_per_s


class _Steady:
    """CPU time and end-to-end latency at a steady rate.

    At level disk, to a reader; or at level memory, to a consumer of a topic with the visibility
    ``received``.
    """

    def __init__(
        self, rate: float, seconds: float, *, received: bool = False, module: str = "litemq", brokers: int = 1
    ) -> None:
        self._rate = rate
        self._brokers = brokers
        self._seconds = seconds
        self._received = received
        self._module = module
        self.client = self.broker = 0.0
        self.latency: Mapping[float, float] = dict.fromkeys(PERCENTILES, 0.0)

    def broker_cpu(self) -> float:
        self._measure()
        return self.broker

    def p99(self) -> float:
        self._measure()
        return self.latency[99.0]

    def _measure(self) -> None:
        with running_brokers(self._brokers, self._module) as (url, pids):
            with Client(url) as mq:
                mq.admin.create_topic("bench", visibility="received" if self._received else "confirmed")
            result = run(
                measure_latency(
                    url,
                    rate=self._rate,
                    size=_BODY_BYTES,
                    seconds=self._seconds,
                    durability="memory" if self._received else "disk",
                    broker_pids=pids,
                    group_id="bench" if self._received else "",
                )
            )
        _check(result)
        self.client, self.broker = result.client_cpu_us, result.broker_cpu_us
        self.latency = result.latency_ms or self.latency


class _Idle:
    """What a broker without clients costs, once it has settled."""

    def __init__(self, seconds: float) -> None:
        self._seconds = max(seconds, _HEARTBEATS_S)
        self.cpu_percent = self.megabytes = 0.0

    def wakeups(self) -> float:
        with running_broker() as broker:
            time.sleep(min(_SETTLED_S, self._seconds))
            cpu, wakeups = cpu_seconds(broker.pid), count_wakeups(broker.pid)
            time.sleep(self._seconds)
            self.cpu_percent = 100 * (cpu_seconds(broker.pid) - cpu) / self._seconds
            self.megabytes = broker.resident_bytes / 1e6
            return (count_wakeups(broker.pid) - wakeups) / self._seconds


class _BareLoop:
    """The same load on a loop that does no more than it must."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self.last = self.p50 = self.p99 = 1.0

    def cpu(self) -> float:
        self.last, self.p50, self.p99 = measure_bare_loop(_STEADY_RATE, _BODY_BYTES, self._seconds)
        return self.last


class _BareFrameServer:
    """A server that only answers frames: the limit of the network layer."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self.last = 1.0

    def rate(self) -> float:
        with running(answer_frames) as server:
            self.last = run(_ask_frames(server.port, self._seconds))
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
