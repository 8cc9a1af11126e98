"""The faults of a simulation, in an order that the seed decides."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Sequence
from itertools import permutations
from typing import Final

from support.sim.cluster import CLIENTS, NAMESERVER, REPLICAS, Cluster

__all__ = ["Nemesis"]

_KINDS: Final = (  # each is a method of ``Nemesis``
    "kill",
    "kill",
    "cut_power",
    "cut_power",
    "cut_all_power",
    "isolate",
    "isolate",
    "isolate_master",
    "cut_one_way",
    "cut_off_clients",
    "slow_down",
    "pause",
    "restart_nameserver",
    "reset_connections",
    "set_clock",
    "set_nameserver_clock",
    "cut_nameserver_power",
    "stop",
    "stop",
    "switch",
    "switch",
    "wipe",
    "wipe",
)


class Nemesis:
    """Disturbs a cluster for a while; ``Cluster.heal`` then repairs what it broke."""

    def __init__(self, cluster: Cluster, chosen: random.Random, only: Sequence[str] = ()) -> None:
        """``only`` names the kinds of faults; by default, the seed chooses them."""
        self._cluster = cluster
        self._random = chosen
        self._has_wiped = False
        self._pause_s = chosen.choice([0.3, 0.8, 1.5])
        self._repairs: list[asyncio.Task[None]] = []
        # A seed has a part of the kinds, so more of each.
        kinds = only or chosen.sample(_KINDS, chosen.randint(2, len(_KINDS)))
        self._kinds: list[Callable[[], Awaitable[None]]] = [getattr(self, f"_{kind}") for kind in kinds]

    async def run(self, seconds: float) -> None:
        """Disturb the cluster for ``seconds``."""
        end = asyncio.get_running_loop().time() + seconds
        while (now := asyncio.get_running_loop().time()) < end:
            await asyncio.sleep(min(end - now, self._random.expovariate(1 / self._pause_s)))
            await self._random.choice(self._kinds)()
        for repair in self._repairs:
            repair.cancel()
        await asyncio.gather(*self._repairs, return_exceptions=True)

    def _later(self, seconds: float, repair: Callable[[], object]) -> None:
        async def wait() -> None:
            await asyncio.sleep(seconds)
            repair()

        self._repairs.append(asyncio.create_task(wait()))

    def _victim(self) -> str:
        """Return a replica: the master more often than others."""
        master = self._cluster.master
        return master if master is not None and self._random.random() < 0.5 else self._random.choice(REPLICAS)

    async def _kill(self) -> None:
        name = self._victim()
        self._cluster.kill(name)
        self._later(self._random.choice([0.01, 0.5, 3.0]), lambda: self._cluster.start(name))

    async def _cut_power(self) -> None:
        name = self._victim()
        self._cluster.cut_power(name)
        self._later(self._random.choice([0.1, 1.0, 4.0]), lambda: self._cluster.start(name))

    async def _cut_all_power(self) -> None:
        for name in REPLICAS:
            self._cluster.cut_power(name)
            self._later(self._random.uniform(0.1, 2.0), lambda name=name: self._cluster.start(name))  # type: ignore[misc]

    def _cut(self, links: list[tuple[str, str]], what: str) -> None:
        cluster = self._cluster
        cluster.trace(what, links)
        cluster.counts["partitions"] += 1
        cluster.network.cuts.update(links)
        self._later(self._random.choice([0.3, 1.0, 3.0, 6.0]), cluster.network.heal)

    async def _isolate(self) -> None:
        """Separate some servers from all others."""
        servers = [*REPLICAS, NAMESERVER]
        some = self._random.sample(servers, self._random.choice([1, 2]))
        clients = self._random.choice([CLIENTS, ()])  # or they reach both parts
        others = [name for name in (*servers, *clients) if name not in some]
        self._cut([link for one in some for other in others for link in ((one, other), (other, one))], "partition")

    async def _isolate_master(self) -> None:
        """Separate the master from the other replicas, and maybe from the NameServer."""
        name = self._cluster.master or REPLICAS[0]
        others = [other for other in REPLICAS if other != name] + self._random.choice([[], [NAMESERVER]])
        self._cut([link for other in others for link in ((name, other), (other, name))], "master alone")

    async def _cut_one_way(self) -> None:
        links = list(permutations((*REPLICAS, NAMESERVER), 2))
        master = self._cluster.master
        chosen = self._random.sample(links, self._random.choice([1, 2, 3]))
        if master is not None and self._random.random() < 0.5:
            chosen.append(self._random.choice([(master, NAMESERVER), (NAMESERVER, master)]))
        self._cut(chosen, "one-way")

    async def _cut_off_clients(self) -> None:
        name = self._victim()
        self._cut([link for client in CLIENTS for link in ((client, name), (name, client))], "clients")

    async def _slow_down(self) -> None:
        network = self._cluster.network
        links = list(permutations((*REPLICAS, NAMESERVER, *CLIENTS), 2))
        for link in self._random.sample(links, self._random.choice([1, 4, 15])):
            network.slowness[link] = self._random.choice([0.01, 0.1, 0.5])
        self._cluster.trace("slow", sorted(network.slowness.items()))
        self._later(self._random.choice([0.5, 3.0]), network.heal)

    async def _pause(self) -> None:
        name = self._random.choice([self._victim(), NAMESERVER])
        self._cluster.pause(name)
        self._later(self._random.choice([0.5, 2.5, 5.0]), lambda: self._cluster.resume(name))

    async def _restart_nameserver(self) -> None:
        self._cluster.kill(NAMESERVER)
        self._later(self._random.choice([0.01, 1.0, 3.0]), lambda: self._cluster.start(NAMESERVER))

    async def _cut_nameserver_power(self) -> None:
        self._cluster.cut_nameserver_power()
        self._later(self._random.choice([0.01, 1.0, 3.0]), lambda: self._cluster.start(NAMESERVER))

    async def _stop(self) -> None:
        name = self._victim()
        self._cluster.stop(name)
        self._later(self._random.choice([0.1, 1.0, 3.0]), lambda: self._cluster.start(name))

    async def _switch(self) -> None:
        self._cluster.switch()

    async def _reset_connections(self) -> None:
        self._cluster.counts["lost connections"] += 1
        for _ in range(self._random.choice([1, 3])):
            self._cluster.network.reset_connection()

    async def _set_clock(self) -> None:
        error_ms = self._random.choice([-3_600_000, -100, 0, 100, 400, 3_600_000])
        rate = self._random.choice([0.5, 0.9, 1.0, 1.0, 1.1, 2.0])
        self._cluster.set_clock(self._random.choice(REPLICAS), error_ms, rate)

    async def _set_nameserver_clock(self) -> None:
        """Set it wrong otherwise than a replica's: then no replica has its time."""
        error_ms = self._random.choice([-7_200_000, -300, 0, 300, 7_200_000])
        rate = self._random.choice([0.5, 0.9, 1.0, 1.0, 1.1, 2.0])
        self._cluster.set_clock(NAMESERVER, error_ms, rate)

    async def _wipe(self) -> None:
        """Replace a disk by an empty one, once: a level-3 message survives the loss of one disk."""
        if not self._has_wiped:
            self._has_wiped = True
            name = self._victim()
            self._cluster.cut_power(name)
            self._cluster.wipe(name)
            self._later(self._random.choice([0.1, 1.0, 4.0]), lambda: self._cluster.start(name))
