"""A connection that is made again when it ends."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable

from litemq.client.backoff import Backoff
from litemq.client.config import ClientConfig
from litemq.client.transport.channel import Answer, Channel, Connect
from litemq.errors import ClientClosedError, ConnectionLostError, LiteMQError, RequestTimeoutError

__all__ = ["Link"]

_LOG = logging.getLogger(__name__)


class Link:
    """One server under a lasting name. Whoever wants something of it waits until there is a connection, or asks to be told."""

    def __init__(self, name: str, address: Callable[[], tuple[str, int]], connect: Connect, config: ClientConfig) -> None:
        self.name = name
        self._address = address  # asked before each attempt: a server may come back elsewhere
        self._connect = connect
        self._config = config
        self._backoff = Backoff(config.retry_backoff_ms, config.max_retry_backoff_ms)
        self._connecting: asyncio.Task[None] | None = None
        self._waiting: list[asyncio.Future[Channel]] = []
        self._closed = False
        self.channel: Channel | None = None
        self.gave_up = False  # this side ended the last connection: what was sent on it may still be carried out
        self.when_open: list[Callable[[], None]] = []
        self.failure: LiteMQError | None = None  # why there is no connection

    @property
    def is_open(self) -> bool:
        return self.channel is not None and self.channel.is_open

    def wake(self) -> None:
        """See to it that there will be a connection."""
        if self._connecting is None and not self.is_open and not self._closed:
            self._connecting = asyncio.get_running_loop().create_task(self._keep_trying(), name=f"litemq connects to {self.name}")

    async def _keep_trying(self) -> None:
        try:
            while not self._closed:
                try:
                    host, port = self._address()
                    channel = await self._connect(
                        host, port, client_id=self._config.client_id, timeout=self._config.connect_timeout_ms / 1000, lost=self._lost
                    )
                except LiteMQError as error:
                    self._fail(error)
                    await asyncio.sleep(self._backoff.next())
                else:
                    self._open(channel)
                    return
        finally:
            self._connecting = None

    def _open(self, channel: Channel) -> None:
        if self._closed:
            channel.close()
            return
        self._backoff.reset()
        self.channel, self.gave_up, self.failure = channel, False, None
        waiting, self._waiting = self._waiting, []
        for waiter in waiting:
            if not waiter.done():
                waiter.set_result(channel)
        for tell in self.when_open:
            tell()

    def _fail(self, error: LiteMQError) -> None:
        if self.failure is None:
            _LOG.info("no connection to %s: %s", self.name, error)
        self.failure = error

    def _lost(self, reason: LiteMQError) -> None:
        if self.channel is not None:
            if self.channel.is_open:
                return  # the end of a former connection, long given up
            self.channel = None
        self.failure = reason
        if not self._closed and self.when_open:
            self.wake()

    def give_up(self, reason: LiteMQError) -> None:
        """End a connection that does not answer, and make another."""
        channel, self.channel = self.channel, None
        if channel is not None:
            self.gave_up, self.failure = True, reason
            channel.abort(reason)
            self.wake()

    async def opened(self, within: float) -> Channel:
        """The connection, waited for."""
        channel = self.channel
        if channel is not None and channel.is_open:
            return channel
        if self._closed:
            raise ClientClosedError("the client is closed")
        self.wake()
        waiter: asyncio.Future[Channel] = asyncio.get_running_loop().create_future()
        self._waiting.append(waiter)
        try:
            async with asyncio.timeout(within):
                return await waiter
        except TimeoutError:
            raise ConnectionLostError(f"no connection to {self.name} within {within:g} s: {self.failure or 'nobody answers'}") from None

    async def request(
        self,
        opcode: int,
        header: bytes,
        attachment: bytes = b"",
        *,
        within: float | None = None,
        answered_within: float | None = None,
        vital: bool = False,
    ) -> Answer:
        """Ask, once there is a connection. ``vital``: a server that does not answer this in time is there no longer."""
        default = self._config.request_timeout_ms / 1000
        channel = await self.opened(default if within is None else within)
        try:
            return await channel.request(opcode, header, attachment, timeout=default if answered_within is None else answered_within)
        except RequestTimeoutError as error:
            if vital and channel is self.channel:
                self.give_up(error)
            raise

    async def close(self) -> None:
        """End the connection for good."""
        self._closed = True
        self.when_open.clear()
        connecting, channel = self._connecting, self.channel
        self.channel = None
        if connecting is not None:
            connecting.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await connecting
        if channel is not None:
            channel.close()
        for waiter in self._waiting:
            if not waiter.done():
                waiter.set_exception(ClientClosedError("the client was closed"))
        self._waiting.clear()
