"""A NameServer and three replicas as processes of a simulation, and what can happen to them."""

from __future__ import annotations

import asyncio
import contextvars
import random
import warnings
from collections import Counter
from collections.abc import Callable, Coroutine
from functools import partial
from pathlib import Path
from typing import Any, Final

from litemq.client.async_client import AsyncClient
from litemq.errors import LiteMQError, LogDivergedError
from litemq.server.broker_config import BrokerConfig
from litemq.server.nameserver import STORE_FILE, run_nameserver
from litemq.server.nameserver_config import NameServerConfig
from litemq.server.replica.replica import run_replica
from support.sim.disk import LosingDisk
from support.sim.environment import SEGMENT_BYTES
from support.sim.loop import SimulationLoop
from support.sim.network import Network
from support.sim.process import PROCESS, Host, Process
from support.sim.scheduler import SimulationScheduler

__all__ = ["BROKER_PORT", "CLIENTS", "GROUP", "NAMESERVER", "REPLICAS", "URL", "Cluster"]

GROUP: Final = "orders"
NAMESERVER: Final = "ns"
REPLICAS: Final = ("a", "b", "c")
CLIENTS: Final = ("client-1", "client-2")
BROKER_PORT: Final = 10911
URL: Final = f"litemq://{NAMESERVER}:9876"
_LEASE_MS: Final = 1_000
_LEASE_SHARE: Final = 0.9  # by which a master's clock may be slower than the NameServer's
_LAG_MS: Final = 500
_MAX_AWAITS: Final = 100  # of a coroutine that is closed


