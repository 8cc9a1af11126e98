"""The connections of one client to its brokers, by the broker's name."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from google.protobuf.message import Message as WireMessage

from litemq.client.config import ClientConfig
from litemq.client.transport.channel import Answer, Connect
from litemq.client.transport.connection import BrokerConnection
from litemq.errors import NoRouteError

__all__ = ["BrokerConnections"]


class BrokerConnections:
    """The connections to all brokers.

    ``addresses`` maps each broker to its latest known address; a connection reads it when it
    connects. ``outages`` maps replicated groups that no replica serves to the reason, and
    ``group_epochs`` each replicated group to its epoch, whose master may not have registered yet.
    ``nameservers`` names the NameServers in error messages.
    """

    def __init__(self, nameservers: str, connect: Connect, config: ClientConfig) -> None:
        self.addresses: dict[str, tuple[str, int]] = {}
        self.outages: dict[str, str] = {}  # why no replica of a group serves it
        self.group_epochs: dict[str, int] = {}
        self._epochs: dict[str, int] = {}  # in which each broker has registered its address; 0: no replicated group
        self._nameservers = nameservers
        self._connect = connect
        self._config = config
        self._connections: dict[tuple[str, int], BrokerConnection] = {}
        self.on_doubt: Callable[[], None] = lambda: None  # a broker may have moved

    def learn(self, broker: str, host: str, port: int, epoch: int | None = None) -> None:
        """Note the address that ``broker`` has registered in ``epoch``; ``None``: it is not known.

        Connections that cannot be made use a new address at once. If the epoch is later, the group
        has another master: connections to the former one are closed, even if it still answers.
        """
        address, before, known = (host, port), self.addresses.get(broker), self._epochs.get(broker, 0)
        connections = [connection for (name, _), connection in self._connections.items() if name == broker]
        if epoch is None and known:
            if address != before:
                self.on_doubt()  # the registrations say which of the two is the later one
            return
        if epoch is not None:
            if epoch < known and any(connection.is_open for connection in connections):
                return  # of a NameServer that is cut off from the master
            self._epochs[broker] = epoch
        self.addresses[broker] = address
        for connection in connections:
            if before not in (None, address):
                connection.server_moved()
            if epoch is not None and epoch > known:
                connection.leave_former(address)

    @property
    def is_any_connecting(self) -> bool:
        """Whether a broker cannot be reached now."""
        return any(connection.is_connecting for connection in self._connections.values())

    @property
    def are_groups_used(self) -> bool:
        """Whether a broker may be a replicated group: its master may change although it answers."""
        return any(self._epochs.get(name) != 0 for name, _ in self._connections)

    @property
    def is_any_outdated(self) -> bool:
        """Whether a group has a later epoch than the address of its master."""
        return any(self.group_epochs.get(name, 0) > self._epochs.get(name, 0) for name, _ in self._connections)

    def is_any_doubted(self, since: float) -> bool:
        """Return whether a broker has answered since ``since`` that it may not be the master."""
        return any(connection.doubted_at >= since for connection in self._connections.values())

    def to(self, broker: str, number: int = 0) -> BrokerConnection:
        """Return connection ``number`` to ``broker``, open or not."""
        connection = self._connections.get((broker, number))
        if connection is None:

            def address() -> tuple[str, int]:
                known = self.addresses.get(broker)
                if known is None:
                    raise NoRouteError(f"no NameServer ({self._nameservers}) knows the address of broker {broker!r}")
                return known

            connection = BrokerConnection(f"broker {broker!r}", address, self._connect, self._config)
            connection.on_doubt = lambda: self.on_doubt()
            connection.outage = lambda: self.outages.get(broker, "")
            self._connections[broker, number] = connection
        return connection

    def for_queue(self, broker: str, queue_id: int, on_open: Callable[[], None]) -> BrokerConnection:
        """Return the connection of a queue; it calls ``on_open`` after each connect."""
        # One connection for each queue, so that requests to it arrive in order.
        connection = self.to(broker, queue_id % self._config.connections_per_broker)
        connection.on_open.append(on_open)
        return connection

    async def ask(self, broker: str, opcode: int, request: WireMessage, *, vital: bool = False) -> bytes:
        """Send ``request`` to ``broker`` and return the header of its answer."""
        return (await self.to(broker).request(opcode, request.SerializeToString(), vital=vital)).header

    async def ask_with_attachment(
        self, broker: str, opcode: int, header: bytes, attachment: bytes, extra_seconds: float
    ) -> Answer:
        """Send a request with an attachment.

        Its timeout is ``extra_seconds`` longer than ``request_timeout_ms``.
        """
        timeout = self._config.request_timeout_ms / 1000 + extra_seconds
        return await self.to(broker).request(opcode, header, attachment, answered_within=timeout)

    async def close(self) -> None:
        """End all connections."""
        await asyncio.gather(*(connection.close() for connection in self._connections.values()))
