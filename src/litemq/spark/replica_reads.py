"""Blocking reads from the followers of replicated groups."""

from __future__ import annotations

import logging
import random
import time
from collections.abc import Callable
from typing import Final

from litemq.client.followers import followers_in_sync
from litemq.errors import LiteMQError
from litemq.net.blocking import BlockingPeer
from litemq.proto.wire_pb2 import ReplicaGroup

__all__ = ["FollowerPeers"]

_REFRESH_S: Final = 10.0
_CONNECT_S: Final = 2.0
_LOG = logging.getLogger(__name__)


class FollowerPeers:
    """One connection per group, to a random follower that is in sync. Not thread-safe."""

    def __init__(self, groups: Callable[[], list[ReplicaGroup]], connect: Callable[..., BlockingPeer]) -> None:
        """``groups`` asks a NameServer; ``connect`` takes host, port and ``connect_timeout``."""
        self._groups = groups
        self._connect = connect
        self._addresses: dict[str, list[tuple[str, int]]] = {}  # that were not tried yet, by broker
        self._refresh_at = 0.0
        self._peers: dict[str, BlockingPeer] = {}

    def peer(self, broker: str) -> BlockingPeer | None:
        """Return the connection to a follower of ``broker``; ``None`` if no follower answers."""
        self._refresh_if_due()
        peer = self._peers.get(broker)
        addresses = self._addresses.get(broker, [])
        while peer is None and addresses:
            host, port = addresses.pop()
            try:
                peer = self._peers[broker] = self._connect(host, port, connect_timeout=_CONNECT_S)
            except LiteMQError as error:
                _LOG.info("cannot read from the follower at %s:%d: %s", host, port, error)
        return peer

    def _refresh_if_due(self) -> None:
        """Ask for the followers in sync; in random order, so that the tasks spread over them."""
        if time.monotonic() < self._refresh_at:
            return
        try:
            self._addresses = {view.name: followers_in_sync(view) for view in self._groups()}
        except LiteMQError as error:
            _LOG.info("cannot look up followers: %s", error)
        for addresses in self._addresses.values():
            random.shuffle(addresses)
        self._refresh_at = time.monotonic() + _REFRESH_S

    def drop(self, broker: str, why: str) -> None:
        """Close the connection to the follower of ``broker``."""
        _LOG.info("a follower of %s does not serve a read: %s", broker, why)
        self._peers.pop(broker).close()

    def close(self) -> None:
        """Close all connections."""
        for peer in self._peers.values():
            peer.close()
        self._peers.clear()