class Cluster:
    """The processes of a cluster, on the event loop ``loop``."""

    def __init__(self, scheduler: SimulationScheduler, loop: SimulationLoop, folder: Path, seed: int) -> None:
        self.scheduler = scheduler
        self.loop = loop
        self.random = random.Random(seed)
        self.counts: Counter[str] = Counter()
        self.events: list[str] = []
        self.faults: list[str] = []
        self.masters: dict[int, str] = {}  # by epoch
        self.network = loop.network = Network(loop, random.Random(seed + 1), self.trace)
        self.hosts = {name: Host(name) for name in (NAMESERVER, *REPLICAS, *CLIENTS)}
        self.network.hosts = self.hosts
        self.disks = {name: LosingDisk(scheduler, folder / name) for name in REPLICAS}
        self.processes: dict[str, Process] = {}
        self.ended: list[Process] = []
        self.clients: list[asyncio.Task[None]] = []
        self.max_log_bytes: int | None = None  # beyond it, retention drops segments
        self.without_power: set[str] = set()  # at any time
        self._folder = folder
        self._lives = Counter[str]()

    def trace(self, what: str, *facts: object) -> None:
        """Note an event, for the digest and for the reader of a trace."""
        self.events.append(f"{self.scheduler.now_ns / 1e6:.3f} {what} {' '.join(map(str, facts))}")

    def fault(self, description: str) -> None:
        """Note a violated invariant."""
        self.trace("FAULT", description)
        self.faults.append(description)

    @property
    def wall_ms(self) -> int:
        """The wall clock of a host whose clock is right (ms)."""
        return self.hosts[CLIENTS[0]].wall_ms(self.scheduler.now_ns)

    # Processes ------------------------------------------------------------------------------------

    def run_client(self, host: str, main: Callable[[], Coroutine[Any, Any, None]]) -> asyncio.Task[None]:
        """Run ``main`` as a client on ``host``."""
        process = self._run(host, main)
        assert process.task is not None
        self.clients.append(process.task)
        return process.task

    def run_consumer(self, host: str, main: Callable[[], Coroutine[Any, Any, None]]) -> asyncio.Task[None]:
        """Run ``main`` as a client on ``host`` that does not end."""
        process = self._run(host, main)
        assert process.task is not None
        return process.task

    async def run_to_end(self, main: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Run ``main`` as a client, and wait for its end."""
        await self.run_client(CLIENTS[1], main)

    def _run(self, host: str, main: Callable[[], Coroutine[Any, Any, None]]) -> Process:
        self._lives[host] += 1
        process = Process(self.hosts[host], f"{host}/{self._lives[host]}")
        context = contextvars.copy_context()
        context.run(PROCESS.set, process)
        process.task = context.run(lambda: self.loop.create_task(main()))
        process.task.add_done_callback(lambda task: self._on_end(process, task), context=contextvars.Context())
        return process

    def _on_end(self, process: Process, task: asyncio.Task[None]) -> None:
        error = None if task.cancelled() else task.exception()
        self.trace("ended", process.name, repr(error))
        if process.is_stopping and error is None and self.processes.get(process.host.name) is process:
            self._end(process, has_power=True)
        if isinstance(error, LogDivergedError):  # its confirmed records are not its master's
            self.fault(f"I2: {process.name} ended: {error}")
        elif error is not None:
            self.fault(f"{process.name} ended: {error!r}")

    def start_nameserver(self) -> None:
        config = NameServerConfig(
            host=NAMESERVER,
            insecure=True,
            data_path=str(self._folder / NAMESERVER),
            master_lease_ms=_LEASE_MS,
        )
        (self._folder / NAMESERVER).mkdir(exist_ok=True)
        self.processes[NAMESERVER] = self._run(
            NAMESERVER, lambda: run_nameserver(config, lambda *_: None, asyncio.Event())
        )

    def start_replica(self, name: str) -> None:
        config = BrokerConfig(
            broker_id=name,
            broker_name=GROUP,
            host=name,
            port=BROKER_PORT,
            insecure=True,
            nameservers=(f"{NAMESERVER}:9876",),
            data_path=str(self._folder / name / "data"),
            file_size=SEGMENT_BYTES,
            max_log_bytes=self.max_log_bytes,
            max_record_bytes=4096,
            replicas=len(REPLICAS),
            replica_lag_ms=_LAG_MS,
            experimental=True,
        )
        disk = self.disks[name]

        def on_master(epoch: int) -> None:
            self._on_master(process, epoch)

        stop = asyncio.Event()
        process = self.processes[name] = self._run(
            name, lambda: run_replica(config, lambda *_: None, stop, on_master, disk=disk)
        )
        process.stop = stop.set
        process.on_ack = partial(self._on_ack, process)
        process.on_fault = self.fault
        process.on_copy = partial(self._count, "copies")

    def _count(self, what: str) -> None:
        self.trace(what)
        self.counts[what] += 1

    def _on_master(self, process: Process, epoch: int) -> None:
        self.counts["elections"] += 1
        self.trace("master", process.name, epoch)
        if self.masters.setdefault(epoch, process.name) != process.name:
            self.fault(f"I5: epoch {epoch} has the masters {self.masters[epoch]} and {process.name}")

    def _on_ack(self, process: Process, epoch: int) -> None:
        latest = max(self.masters, default=0)
        lease_of_master = _LEASE_SHARE / process.host.slowest_rate
        lease_of_nameserver = 1 / self.hosts[NAMESERVER].fastest_rate
        if epoch < latest and lease_of_master < lease_of_nameserver:
            self.fault(f"I5: {process.name}, the master of epoch {epoch}, acknowledges in epoch {latest}")

    def _end(self, process: Process, *, has_power: bool) -> None:
        process.is_alive = False
        self.scheduler.paused.discard(process)
        if process.store is not None:
            self.counts["bytes cut"] += process.store.bytes_cut
            self.counts["truncations"] += bool(process.store.bytes_cut)
        self.ended.append(process)
        self.network.lose_process(process, has_power=has_power)
        self.scheduler.kill_threads(process)
        for call in process.on_end:
            call()
        del self.processes[process.host.name]

    @property
    def master(self) -> str | None:
        """The name of the replica that writes now, or wrote last."""
        for name in REPLICAS:
            process = self.processes.get(name)
            if process is not None and process.store is not None and not process.store.follows:
                return name
        return None

    def describe(self) -> str:
        """Describe the replicas, for a report."""
        return "; ".join(
            f"{process.name}: "
            + (
                "no store"
                if (store := process.store) is None
                else f"epoch {store.last_epoch}, end {store.log_end}, confirmed {store.confirm_offset}, "
                f"{'follows' if store.follows else 'writes'}"
            )
            for process in self.processes.values()
        )

    # Faults ---------------------------------------------------------------------------------------

    def kill(self, name: str) -> None:
        """End a process; its host goes on, so what was written stays."""
        if name in self.processes:
            self.trace("kill", name)
            self.counts["kills"] += 1
            self._end(self.processes[name], has_power=True)

    def stop(self, name: str) -> None:
        """Ask a replica to stop, as SIGTERM does."""
        process = self.processes.get(name)
        if process is not None and not process.is_stopping:
            self.trace("stop", name)
            self.counts["stops"] += 1
            process.is_stopping = True
            process.stop()

    def switch(self) -> None:
        """Ask the master to hand over, as an operator does."""
        self.run_consumer(CLIENTS[1], self._switch)

    async def _switch(self) -> None:
        try:
            async with AsyncClient(URL, client_id="operator", connect_timeout_ms=1_000, shutdown_timeout_ms=100) as mq:
                switched = await mq.admin.switch_master(GROUP)
        except LiteMQError as error:
            self.trace("no switch", repr(error))
        else:
            self.trace("switch", switched.former, switched.master)
            self.counts["switches"] += 1

    def cut_nameserver_power(self) -> None:
        """Turn the NameServer's host off. Facts of groups last; addresses may be lost."""
        self.trace("power cut", NAMESERVER)
        self.counts["power cuts of the NameServer"] += 1
        self.hosts[NAMESERVER].has_power = False
        if NAMESERVER in self.processes:
            self._end(self.processes[NAMESERVER], has_power=False)
        if self.random.random() < 0.5:
            for path in (self._folder / NAMESERVER).glob(f"{STORE_FILE}*"):
                path.unlink()

    def cut_power(self, name: str) -> None:
        """Turn a replica's host off; a part of what was not synced is lost."""
        self.counts["power cuts"] += 1
        self.hosts[name].has_power = False
        self.without_power.add(name)
        if name in self.processes:
            self._end(self.processes[name], has_power=False)
        lost = self.disks[name].lose_power(self.random)
        self.counts["operations lost"] += lost
        self.trace("power cut", name, lost)

    def wipe(self, name: str) -> None:
        """Replace the disk of a replica, which has ended."""
        self.trace("wipe", name)
        self.counts["wiped disks"] += 1
        self.disks[name].wipe()

    def start(self, name: str) -> None:
        """Start a host and its process, unless it runs. One that does not stop is killed first."""
        self.hosts[name].has_power = True
        if name in self.processes and self.processes[name].is_stopping:
            self.kill(name)
        if name not in self.processes:
            self.trace("start", name)
            if name == NAMESERVER:
                self.start_nameserver()
            else:
                self.start_replica(name)

    def pause(self, name: str) -> None:
        if name in self.processes:
            self.trace("pause", name)
            self.counts["pauses"] += 1
            self.processes[name].is_paused = True
            self.scheduler.paused.add(self.processes[name])

    def resume(self, name: str) -> None:
        process = self.processes.get(name)
        if process is not None and process.is_paused:
            self.trace("resume", name)
            self.scheduler.paused.discard(process)
            self.loop.resume(process)

    def set_clock(self, name: str, wall_error_ms: int, rate: float) -> None:
        """Set the clocks of a host wrong."""
        self.trace("clock", name, wall_error_ms, rate)
        self.counts["clock changes"] += 1
        self.hosts[name].set_clock(wall_error_ms, rate, self.scheduler.now_ns)

    def heal(self) -> None:
        """Repair everything: power, processes, links, clocks.

        A process that began with a clock an hour ahead would slew it for ten hours, so restart it.
        """
        self.trace("heal")
        for host in self.hosts.values():
            host.set_clock(0, 1.0, self.scheduler.now_ns)
        self.network.heal()
        for name in (NAMESERVER, *REPLICAS):
            if self.hosts[name].was_clock_wrong:
                self.kill(name)
        for name in (NAMESERVER, *REPLICAS):
            self.resume(name)
            self.start(name)

    def close(self) -> None:
        """End all processes, without a clean stop."""
        for process in list(self.processes.values()):
            self._end(process, has_power=False)
        self.scheduler.end()
        closed: set[asyncio.Task[Any]] = set()
        with warnings.catch_warnings():  # what they still begin is never awaited
            warnings.simplefilter("ignore", RuntimeWarning)
            while begun := asyncio.all_tasks(self.loop) - closed:
                for task in begun:
                    task._log_destroy_pending = False  # type: ignore[attr-defined]
                    _close(task.get_coro())
                closed |= begun


def _close(coroutine: Any) -> None:
    """Close a coroutine, whatever it still wants to do."""
    for _ in range(_MAX_AWAITS):
        try:
            coroutine.close()
        except RuntimeError:  # it awaits again
            continue
        except BaseException:  # noqa: BLE001  its process is gone
            return
        return
