"""The NameServer process: open the store, listen, sweep until stopped."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Final

from litemq import __version__
from litemq.clock import Clock, SystemClock
from litemq.nameserver.cluster_store.embedded import EmbeddedStore
from litemq.nameserver.cluster_store.embedded_groups import EmbeddedGroupStore
from litemq.nameserver.cluster_store.groups import GroupStore
from litemq.nameserver.core import NameServer
from litemq.nameserver.replica_groups import ReplicaGroups
from litemq.net.server import FrameServer
from litemq.server.nameserver_config import NameServerConfig

__all__ = ["GROUPS_FILE", "STORE_FILE", "run_nameserver"]

_LOG = logging.getLogger(__name__)
STORE_FILE: Final = "cluster.db"
GROUPS_FILE: Final = "groups.db"


async def run_nameserver(config: NameServerConfig, ready: Callable[[str, int], None], stop: asyncio.Event) -> None:
    """Serve until ``stop`` is set. Call ``ready`` with the address once clients can connect."""
    clock = SystemClock()
    folder = Path(config.data_path)
    with contextlib.closing(EmbeddedStore(folder / STORE_FILE)) as store:
        group_store = await _open_group_store(config, clock)
        groups = ReplicaGroups(group_store, config.limits, clock)
        names = NameServer(store, config.limits, clock, groups=groups)
        server = FrameServer(names.handle, software=f"litemq {__version__}", on_session_end=names.caller_gone)
        try:
            host, port = await server.start(config.host, config.port, insecure=config.insecure)
            async with asyncio.TaskGroup() as background:
                tasks = [
                    background.create_task(groups.run()),
                    background.create_task(_sweep_periodically(names, config.route_update_interval_ms / 1000)),
                ]
                ready(host, port)
                await stop.wait()
                for task in tasks:
                    task.cancel()
        finally:
            await server.close()
            await groups.close()
            await group_store.close()


async def _open_group_store(config: NameServerConfig, clock: Clock) -> GroupStore:
    if config.store_kind == "embedded":
        return await EmbeddedGroupStore.open(Path(config.data_path) / GROUPS_FILE, clock)
    from litemq.nameserver.cluster_store.etcd_groups import EtcdGroupStore  # late: grpcio is an extra

    _LOG.info("the facts of replicated groups are in etcd, at %s", ", ".join(config.etcd_endpoints))
    return EtcdGroupStore(config.etcd_endpoints, config.etcd_prefix, timeout_s=config.etcd_timeout_ms / 1000)


async def _sweep_periodically(names: NameServer, interval: float) -> None:
    while True:
        await asyncio.sleep(interval)
        names.sweep()
