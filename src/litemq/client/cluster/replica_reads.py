"""Reads from the replicas of a group, for clients with ``read_from="replica"``."""

from __future__ import annotations

import asyncio
import logging
import random
from functools import partial
from typing import Final

from litemq.client.cluster.connections import BrokerConnections
from litemq.client.cluster.nameservers import NameServers
from litemq.client.config import ClientConfig
from litemq.client.followers import followers_in_sync
from litemq.client.transport.channel import Answer, Connect, PartCallback
from litemq.client.transport.connection import BrokerConnection
from litemq.errors import (
    ClientClosedError,
    LiteMQError,
    NetworkError,
    NotMasterError,
    OffsetOutOfRangeError,
    TopicNotFoundError,
)
from litemq.net.client import Peer
from litemq.proto.wire_pb2 import ReplicaGroup

__all__ = ["ReplicaReads"]

# The replica is gone, or does not have what the master may have.
_ASK_MASTER: Final = (NetworkError, NotMasterError, TopicNotFoundError, OffsetOutOfRangeError, ClientClosedError)
_CONNECT: Final[Connect] = partial(Peer.connect, reads_replica=True)
_LOG = logging.getLogger(__name__)


class ReplicaReads:
    """Sends reads to a live replica that is in sync, and otherwise to the master."""

    def __init__(
        self,
        nameservers: NameServers,
        connections: BrokerConnections,
        config: ClientConfig,
        connect: Connect = _CONNECT,
    ) -> None:
        self._nameservers = nameservers
        self._connections = connections
        self._config = config
        self._connect = connect
        self._chosen: dict[str, BrokerConnection] = {}  # by group
        self._replicas: dict[tuple[str, int], BrokerConnection] = {}  # by address
        self._views: dict[str, ReplicaGroup] | None = None  # of the last answer, if there was one
        self._refresh_at = 0.0
        self._refreshing: asyncio.Task[None] | None = None

    async def request(
        self,
        broker: str,
        opcode: int,
        header: bytes,
        *,
        answered_within: float | None = None,
        vital: bool = False,
        on_part: PartCallback | None = None,
    ) -> Answer:
        """Send a read, and return its answer: of a replica, or else of the master."""
        master = self._connections.to(broker)
        replica = await self._choose(broker) if self._config.read_from == "replica" else None
        if replica is None:
            return await master.request(opcode, header, answered_within=answered_within, vital=vital, on_part=on_part)
        parts = 0

        def count(header: bytes, attachment: bytes) -> None:
            nonlocal parts
            parts += 1
            if on_part is not None:
                on_part(header, attachment)

        try:
            return await replica.request(
                opcode,
                header,
                within=self._config.contact_timeout_ms / 1000,
                answered_within=answered_within,
                vital=vital,
                on_part=None if on_part is None else count,
            )
        except _ASK_MASTER as error:
            _LOG.info("%s does not serve a read, asking the master: %s", replica.name, error)
            if isinstance(error, (NetworkError, NotMasterError)):
                self._chosen.pop(broker, None)
                self._refresh_at = 0.0
            if parts:  # the caller has them: it continues after them
                raise
        return await master.request(opcode, header, answered_within=answered_within, vital=vital, on_part=on_part)

    async def _choose(self, broker: str) -> BrokerConnection | None:
        """Return the connection to a replica of ``broker`` other than its master, if it has one."""
        await self._refresh_if_due()
        view = self._views.get(broker) if self._views is not None else None
        if view is None:
            return None
        usable = followers_in_sync(view)
        chosen = self._chosen.get(broker)
        if chosen is not None and any(chosen is self._replicas.get(address) for address in usable):
            return chosen
        usable = [address for address in usable if not self._is_lost(address)]
        if not usable:
            return None
        address = random.choice(usable)  # noqa: S311  it spreads the readers
        if address not in self._replicas:
            name = f"a replica of {broker} at {address[0]}:{address[1]}"
            self._replicas[address] = BrokerConnection(name, lambda: address, self._connect, self._config)
        self._chosen[broker] = self._replicas[address]
        return self._chosen[broker]

    def _is_lost(self, address: tuple[str, int]) -> bool:
        """Return whether the connection to ``address`` was lost, and restore it."""
        replica = self._replicas.get(address)
        if replica is None or replica.failure is None:
            return False
        replica.start_connecting()
        return True

    async def _refresh_if_due(self) -> None:
        """Start to ask for the groups again if the last answer is old; wait only for the first one.

        While no NameServer answers, reads go on with the last answer.
        """
        loop = asyncio.get_running_loop()
        if self._refreshing is None and loop.time() >= self._refresh_at:
            self._refreshing = loop.create_task(self._refresh(), name="litemq refreshes replicas")
        if self._refreshing is not None and self._views is None:
            await asyncio.wait({self._refreshing}, timeout=self._config.contact_timeout_ms / 1000)

    async def _refresh(self) -> None:
        """Ask for the groups, and drop the connections to replicas that are gone."""
        try:
            self._views = {view.name: view for view in await self._nameservers.replica_groups()}
            known = {(each.host, each.port) for view in self._views.values() for each in view.replicas}
            gone = [self._replicas.pop(address) for address in set(self._replicas) - known]
            await asyncio.gather(*(replica.close() for replica in gone))
        except LiteMQError as error:
            _LOG.info("cannot refresh the replicas, will retry: %s", error)
        finally:
            self._refresh_at = asyncio.get_running_loop().time() + self._config.route_refresh_ms / 1000
            self._refreshing = None

    async def close(self) -> None:
        """End all connections."""
        refreshing = self._refreshing
        if refreshing is not None:
            refreshing.cancel()
            await asyncio.gather(refreshing, return_exceptions=True)
        await asyncio.gather(*(replica.close() for replica in self._replicas.values()))
