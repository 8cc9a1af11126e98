"""The role of a follower: one session after another with the group's master."""

from __future__ import annotations

import asyncio
import logging
from typing import Final

from litemq.broker.replication.log_session import CopyNeeded, LogSession
from litemq.errors import LiteMQError, LogDivergedError, StoreFailedError
from litemq.net.client import Peer
from litemq.storage.replica_store import ReplicaStore

__all__ = ["FollowerRole"]

_FIRST_PAUSE_S: Final = 0.05
_MAX_PAUSE_S: Final = 1.0
_CONNECT_S: Final = 2.0
_LOG = logging.getLogger(__name__)


class FollowerRole:
    """Follows the master at ``address``."""

    def __init__(self, store: ReplicaStore, address: tuple[str, int], *, group: str, broker_id: str) -> None:
        self._store = store
        self._address = address
        self._group = group
        self._broker_id = broker_id
        self._logged = ""

    async def run(self) -> CopyNeeded:
        """Follow until cancelled. Return only if the master's log has to be copied first.

        Raises:
            LogDivergedError: Confirmed records would have to be cut off: an operator decides.
            StoreFailedError: This store has failed.
        """
        pause = _FIRST_PAUSE_S
        host, port = self._address
        while True:
            peer: Peer | None = None
            try:
                peer = await Peer.connect(host, port, client_id=self._broker_id, timeout=_CONNECT_S)
                session = LogSession(self._store, peer, group=self._group)
                return await session.run()
            except (LogDivergedError, StoreFailedError):
                raise
            except LiteMQError as error:
                self._log_failure(error)
            finally:
                if peer is not None:
                    peer.close()
            await asyncio.sleep(pause)
            pause = min(2 * pause, _MAX_PAUSE_S)

    def _log_failure(self, error: LiteMQError) -> None:
        """Log a failure once, not at every try."""
        if str(error) != self._logged:
            self._logged = str(error)
            _LOG.warning("does not follow the master at %s:%d, retrying: %s", *self._address, error)
