"""The broker process: open and recover the store, listen, register, run until stopped."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Final

from litemq import __version__
from litemq.broker.broker import Broker, BrokerIdentity
from litemq.broker.runtime.broker_clock import BrokerClock
from litemq.clock import SystemClock
from litemq.errors import StoreFailedError
from litemq.net.server import FrameServer
from litemq.server.broker_config import BrokerConfig, check_address
from litemq.server.broker_setup import (
    broker_facts,
    broker_limits,
    close_store,
    frame_limits,
    store_config,
    tune_interpreter,
)
from litemq.server.heap import trim_heap_regularly
from litemq.server.registration import Registration
from litemq.server.replica.replica import run_replica
from litemq.storage.disk_store import DiskStore

__all__ = ["run_broker"]

_REGISTER_TIMEOUT_S: Final = 0.5
_LOG = logging.getLogger(__name__)


async def run_broker(
    config: BrokerConfig,
    ready: Callable[[str, int], None],
    stop: asyncio.Event,
    on_master: Callable[[int], None] = lambda _epoch: None,
) -> None:
    """Serve until ``stop`` is set. Call ``ready`` with the address once clients can connect.

    A replica calls ``on_master`` with the epoch when it becomes the master of its group.
    """
    tune_interpreter()
    if config.replicas > 1:
        await run_replica(config, ready, stop, on_master)
        return
    loop = asyncio.get_running_loop()
    clock = BrokerClock(SystemClock())
    open_store = partial(DiskStore, Path(config.data_path), store_config(config), clock, broker_name=config.broker_name)
    store = await loop.run_in_executor(None, open_store)
    try:
        started_at = clock.wall_ms()
        address = ("", 0)

        registration = Registration(
            [check_address("nameservers", server) for server in config.nameservers],
            lambda: broker_facts(config, broker, address[1], started_at),
        )
        identity = BrokerIdentity(config.broker_name, config.zone)
        broker = Broker(store, clock, broker_limits(config), announcer=registration, identity=identity)
        failed = asyncio.Event()
        store.on_failure(lambda _reason: loop.call_soon_threadsafe(failed.set))
        server = FrameServer(
            broker.handle,
            software=f"litemq {__version__}",
            limits=frame_limits(config),
            on_session_end=broker.caller_gone,
        )
        try:
            address = await server.start(config.host, config.port, insecure=config.insecure)
            async with asyncio.TaskGroup() as background:
                background.create_task(registration.run())
                trimming = background.create_task(trim_heap_regularly())
                await _wait_registered(registration, stop)
                ready(*address)
                await _wait_for_any(stop, failed)
                trimming.cancel()
                _LOG.info("broker %s is stopping", config.broker_name)
                registration.close()
            if store.write_failure is not None:
                _LOG.error("%s", store.write_failure)
                raise StoreFailedError(store.write_failure)
        finally:
            broker.close()
            await server.close()
    finally:
        await loop.run_in_executor(None, close_store, store)


async def _wait_registered(registration: Registration, stop: asyncio.Event) -> None:
    """Wait up to ``_REGISTER_TIMEOUT_S`` for the first registration: clients need the route."""
    waiting = [asyncio.create_task(registration.wait_registered()), asyncio.create_task(stop.wait())]
    await asyncio.wait(waiting, timeout=_REGISTER_TIMEOUT_S, return_when=asyncio.FIRST_COMPLETED)
    for task in waiting:
        task.cancel()


async def _wait_for_any(*events: asyncio.Event) -> None:
    waiting = [asyncio.create_task(event.wait()) for event in events]
    await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
    for task in waiting:
        task.cancel()
