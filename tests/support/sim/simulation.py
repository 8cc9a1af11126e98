"""Play one seed: a cluster under load with faults, then healed and checked."""

from __future__ import annotations

import asyncio
import hashlib
import random
import traceback
from collections import Counter
from pathlib import Path
from typing import Final, NamedTuple

from litemq.storage.replica_store import ReplicaStore
from support.history import Name
from support.sim.checks import violations
from support.sim.cluster import REPLICAS, Cluster
from support.sim.environment import simulated_environment
from support.sim.load import LEVELS, Load
from support.sim.loop import SimulationLoop
from support.sim.nemesis import Nemesis
from support.sim.scheduler import SimulationScheduler

__all__ = ["Outcome", "simulate"]

_DISTURBED_S: Final = (4.0, 12.0)
_SYNC_S: Final = (0.002, 0.01, 0.05)
_HEALED_WITHIN_S: Final = 300.0  # a clock that was wrong is slewed for minutes


class Outcome(NamedTuple):
    """What a seed showed."""

    seed: int
    faults: list[str]
    counts: Counter[str]
    digest: str
    events: list[str]


def simulate(seed: int, folder: Path) -> Outcome:
    """Play ``seed`` with data directories below ``folder``."""
    scheduler = SimulationScheduler(seed)
    clusters: list[Cluster] = []
    with simulated_environment(scheduler, seed):
        try:
            scheduler.run(lambda: _play(scheduler, folder, seed, clusters))
        except Exception:  # noqa: BLE001  it is the outcome
            clusters[0].fault(traceback.format_exc(limit=-6))
    cluster = clusters[0]
    cluster.counts["steps"] = scheduler.steps
    cluster.counts["virtual seconds"] = scheduler.now_ns // 1_000_000_000
    digest = hashlib.sha256("\n".join(cluster.events).encode()).hexdigest()
    return Outcome(seed, cluster.faults, cluster.counts, digest, cluster.events)


def _play(scheduler: SimulationScheduler, folder: Path, seed: int, clusters: list[Cluster]) -> None:
    loop = SimulationLoop(scheduler)
    cluster = Cluster(scheduler, loop, folder, seed)
    clusters.append(cluster)
    try:
        loop.run_until_complete(_act(cluster, seed))
    finally:
        cluster.close()
        loop.close()


async def _act(cluster: Cluster, seed: int) -> None:
    chosen = random.Random(seed)
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda _loop, context: cluster.fault(f"unhandled: {context}"))
    cluster.start_nameserver()
    for name in REPLICAS:
        cluster.start_replica(name)
    sync_s = chosen.choice(_SYNC_S)
    for disk in cluster.disks.values():
        disk.sync_s = sync_s
    load = Load(cluster, random.Random(seed + 2))
    async with asyncio.timeout(_HEALED_WITHIN_S):
        await load.create_topic_as_client()
    load.start()
    await Nemesis(cluster, chosen).run(chosen.uniform(*_DISTURBED_S))
    cluster.heal()
    try:
        async with asyncio.timeout(_HEALED_WITHIN_S):
            await _recover(cluster, load)
    except TimeoutError:
        cluster.fault(f"liveness: {cluster.describe()}")
        return
    master, followers = _stores(cluster)
    cluster.faults += violations(load, master, followers)


async def _recover(cluster: Cluster, load: Load) -> None:
    """Wait until the cluster is whole again and the load has ended, and read the log."""
    load.is_stopping = True
    await asyncio.wait(cluster.clients)
    await cluster.run_to_end(lambda: load.send_last(Name(LEVELS.index("replicas"), "last", 0)))
    await cluster.run_to_end(load.read_log)
    while not load.is_consumed:  # noqa: ASYNC110  virtual time
        await asyncio.sleep(0.1)
    load.consumer.cancel()
    await asyncio.wait([load.consumer])
    while not _is_whole(cluster):  # noqa: ASYNC110  virtual time
        await asyncio.sleep(0.1)


def _is_whole(cluster: Cluster) -> bool:
    """Return whether all replicas have confirmed the same log."""
    stores = [process.store for name in REPLICAS if (process := cluster.processes.get(name)) is not None]
    ends = {(store.log_end, store.confirm_offset) for store in stores if store is not None}
    return len(stores) == len(REPLICAS) and None not in stores and len(ends) == 1 and len(set(*ends)) == 1


def _stores(cluster: Cluster) -> tuple[ReplicaStore, list[ReplicaStore]]:
    stores = [store for name in REPLICAS if (store := cluster.processes[name].store) is not None]
    master = next(store for store in stores if not store.follows)
    return master, [store for store in stores if store is not master]
