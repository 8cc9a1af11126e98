"""A peer, its client's workloads, and the measurement of one of them."""

from __future__ import annotations

import asyncio
import resource
import time
from array import array
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Final, Literal, NamedTuple, Protocol

import numpy as np

from litemq.bench.baselines.bare import bare_sync_p99
from litemq.bench.baselines.cpu_time import cpu_seconds
from litemq.errors import LiteMQError
from litemq.net.event_loop import run

__all__ = [
    "AT_ONCE",
    "AWAITING",
    "BODY",
    "LATE_S",
    "PENDING",
    "READ",
    "Load",
    "Measured",
    "Peer",
    "PeerClient",
    "Promise",
    "RunningServer",
    "Workload",
    "at_rate",
    "await_each",
    "measure",
    "send_batches",
]

Promise = Literal["memory", "disk"]  # what an acknowledged message survives: the process, or a power cut
Workload = Literal["awaited", "send_nowait", "consume", "steady"]

BODY: Final = bytes(range(256)) * 4  # 1 KiB
AWAITING: Final = 256  # sends that are awaited at the same time
AT_ONCE: Final = 256  # messages that a client sends together
PENDING: Final = 2048  # sent messages that are not acknowledged
READ: Final = 500  # messages that a client reads together
LATE_S: Final = 60.0
_TURN_S: Final = 0.001
_QUIET_MS: Final = 5.0
_QUIET_TRIES: Final = 10
_SAMPLE_S: Final = 0.3


class RunningServer(NamedTuple):
    """The address and the processes of a running server."""

    address: str
    pids: tuple[int, ...]


@dataclass(slots=True)
class Load:
    """What a workload has done."""

    messages: int
    seconds: float
    nanoseconds: array[int] = field(default_factory=lambda: array("q"))  # of each message, if they were measured
    client_s: float = 0.0  # CPU time of the client's own process, if it has one


class PeerClient(Protocol):
    """The workloads of one client library. Each connects, and disconnects at the end."""

    async def awaited(self, seconds: float, topic: str) -> Load:
        """Send to a new topic with ``AWAITING`` sends in flight, each awaited."""
        ...

    async def send_nowait(self, seconds: float) -> Load:
        """Send as fast as the client can batch; every message is acknowledged in the end."""
        ...

    async def fill(self, messages: int) -> None:
        """Send ``messages`` that ``consume`` then reads."""
        ...

    async def consume(self, messages: int) -> Load:
        """Read a backlog as a new group, and acknowledge it."""
        ...

    async def steady(self, seconds: float, rate: float) -> Load:
        """Send at a steady rate; measure each message from its scheduled time to its receipt."""
        ...


@dataclass(frozen=True, slots=True)
class Peer:
    """A message system with one of its clients and one of its settings."""

    name: str
    what: str  # versions, settings, and when a message is acknowledged
    promise: Promise
    serve: Callable[[], AbstractContextManager[RunningServer]]
    connect: Callable[[str], PeerClient]
    workloads: tuple[Workload, ...] = ("awaited", "send_nowait", "consume", "steady")
    warm_up_s: float = 1.0
    is_python: bool = True  # its client

    @property
    def is_ours(self) -> bool:
        return self.name.startswith("litemq")


class Measured(NamedTuple):
    """The rate, the CPU time per message (µs) and the latencies (ms) of a workload."""

    rate: float
    client_cpu: float
    server_cpu: float
    p50: float
    p99: float


def measure(peer: Peer, workload: Workload, amount: float, rate: float, scale: float = 1.0) -> Measured:
    """Run ``workload`` on a fresh server.

    ``amount`` is the number of messages of ``consume``, and the seconds of the others. A small
    ``scale`` shortens the warm-up.
    """
    with peer.serve() as server:
        if scale >= 1:
            _wait_until_quiet()
        warm_up = peer.warm_up_s * min(1.0, scale)
        try:
            return run(_measure(peer.connect(server.address), server, workload, amount, rate, warm_up))
        except Exception as error:
            raise LiteMQError(f"{peer.name}, {workload}: {type(error).__name__}: {error}") from error


def _wait_until_quiet() -> None:
    """Wait for a while if a bare sync is slow: the figure would be the neighbour's."""
    for _ in range(_QUIET_TRIES):
        if bare_sync_p99(_SAMPLE_S) <= _QUIET_MS:
            return
        time.sleep(1)


async def _measure(
    client: PeerClient, server: RunningServer, workload: Workload, amount: float, rate: float, warm_up: float
) -> Measured:
    await client.awaited(warm_up, "warm-up")
    if workload == "consume":
        await client.fill(int(amount))
    before, used = [cpu_seconds(pid) for pid in server.pids], _own_cpu()
    if workload == "awaited":
        load = await client.awaited(amount, "awaited")
    elif workload == "send_nowait":
        load = await client.send_nowait(amount)
    elif workload == "consume":
        load = await client.consume(int(amount))
    else:
        load = await client.steady(amount, rate)
    own = load.client_s or _own_cpu() - used
    servers = sum(cpu_seconds(pid) - begin for pid, begin in zip(server.pids, before, strict=True))
    messages = max(1, load.messages)
    times = np.frombuffer(load.nanoseconds, np.int64) / 1e6 if load.nanoseconds else np.zeros(1)
    p50, p99 = np.percentile(times, [50, 99]).tolist()
    return Measured(load.messages / load.seconds, 1e6 * own / messages, 1e6 * servers / messages, p50, p99)


def _own_cpu() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


async def await_each(seconds: float, sends: Sequence[Callable[[], Awaitable[object]]]) -> Load:
    """Call each of ``sends`` again and again, and await it each time."""
    times = array("q")
    clock = time.perf_counter_ns
    until = time.perf_counter() + seconds

    async def repeat(send: Callable[[], Awaitable[object]]) -> None:
        while time.perf_counter() < until:
            begin = clock()
            await send()
            times.append(clock() - begin)

    begin = time.perf_counter()
    await asyncio.gather(*map(repeat, sends))
    return Load(len(times), time.perf_counter() - begin, times)


async def send_batches(seconds: float, send: Callable[[], Awaitable[Awaitable[object]]]) -> Load:
    """Call ``send`` ``AT_ONCE`` times in turn, with ``PENDING`` messages not acknowledged."""
    begin, done = time.perf_counter(), 0
    pending: deque[list[Awaitable[object]]] = deque()
    while time.perf_counter() < begin + seconds:
        pending.append([await send() for _ in range(AT_ONCE)])
        while len(pending) * AT_ONCE >= PENDING:
            done += len(await asyncio.gather(*pending.popleft()))
    for sends in pending:
        done += len(await asyncio.gather(*sends))
    return Load(done, time.perf_counter() - begin)


async def at_rate(seconds: float, rate: float, send: Callable[[bytes], object]) -> int:
    """Call ``send`` at a steady ``rate``; return the number of calls.

    A body begins with the time at which it was due (``perf_counter_ns``, 8 bytes).
    """
    total, sent = int(rate * seconds), 0
    begin, apart = time.perf_counter_ns(), 1e9 / rate
    while sent < total:
        due = min(total, int((time.perf_counter_ns() - begin) / apart) + 1)
        while sent < due:
            send((begin + int(sent * apart)).to_bytes(8, "little") + BODY[8:])
            sent += 1
        await asyncio.sleep(_TURN_S)
    return total
