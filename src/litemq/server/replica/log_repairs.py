"""The repair of a replica's log: it searches for damage, and gets the bytes of another replica.

Damage is also found by readers and by a master that ships its log. A replica never serves a damaged
record, so it has time: the search is slow enough not to disturb other work.
"""

from __future__ import annotations

import asyncio
import logging
from functools import partial
from typing import Final

from litemq.broker.replication.stretches import MAX_STRETCH_BYTES, fetch_stretch
from litemq.broker.replication.uninterrupted import uninterrupted
from litemq.errors import CorruptStoreError, LiteMQError, OffsetOutOfRangeError
from litemq.server.replica.directory import ReplicaDirectory
from litemq.server.replica.group_link import GroupLink
from litemq.storage.log.repair import Stretch
from litemq.storage.replica_store import ReplicaStore

__all__ = ["LogRepairs"]

_SEARCH_BYTES: Final = 4 << 20
_SEARCH_PAUSE_S: Final = 0.0625  # after _SEARCH_BYTES: at most 64 MiB per second
_SEARCH_EVERY_S: Final = 24 * 3600.0  # the whole log, and when it was opened
_PAUSE_S: Final = 0.5
_MAX_PAUSE_S: Final = 30.0
_LOG = logging.getLogger(__name__)


class LogRepairs:
    """Repairs the log of ``directory`` with the bytes of other replicas, which ``link`` knows."""

    def __init__(self, directory: ReplicaDirectory, link: GroupLink, *, group: str, broker_id: str) -> None:
        self._directory = directory
        self._link = link
        self._group = group
        self._broker_id = broker_id
        self._logged = ""
        self._pause = _PAUSE_S
        self._repair_at = 0.0
        self._searched: ReplicaStore | None = None
        self._reached = 0  # by the search
        self._until = 0
        self._search_at = 0.0  # the next search
        self.damaged_stretches = 0

    async def run(self) -> None:
        """Search and repair until cancelled.

        Raises:
            CorruptStoreError: The log is repaired, but the directory does not open.
        """
        loop = asyncio.get_running_loop()
        while True:
            if loop.time() >= self._repair_at:
                try:
                    await self._repair_known()
                except CorruptStoreError:
                    raise
                except (LiteMQError, OSError) as error:
                    self._pause = min(2 * self._pause, _MAX_PAUSE_S)
                    self._log_failure(f"the repair of the log failed, retrying: {error}")
                self._repair_at = loop.time() + self._pause
            await asyncio.sleep(await self._search(loop.time()))

    async def _search(self, now: float) -> float:
        """Search a piece of an open log for damage; return the pause before the next one (s)."""
        store = self._directory.store
        if store is not self._searched:
            self._searched, self._reached, self._search_at = store, 0, now
            self._until = store.flushed_offset if store is not None else 0
        if store is None or now < self._search_at:
            return _PAUSE_S
        try:
            reached = await uninterrupted(partial(store.search_damage, self._reached, _SEARCH_BYTES))
        except OffsetOutOfRangeError as error:  # retention has dropped the segment meanwhile
            _LOG.debug("the search for damage goes on: %s", error)
            return _PAUSE_S
        except (LiteMQError, OSError) as error:
            self._log_failure(f"the search for damage failed, retrying: {error}")
            return _MAX_PAUSE_S
        if reached >= min(self._until, store.log_end):
            self._reached, self._search_at, self._until = 0, now + _SEARCH_EVERY_S, store.flushed_offset
        elif reached == self._reached:  # the rest is not confirmed yet
            return _PAUSE_S
        else:
            self._reached = reached
        return _SEARCH_PAUSE_S

    async def _repair_known(self) -> None:
        """Repair each damaged stretch that is known. Then open the directory, if it is closed."""
        directory = self._directory
        stretches = await directory.damaged_stretches()
        self.damaged_stretches = len(stretches)
        repaired = [await self._repair(stretch) for stretch in stretches]
        self._pause = _PAUSE_S if all(repaired) else min(2 * self._pause, _MAX_PAUSE_S)
        if all(repaired) and directory.cannot_open:
            await directory.open()
        self.damaged_stretches = len(repaired) - sum(repaired)

    async def _repair(self, stretch: Stretch) -> bool:
        """Repair ``stretch`` with the bytes of one replica; return whether one had them."""
        failures: list[str] = []
        if stretch.end - stretch.begin > MAX_STRETCH_BYTES:
            failures.append(
                f"more than {MAX_STRETCH_BYTES} bytes are damaged. Stop this replica, remove its data directory and "
                "start it again: it copies the log"
            )
        else:
            view = self._link.view
            for replica in view.replicas if view is not None else ():
                if replica.store_id == self._directory.store_id or not replica.alive:
                    continue
                try:
                    data = await fetch_stretch(replica, self._group, stretch, client_id=self._broker_id)
                    await self._directory.repair(stretch, data)
                except (LiteMQError, OSError) as error:
                    failures.append(f"{replica.broker_id}: {error}")
                else:
                    self._logged = ""
                    return True
        reason = "; ".join(failures) or "no other replica is alive"
        self._log_failure(
            f"the log is damaged from {stretch.begin} to {stretch.end} and not repaired, retrying: {reason}"
        )
        return False

    def _log_failure(self, failure: str) -> None:
        """Log a failure once, not at every try."""
        if failure != self._logged:
            self._logged = failure
            _LOG.warning("%s", failure)
