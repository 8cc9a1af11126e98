"""Replication workload: a group beside a single broker, and how far its followers lag."""

from __future__ import annotations

import asyncio
import secrets
import time
from array import array
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

import numpy as np

from litemq import AsyncClient, SendReceipt
from litemq.bench.baselines.cpu_time import cpu_seconds
from litemq.bench.clusters import running_brokers
from litemq.bench.replica_group import running_group
from litemq.bench.workloads.group_watch import watching
from litemq.bench.workloads.load import LoadResult, measure_latency, measure_send
from litemq.client.config import ClientConfig
from litemq.errors import LiteMQError
from litemq.net.event_loop import run

__all__ = ["Compared", "Lag", "Loaded"]

_TOPIC: Final = "bench"
_BODY_BYTES: Final = 1024
_AWAITING: Final = 1024
_STEADY_RATE: Final = 2_000
_LAG_RATE: Final = 10_000
_TURN_S: Final = 0.002


@dataclass(frozen=True, slots=True)
class Loaded:
    """The figures of one cluster: at full load, and at a steady rate."""

    rate: float = 1.0  # msg/s
    p99_ms: float = 1.0  # from a send to its receipt
    cpu_us: float = 1.0  # of all brokers, per message
    steady_p50_ms: float = 1.0  # end to end
    steady_p99_ms: float = 1.0


@contextmanager
def _cluster(level: str) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Run a single broker for the level ``disk``, or a group; yield the URL and process ids."""
    if level == "disk":
        with running_brokers(1) as brokers:
            yield brokers.url, brokers.pids
        return
    with running_group() as group:

        async def prepare() -> None:
            async with watching(group):
                pass  # until all are in sync

        run(prepare())
        yield group.url, tuple(replica.pid for replica in group.replicas.values())


class Compared:
    """The same load on a single broker, level ``disk``, and on a group, level ``replicas``."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self.last = {"disk": Loaded(), "replicas": Loaded()}

    def rate(self, level: str) -> float:
        """Measure the cluster of ``level``, and return its rate at full load."""
        with _cluster(level) as (url, pids):
            before = [cpu_seconds(pid) for pid in pids]
            sent = run(self._send(url, level))
            cpu = sum(cpu_seconds(pid) for pid in pids) - sum(before)
            steady = run(
                measure_latency(
                    url, rate=_STEADY_RATE, size=_BODY_BYTES, seconds=self._seconds, durability=level, topic=_TOPIC
                )
            )
        for result in (sent, steady):
            _check(result)
        found = Loaded(sent.messages_per_s, (sent.latency_ms or {}).get(99.0, 0.0), 1e6 * cpu / sent.messages)
        latency = steady.latency_ms or {}
        self.last[level] = replace(found, steady_p50_ms=latency[50.0], steady_p99_ms=latency[99.0])
        return sent.messages_per_s

    async def _send(self, url: str, level: str) -> LoadResult:
        async with AsyncClient(url) as mq:
            await mq.admin.create_topic(_TOPIC, queues=4)
        return await measure_send(
            url,
            topic=_TOPIC,
            connections=1,
            in_flight=_AWAITING,
            size=_BODY_BYTES,
            seconds=self._seconds,
            durability=level,
            settings={"max_batch_messages": ClientConfig().max_batch_messages},
        )

    def ratio(self, of: Callable[[Loaded], float]) -> float:
        """Return the group's figure, compared with that of the single broker."""
        return of(self.last["replicas"]) / of(self.last["disk"])


def _check(result: LoadResult) -> None:
    if result.failed or result.missing:
        raise LiteMQError(f"{result.failed} messages failed and {result.missing} are missing: {result.first_error}")


class Lag:
    """How far the slowest in-sync follower is behind its master, under 10,000 msg/s.

    Messages are sent in pairs, by two clients. The master acknowledges the one of level ``disk``
    when its own disk has it, the one of level ``replicas`` when the disks of all replicas have it:
    the followers lag by the time, and by the bytes, between these two.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._ms = np.zeros(1)
        self._pairs = np.zeros(1)

    def p50_ms(self) -> float:
        """Measure, and return the median lag in milliseconds."""
        with running_group() as group:

            async def measure() -> None:
                async with (
                    watching(group),
                    AsyncClient(group.url, durability="disk") as disk,
                    AsyncClient(group.url, durability="replicas") as replicas,
                ):
                    await disk.admin.create_topic(_TOPIC, queues=4)
                    await self._measure(disk, replicas)

            run(measure())
        return self.ms(50)

    def ms(self, percent: float) -> float:
        """Return a percentile of the lag in milliseconds."""
        return float(np.percentile(self._ms, percent))

    def kb(self, percent: float) -> float:
        """Return a percentile of the lag in kB of messages."""
        return float(np.percentile(self._pairs, percent)) * 2 * _BODY_BYTES / 1000

    async def _measure(self, *clients: AsyncClient) -> None:
        body = secrets.token_bytes(_BODY_BYTES)
        lags, behind = array("d"), array("q")
        on_disk = replicated = 0

        def note(times: list[float], at: int, future: asyncio.Future[SendReceipt]) -> None:
            nonlocal on_disk, replicated
            future.result()
            times[at] = time.perf_counter()
            on_disk, replicated = on_disk + (at == 0), replicated + (at == 1)
            if at == 1:
                behind.append(max(0, on_disk - replicated))
            if all(times):
                lags.append(1000 * max(0.0, times[1] - times[0]))

        def send() -> None:
            times = [0.0, 0.0]
            for at, mq in enumerate(clients):
                future = mq.send_nowait(_TOPIC, body)
                future.add_done_callback(partial(note, times, at))

        begin, sent = time.perf_counter(), 0
        while (elapsed := time.perf_counter() - begin) < self._seconds:
            while sent < elapsed * _LAG_RATE / 2:
                send()
                sent += 1
            await asyncio.sleep(_TURN_S)
        for mq in clients:
            await mq.flush()
        await asyncio.sleep(0)  # until the last callbacks have run
        self._ms, self._pairs = np.frombuffer(lags), np.frombuffer(behind, np.int64)
