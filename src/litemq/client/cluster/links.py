"""The connections of one client to its brokers, by the broker's name."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from google.protobuf.message import Message as WireMessage

from litemq.client.config import ClientConfig
from litemq.client.transport.channel import Answer, Connect
from litemq.client.transport.connection import Link
from litemq.errors import NoRouteError

__all__ = ["Links"]


class Links:
    """``addresses`` has the brokers' addresses, as the NameServers (``described``) last said. A link reads it when it connects."""

    def __init__(self, described: str, connect: Connect, config: ClientConfig) -> None:
        self.addresses: dict[str, tuple[str, int]] = {}
        self._described = described
        self._connect = connect
        self._config = config
        self._links: dict[tuple[str, int], Link] = {}

    def to(self, broker: str, number: int = 0) -> Link:
        """Return link ``number`` to ``broker``, connected or not."""
        link = self._links.get((broker, number))
        if link is None:

            def address() -> tuple[str, int]:
                known = self.addresses.get(broker)
                if known is None:
                    raise NoRouteError(f"where broker {broker!r} is, no NameServer says ({self._described})")
                return known

            link = self._links[broker, number] = Link(f"broker {broker!r}", address, self._connect, self._config)
        return link

    def of_queue(self, broker: str, queue_id: int, on_open: Callable[[], None]) -> Link:
        """Return the link of a queue, which calls ``on_open`` each time that it has connected."""
        # A queue stays with one connection: its requests arrive in their order.
        link = self.to(broker, queue_id % self._config.connections_per_broker)
        link.when_open.append(on_open)
        return link

    async def ask(self, broker: str, opcode: int, request: WireMessage, *, vital: bool = False) -> bytes:
        """Send ``request`` to ``broker`` and return the header of its answer."""
        return (await self.to(broker).request(opcode, request.SerializeToString(), vital=vital)).header

    async def ask_whole(self, broker: str, opcode: int, header: bytes, attachment: bytes, more_seconds: float) -> Answer:
        """Send a request with an attachment; the answer may take ``more_seconds`` than usual."""
        patience = self._config.request_timeout_ms / 1000 + more_seconds
        return await self.to(broker).request(opcode, header, attachment, answered_within=patience)

    async def close(self) -> None:
        """End all connections."""
        await asyncio.gather(*(link.close() for link in self._links.values()))
