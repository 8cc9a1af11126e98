"""The data directory of a replica: an open store, an incomplete copy of its master's log, or a log
that is repaired before it opens."""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from pathlib import Path

from litemq.broker.replication.copy_session import CopySession
from litemq.broker.replication.uninterrupted import uninterrupted
from litemq.clock import Clock
from litemq.errors import CorruptStoreError, IncompleteCopyError, StorageError
from litemq.net.request_channel import RequestChannel
from litemq.server.broker_config import BrokerConfig
from litemq.server.broker_setup import close_store, store_config
from litemq.server.replica.cut_off_files import CutOffFiles
from litemq.storage.files.disk import Disk
from litemq.storage.log.log_directory import COPY_MARKER
from litemq.storage.log.repair import Stretch
from litemq.storage.log.store_id import check_owner, open_store_id
from litemq.storage.log_copy import LogCopy
from litemq.storage.offline.repair_log import ClosedLog
from litemq.storage.replica_store import ReplicaStore

__all__ = ["ReplicaDirectory"]

_LOG = logging.getLogger(__name__)


class ReplicaDirectory:
    """``store`` is ``None`` while the directory has a part of its master's log only, and while
    ``cannot_open``: its log is damaged, and repaired first."""

    def __init__(self, config: BrokerConfig, clock: Clock, disk: Disk, on_failure: Callable[[str], object]) -> None:
        """``on_failure`` is called, from any thread, if the store stops writing for good."""
        self._config = config
        self._store_config = store_config(config)
        self._clock = clock
        self._disk = disk
        self._on_failure = on_failure
        self._path = Path(config.data_path)
        self._closed_log: ClosedLog | None = None
        self._closed_stretches: list[Stretch] = []
        self.on_close: Callable[[], object] = lambda: None  # before the store is closed
        self.store: ReplicaStore | None = None
        self.store_id = b""
        self.cannot_open = False
        self.cut_off = CutOffFiles(self._path)

    @property
    def is_closed(self) -> bool:
        """Whether a store could be opened: a copy ended or failed without a trace on the disk."""
        return self.store is None and not self.cannot_open and not (self._path / COPY_MARKER).exists()

    async def open(self) -> None:
        """Open the store, unless the directory has an incomplete copy or ``cannot_open``.

        Raises:
            StorageError: It belongs to another replica, such as a copied directory.
            CorruptStoreError: It does not open, and its log has no damage to repair.
        """
        await uninterrupted(self._open)

    def _open(self) -> None:
        self._close_log()
        path, config, name = self._path, self._store_config, self._config.broker_name
        check_owner(path, name, self._config.broker_id)
        try:
            store = ReplicaStore(path, config, self._clock, disk=self._disk, broker_name=name)
        except IncompleteCopyError:
            pass
        except CorruptStoreError as error:
            if not self._open_log():
                raise
            _LOG.error("%s: the log is repaired with the bytes of another replica before it opens", error)
        else:
            store.on_failure(self._on_failure)
            self.store, self.cannot_open = store, False
        self.store_id = open_store_id(self._disk, path, name, self._config.broker_id)
        self.cut_off.count()

    def _open_log(self) -> bool:
        """Open the log alone, for its repair; return whether it is damaged."""
        log = ClosedLog(self._path, self._store_config, disk=self._disk)
        self._closed_log = log
        try:
            self._closed_stretches = log.stretches()
        except BaseException:
            self._close_log()
            raise
        self.cannot_open = bool(self._closed_stretches)
        if not self.cannot_open:
            self._close_log()
        return self.cannot_open

    async def copy(self, channel: RequestChannel, log_start: int, differs_from: int | None = None) -> bool:
        """Copy the log of the master behind ``channel``, which begins at ``log_start``.

        From ``differs_from`` on, the master may lack the records of this log. ``None``: this log
        is a copy already. Return whether the store is open again. If not, the copy continues with
        the next call, unless the directory ``is_closed``.
        """
        await self.close()
        copies: list[LogCopy] = []  # the caller may be cancelled while the thread creates it

        def begin() -> None:
            args = (self._path, self._store_config, self._clock, log_start, differs_from)
            copies.append(LogCopy(*args, disk=self._disk))

        try:
            await uninterrupted(begin)
            self.cut_off.count()
            is_complete = await self._copy(copies[0], channel)
        finally:
            for copy in copies:
                await uninterrupted(copy.close)
        if is_complete:
            _LOG.warning("copied the master's log %d … %d", copies[0].start, copies[0].end)
            await self.open()
        return is_complete

    async def _copy(self, copy: LogCopy, channel: RequestChannel) -> bool:
        """Continue ``copy``; return whether a store can open it."""
        session = CopySession(
            copy, channel, group=self._config.broker_name, segment_bytes=self._store_config.segment_bytes
        )
        if not await session.run():
            return False
        try:
            await uninterrupted(copy.finish)
        except CorruptStoreError as error:
            _LOG.warning("%s; copying the log again", error)
            await uninterrupted(partial(copy.begin_again, copy.start))
            return False
        return True

    # Damage of the log ----------------------------------------------------------------------------

    async def damaged_stretches(self) -> list[Stretch]:
        """Return the damaged stretches that are known, in the order of the log."""
        store = self.store
        return await uninterrupted(store.damaged_stretches) if store is not None else list(self._closed_stretches)

    async def repair(self, stretch: Stretch, data: bytes) -> None:
        """Replace ``stretch``, which is damaged, by ``data``.

        Raises:
            RecordFormatError: The bytes do not fit the stretch. Nothing was written.
        """
        store, log = self.store, self._closed_log
        if store is not None:
            await uninterrupted(partial(store.repair, stretch.begin, data))
        elif log is not None:
            await uninterrupted(partial(log.repair, stretch, data))
            _LOG.warning("repaired the log from %d to %d with the bytes of another replica", *stretch)
            self._closed_stretches.remove(stretch)

    def read_stretch(self, begin: int, end: int) -> bytes:
        """Read a stretch that is damaged in another replica. It may wait for the disk."""
        log = self.store or self._closed_log
        if log is None:
            raise StorageError("this replica has no log yet: ask another one")
        return log.read_stretch(begin, end)

    # The end --------------------------------------------------------------------------------------

    def _close_log(self) -> None:
        if self._closed_log is not None:
            log, self._closed_log = self._closed_log, None
            log.close()

    async def close(self) -> None:
        """Close the store or the log, if it is open."""
        self._close_log()
        if self.store is not None:
            self.on_close()
            store, self.store = self.store, None
            await uninterrupted(partial(close_store, store))
