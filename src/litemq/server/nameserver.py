"""The NameServer process: open the store, listen, sweep until stopped."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Final

from litemq import __version__
from litemq.nameserver.cluster_store.embedded import EmbeddedStore
from litemq.nameserver.core import NameServer
from litemq.net.server import FrameServer
from litemq.server.nameserver_config import NameServerConfig

__all__ = ["STORE_FILE", "run_nameserver"]

_LOG = logging.getLogger(__name__)
STORE_FILE: Final = "cluster.db"


async def run_nameserver(config: NameServerConfig, ready: Callable[[str, int], None], stop: asyncio.Event) -> None:
    """Serve until ``stop`` is set. Call ``ready`` with the address once clients can connect."""
    with contextlib.closing(EmbeddedStore(Path(config.data_path) / STORE_FILE)) as store:
        names = NameServer(store, config.limits)
        server = FrameServer(names.handle, software=f"litemq {__version__}", on_session_end=names.caller_gone)
        try:
            host, port = await server.start(config.host, config.port, insecure=config.insecure)
            async with asyncio.TaskGroup() as background:
                sweeping = background.create_task(_sweep_periodically(names, config.route_update_interval_ms / 1000))
                ready(host, port)
                await stop.wait()
                sweeping.cancel()
        finally:
            await server.close()


async def _sweep_periodically(names: NameServer, interval: float) -> None:
    while True:
        await asyncio.sleep(interval)
        names.sweep()
