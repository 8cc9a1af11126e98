"""A connection to one server that reconnects when it is lost."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
from collections.abc import Callable
from typing import Final

from litemq.client.backoff import Backoff
from litemq.client.config import ClientConfig
from litemq.client.transport.channel import Answer, Attempt, Channel, Connect, PartCallback
from litemq.errors import (
    ClientClosedError,
    ConnectionLostError,
    GroupUnavailableError,
    LiteMQError,
    NotConfirmedError,
    NotEnoughReplicasError,
    NotMasterError,
    RequestTimeoutError,
)
from litemq.proto.wire_pb2 import Opcode

__all__ = ["BrokerConnection"]

_LOG = logging.getLogger(__name__)
_LASTING_ID_BYTES: Final = 16
_OF_A_FORMER_MASTER = (NotMasterError, NotConfirmedError, NotEnoughReplicasError)


class BrokerConnection:
    """A lasting connection to one server; the channel below it changes with each reconnect.

    Callers wait in ``request`` or ``wait_open``, or append a callback to ``on_open``.
    """

    def __init__(
        self, name: str, address: Callable[[], tuple[str, int]], connect: Connect, config: ClientConfig
    ) -> None:
        self.name = name
        self._address = address  # called before each attempt: the server may have moved
        self._connect = connect
        self._config = config
        self._backoff = Backoff(config.retry_backoff_ms, config.max_retry_backoff_ms)
        self._attempt = Attempt(os.urandom(_LASTING_ID_BYTES), 0)
        self._connecting: asyncio.Task[None] | None = None
        self._waiting: list[asyncio.Future[Channel]] = []
        self._probing: list[asyncio.Future[Channel]] = []  # wait for the next attempt only
        self._closed = False
        self.channel: Channel | None = None
        self._connected_to = ("", 0)
        self.gave_up = False  # the client closed the last channel: the server may still process requests sent on it
        self.on_open: list[Callable[[], None]] = []
        self.on_doubt: Callable[[], None] = lambda: None  # the server may have moved
        self.doubted_at = float("-inf")  # the last answer that suggests that the server is no longer the master
        self.outage: Callable[[], str] = lambda: ""  # why no replica of the server's group can be reached
        self.failure: LiteMQError | None = None  # why it is not connected

    @property
    def is_open(self) -> bool:
        return self.channel is not None and self.channel.is_open

    def start_connecting(self) -> None:
        """Connect in the background, unless it is connected, connecting or closed."""
        if self._connecting is None and not self.is_open and not self._closed:
            self._connecting = asyncio.get_running_loop().create_task(
                self._connect_until_open(), name=f"litemq connects to {self.name}"
            )

    async def _connect_until_open(self) -> None:
        try:
            while not self._closed:
                try:
                    self._attempt = self._attempt._replace(number=self._attempt.number + 1)
                    host, port = self._address()
                    channel = await self._connect(
                        host,
                        port,
                        client_id=self._config.client_id,
                        timeout=self._config.connect_timeout_ms / 1000,
                        on_lost=self._on_lost,
                        attempt=self._attempt,
                    )
                except LiteMQError as error:
                    self._on_connect_failed(error)
                    await asyncio.sleep(self._backoff.next_delay())
                else:
                    self._on_connected(channel, (host, port))
                    return
        finally:
            if self._connecting is asyncio.current_task():
                self._connecting = None

    @property
    def is_connecting(self) -> bool:
        """Whether it is not connected, and tries to be."""
        return self._connecting is not None

    def server_moved(self) -> None:
        """Give up an attempt to connect and the pause after it: the server has another address."""
        if self._connecting is not None:
            self._connecting.cancel()
            self._connecting = None
            self._backoff.reset()
            self.start_connecting()

    def leave_former(self, address: tuple[str, int]) -> None:
        """Close the channel, unless it is to ``address``, where the server is now."""
        if self._connected_to != address:
            self.give_up(ConnectionLostError(f"{self.name} is at {address[0]}:{address[1]} now"))

    def note_error(self, error: LiteMQError) -> None:
        """Note the error answer ``error``: it may be that of a former master."""
        if isinstance(error, _OF_A_FORMER_MASTER):
            self.doubted_at = asyncio.get_running_loop().time()
            self.on_doubt()

    def note_silence(self) -> None:
        """Note that the server takes long to answer: it may not be the master any more."""
        self.on_doubt()

    def _on_connected(self, channel: Channel, address: tuple[str, int]) -> None:
        if self._closed:
            channel.close()
            return
        self._backoff.reset()
        self.channel, self.gave_up, self.failure = channel, False, None
        self._connected_to = address
        waiting, self._waiting, self._probing = self._waiting + self._probing, [], []
        for waiter in waiting:
            if not waiter.done():
                waiter.set_result(channel)
        for callback in self.on_open:
            callback()

    def _on_connect_failed(self, error: LiteMQError) -> None:
        if self.failure is None:
            _LOG.info("cannot connect to %s: %s", self.name, error)
        self.failure = error
        self.on_doubt()
        probing, self._probing = self._probing, []
        for waiter in probing:
            if not waiter.done():
                waiter.set_exception(error)

    def _on_lost(self, reason: LiteMQError) -> None:
        if self.channel is not None:
            if self.channel.is_open:
                return  # of an earlier channel
            self.channel = None
        self.failure = reason
        if not self._closed:
            self.on_doubt()
        if not self._closed and self.on_open:
            self.start_connecting()

    def give_up(self, reason: LiteMQError) -> None:
        """Close a channel that does not answer, and connect again."""
        channel, self.channel = self.channel, None
        if channel is not None:
            self.gave_up, self.failure = True, reason
            channel.abort(reason)
            self.start_connecting()

    async def wait_open(self, within: float) -> Channel:
        """Return the channel; wait up to ``within`` seconds for one."""
        channel = self.channel
        if channel is not None and channel.is_open:
            return channel
        if self._closed:
            raise ClientClosedError("the client is closed")
        try:
            return await self._wait_in(self._waiting, within)
        except TimeoutError:
            raise self.lost(f"within {within:g} s") from None

    def lost(self, when: str) -> ConnectionLostError:
        """Return the error of a request that waited for the connection in vain."""
        outage = self.outage()
        if outage:
            return GroupUnavailableError(f"no connection to {self.name} {when}: {outage}")
        return ConnectionLostError(f"no connection to {self.name} {when}: {self.failure or 'no answer'}")

    async def _wait_in(self, waiting: list[asyncio.Future[Channel]], within: float) -> Channel:
        """Connect, and wait in a list for the channel."""
        self.start_connecting()
        waiter: asyncio.Future[Channel] = asyncio.get_running_loop().create_future()
        waiting.append(waiter)
        async with asyncio.timeout(within):
            return await waiter

    async def request(
        self,
        opcode: int,
        header: bytes,
        attachment: bytes = b"",
        *,
        within: float | None = None,
        answered_within: float | None = None,
        vital: bool = False,
        on_part: PartCallback | None = None,
    ) -> Answer:
        """Send a request once connected, and return its answer.

        ``within`` limits the wait for the connection, ``answered_within`` that for the answer. If a
        ``vital`` request times out, the connection is closed and made again.
        """
        default = self._config.request_timeout_ms / 1000
        channel = await self.wait_open(default if within is None else within)
        try:
            return await channel.request(
                opcode,
                header,
                attachment,
                timeout=default if answered_within is None else answered_within,
                on_part=on_part,
            )
        except RequestTimeoutError as error:
            if vital and channel is self.channel:
                self.give_up(error)
            raise
        except LiteMQError as error:
            self.note_error(error)
            raise

    async def probe(self, within: float) -> None:
        """Raise unless the server answers a PING within ``within`` seconds.

        One failed attempt to connect is enough to raise.

        Raises:
            ConnectionLostError: The server cannot be reached.
            RequestTimeoutError: It does not answer.
        """
        loop = asyncio.get_running_loop()
        until = loop.time() + within
        channel = self.channel
        if channel is None or not channel.is_open:
            if self._closed:
                raise ClientClosedError("the client is closed")
            try:
                channel = await self._wait_in(self._probing, within)
            except TimeoutError:
                raise ConnectionLostError(f"no answer from {self.name} within {within:g} s") from None
        await channel.request(Opcode.PING, b"", timeout=max(0.01, until - loop.time()))

    async def close(self) -> None:
        """Close the connection for good."""
        self._closed = True
        self.on_open.clear()
        connecting, channel = self._connecting, self.channel
        self.channel = None
        if connecting is not None:
            connecting.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await connecting
        if channel is not None:
            channel.close()
        for waiter in self._waiting + self._probing:
            if not waiter.done():
                waiter.set_exception(ClientClosedError("the client was closed"))
        self._waiting.clear()
        self._probing.clear()
