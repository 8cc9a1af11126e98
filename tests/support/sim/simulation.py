"""Play one seed: a cluster under load with faults, then healed and checked."""

from __future__ import annotations

import asyncio
import hashlib
import random
import traceback
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, NamedTuple

from litemq.storage.replica_store import ReplicaStore
from support.history import Name
from support.sim.checks import lasting_violations, violations
from support.sim.cluster import REPLICAS, Cluster
from support.sim.environment import SEGMENT_BYTES, simulated_environment
from support.sim.extra_load import ExtraLoad
from support.sim.lease_load import Leases
from support.sim.load import LEVELS, Load
from support.sim.loop import SimulationLoop
from support.sim.nemesis import Nemesis
from support.sim.scheduler import SimulationScheduler
from support.sim.time_loads import Jobs, Timers, Transactions

__all__ = ["Outcome", "simulate"]

_DISTURBED_S: Final = (4.0, 11.0)
_SYNC_S: Final = (0.002, 0.01, 0.05)
_SHARE_WITH_RETENTION: Final = 0.2  # their extra load reads no topic from its beginning
_EXTRA: Final[tuple[type[ExtraLoad], ...]] = (Timers, Jobs, Transactions, Leases)
_SETTLED_WITHIN_S: Final = 30.0
_HEALED_WITHIN_S: Final = 300.0  # a clock that was wrong is slewed for minutes


class Outcome(NamedTuple):
    """What a seed showed."""

    seed: int
    faults: list[str]
    counts: Counter[str]
    digest: str
    events: list[str]


def simulate(seed: int, folder: Path, kinds: Sequence[str] = ()) -> Outcome:
    """Play ``seed`` with data directories below ``folder``, and faults of ``kinds``."""
    scheduler = SimulationScheduler(seed)
    clusters: list[Cluster] = []
    with simulated_environment(scheduler, seed):
        try:
            scheduler.run(lambda: _play(scheduler, folder, seed, kinds, clusters))
        except Exception:  # noqa: BLE001  it is the outcome
            clusters[0].fault(traceback.format_exc(limit=-6))
    cluster = clusters[0]
    cluster.counts["steps"] = scheduler.steps
    cluster.counts["virtual seconds"] = scheduler.now_ns // 1_000_000_000
    digest = hashlib.sha256("\n".join(cluster.events).encode()).hexdigest()
    return Outcome(seed, cluster.faults, cluster.counts, digest, cluster.events)


def _play(
    scheduler: SimulationScheduler, folder: Path, seed: int, kinds: Sequence[str], clusters: list[Cluster]
) -> None:
    loop = SimulationLoop(scheduler)
    cluster = Cluster(scheduler, loop, folder, seed)
    clusters.append(cluster)
    try:
        loop.run_until_complete(_act(cluster, seed, kinds))
    finally:
        cluster.close()
        loop.close()


async def _act(cluster: Cluster, seed: int, kinds: Sequence[str]) -> None:
    chosen = random.Random(seed)
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda _loop, context: _on_unhandled(cluster, context))
    retains = chosen.random() < _SHARE_WITH_RETENTION
    cluster.max_log_bytes = SEGMENT_BYTES if retains else None
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
    kinds_of_load = [Leases] if retains else chosen.sample(_EXTRA, chosen.choice([1, 2]))
    extra = [kind(load, random.Random(f"{seed} {kind.topic}")) for kind in kinds_of_load]
    await Nemesis(cluster, chosen, kinds).run(chosen.uniform(*_DISTURBED_S))
    cluster.heal()
    try:
        async with asyncio.timeout(_HEALED_WITHIN_S):
            await _recover(cluster, load, extra)
    except TimeoutError:
        cluster.fault(f"I14: the group is not whole after {_HEALED_WITHIN_S:g} s: {cluster.describe()}")
        cluster.faults += lasting_violations(load, _open_stores(cluster), cluster.disks.values())
        return
    master, followers = _stores(cluster)
    cluster.counts["bytes dropped"] = master.log_start
    cluster.faults += await _violations(cluster, load, master, followers)
    for each in extra:
        cluster.faults += each.problems()


def _on_unhandled(cluster: Cluster, context: dict[str, Any]) -> None:
    """Note an exception that nobody has handled, unless its process ended before it could."""
    process = getattr(context.get("future"), "process", None)
    if process is None or process.is_alive:
        cluster.fault(f"unhandled: {context}")


async def _violations(cluster: Cluster, load: Load, master: ReplicaStore, followers: list[ReplicaStore]) -> list[str]:
    """Return the violated invariants of logs that are the same from the first look to the last.

    Retention may write records meanwhile.
    """
    stores = (master, *followers)
    found: list[str] = []
    with suppress(TimeoutError):
        async with asyncio.timeout(_SETTLED_WITHIN_S):
            while True:
                ends = [store.log_end for store in stores]
                found = violations(load, master, followers)
                if not found or ends == [store.log_end for store in stores]:
                    break
                await asyncio.sleep(0.1)
    return found


async def _recover(cluster: Cluster, load: Load, extra: Sequence[ExtraLoad]) -> None:
    """Wait until the cluster is whole again and the load has ended, and read the log."""
    load.is_stopping = True
    await asyncio.wait(cluster.clients)
    await cluster.run_to_end(lambda: load.send_last(Name(LEVELS.index("replicas"), "last", 0)))
    await cluster.run_to_end(load.read_log)
    while not load.is_consumed:  # noqa: ASYNC110  virtual time
        await asyncio.sleep(0.1)
    for each in extra:
        await each.end()
    load.consumer.cancel()
    await asyncio.wait([load.consumer])
    while not _is_whole(cluster):  # noqa: ASYNC110  virtual time
        await asyncio.sleep(0.1)


def _is_whole(cluster: Cluster) -> bool:
    """Return whether all replicas have confirmed the same log."""
    stores = [process.store for name in REPLICAS if (process := cluster.processes.get(name)) is not None]
    ends = {(store.log_end, store.confirm_offset) for store in stores if store is not None}
    return len(stores) == len(REPLICAS) and None not in stores and len(ends) == 1 and len(set(*ends)) == 1


def _open_stores(cluster: Cluster) -> list[ReplicaStore]:
    processes = [cluster.processes[name] for name in REPLICAS if name in cluster.processes]
    return [process.store for process in processes if process.store is not None]


def _stores(cluster: Cluster) -> tuple[ReplicaStore, list[ReplicaStore]]:
    stores = _open_stores(cluster)
    master = next(store for store in stores if not store.follows)
    return master, [store for store in stores if store is not master]
