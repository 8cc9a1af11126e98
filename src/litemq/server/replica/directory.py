"""The data directory of a replica: an open store, or an incomplete copy of its master's log."""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from pathlib import Path

from litemq.broker.replication.copy_session import CopySession
from litemq.broker.replication.uninterrupted import uninterrupted
from litemq.clock import Clock
from litemq.errors import IncompleteCopyError
from litemq.net.request_channel import RequestChannel
from litemq.server.broker_config import BrokerConfig
from litemq.server.broker_setup import close_store, store_config
from litemq.storage.files.disk import Disk
from litemq.storage.log.store_id import open_store_id
from litemq.storage.log_copy import LogCopy
from litemq.storage.replica_store import ReplicaStore

__all__ = ["ReplicaDirectory"]

_LOG = logging.getLogger(__name__)


class ReplicaDirectory:
    """``store`` is ``None`` while the directory has a part of its master's log only."""

    def __init__(self, config: BrokerConfig, clock: Clock, disk: Disk, on_failure: Callable[[str], object]) -> None:
        """``on_failure`` is called, from any thread, if the store stops writing for good."""
        self._config = config
        self._store_config = store_config(config)
        self._clock = clock
        self._disk = disk
        self._on_failure = on_failure
        self._path = Path(config.data_path)
        self.store: ReplicaStore | None = None
        self.store_id = b""

    async def open(self) -> None:
        """Open the store, if the directory has no incomplete copy."""
        name = self._config.broker_name
        make = partial(ReplicaStore, self._path, self._store_config, self._clock, disk=self._disk, broker_name=name)
        try:
            self.store = await uninterrupted(make)
        except IncompleteCopyError:
            self.store_id = await uninterrupted(partial(open_store_id, self._disk, self._path))
        else:
            self.store_id = self.store.store_id
            self.store.on_failure(self._on_failure)

    async def copy(self, channel: RequestChannel, log_start: int) -> bool:
        """Copy the log of the master behind ``channel``, which begins at ``log_start``.

        Return whether the store is open again. If not, the copy continues with the next call.
        """
        await self.close()
        make = partial(LogCopy, self._path, self._store_config, self._clock, log_start, disk=self._disk)
        copy = await uninterrupted(make)
        is_complete = False
        try:
            session = CopySession(
                copy, channel, group=self._config.broker_name, segment_bytes=self._store_config.segment_bytes
            )
            is_complete = await session.run()
        finally:
            await uninterrupted(copy.finish if is_complete else copy.close)
        if is_complete:
            _LOG.warning("copied the master's log %d … %d", copy.start, copy.end)
            await self.open()
        return is_complete

    async def close(self) -> None:
        """Close the store, if it is open."""
        if self.store is not None:
            store, self.store = self.store, None
            await uninterrupted(partial(close_store, store))
