"""The role of a follower: one session after another with the group's master."""

from __future__ import annotations

import asyncio
import logging
from typing import Final

from litemq.broker.replication.log_session import LogSession
from litemq.errors import (
    ConnectionLostError,
    CorruptStoreError,
    DiskFullError,
    LiteMQError,
    LogDivergedError,
    NotMasterError,
    StoreFailedError,
)
from litemq.net.client import Peer
from litemq.server.replica.directory import ReplicaDirectory
from litemq.server.replica.follower_reads import FollowerReads

__all__ = ["FollowerRole"]

_FIRST_PAUSE_S: Final = 0.05
_MAX_PAUSE_S: Final = 1.0
_CONNECT_S: Final = 2.0
_LASTING_S: Final = 1.0
_EXPECTED_REPEATS: Final = 10  # of a failure that ends with the next election
_LOG = logging.getLogger(__name__)


class FollowerRole:
    """Follows the master at ``address``."""

    def __init__(
        self,
        directory: ReplicaDirectory,
        reads: FollowerReads,
        address: tuple[str, int],
        *,
        group: str,
        broker_id: str,
    ) -> None:
        self._directory = directory
        self._reads = reads
        self._address = address
        self._group = group
        self._broker_id = broker_id
        self._log_start = 0  # of the master
        self._session: LogSession | None = None
        self._session_at = 0.0
        self._logged = ""
        self._repeats = 0
        self._problem = ""
        self._lacks_space = False

    async def run(self) -> None:
        """Follow until cancelled. If the log cannot be continued, copy the master's first.

        Raises:
            LogDivergedError: Confirmed records would have to be cut off: an operator decides.
            CorruptStoreError: This store is damaged.
            StoreFailedError: This store has failed.
        """
        pause = _FIRST_PAUSE_S
        host, port = self._address
        while True:
            peer: Peer | None = None
            try:
                if self._directory.is_closed:
                    await self._directory.open()
                peer = await Peer.connect(host, port, client_id=self._broker_id, timeout=_CONNECT_S)
                await self._follow(peer)
                pause = _FIRST_PAUSE_S
            except (LogDivergedError, CorruptStoreError, StoreFailedError):
                raise
            except LiteMQError as error:
                self._log_failure(error)
            finally:
                if peer is not None:
                    peer.close()
            await asyncio.sleep(pause)
            pause = min(2 * pause, _MAX_PAUSE_S)

    @property
    def problem(self) -> str:
        """Why it does not follow; empty: it does, or the master is being replaced."""
        return "" if self._lasts else self._problem

    @property
    def lacks_space(self) -> bool:
        """Whether the disk was too full for the last records of the master."""
        return self._lacks_space and not self._lasts

    @property
    def _lasts(self) -> bool:
        """Whether it has followed for some time, so that its last failure is over."""
        return self._session is not None and asyncio.get_running_loop().time() - self._session_at >= _LASTING_S

    async def leave(self) -> None:
        """Let the group go on without this replica, which is about to stop."""
        if self._session is not None:
            await self._session.leave()

    async def _follow(self, peer: Peer) -> None:
        """Follow, or copy a part of the log; return if there is more to copy."""
        directory, differs_from = self._directory, None
        if directory.cannot_open:
            return  # until its log is repaired
        if directory.store is not None:
            self._session = session = LogSession(directory.store, peer, group=self._group)
            self._session_at = asyncio.get_running_loop().time()
            session.pause_reads = self._reads.paused
            try:
                needed = await session.run()
            finally:
                self._lacks_space = self.lacks_space
                self._session = None
            self._log_start, differs_from = needed.log_start, needed.differs_from
        await directory.copy(peer, self._log_start, differs_from)

    def _log_failure(self, error: LiteMQError) -> None:
        """Log a failure once, not at every try; again if it is not over with the next election."""
        failure = str(error)
        if isinstance(error, DiskFullError) and "free disk space" not in failure:
            failure += ": free disk space"
        self._repeats = self._repeats + 1 if failure == self._logged else 0
        is_expected = isinstance(error, (ConnectionLostError, NotMasterError)) and self._repeats < _EXPECTED_REPEATS
        if failure != self._logged or self._repeats == _EXPECTED_REPEATS:
            level = logging.INFO if is_expected else logging.WARNING
            _LOG.log(level, "does not follow the master at %s:%d, retrying: %s", *self._address, failure)
        self._logged = failure
        self._lacks_space |= isinstance(error, DiskFullError)
        self._problem = "" if is_expected else f"it does not follow the master: {failure}"
