"""A broker's word to the NameServers: where it is, what it has, and every second that it is still there.

Each NameServer is told by itself, over a connection of its own. One that is down is tried again and again, logged once, and never a
reason for the broker to stop: clients go on with the routes they have.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Iterable
from typing import Final

from google.protobuf.message import DecodeError

from litemq.errors import InvalidArgumentError, LiteMQError
from litemq.net.client import Peer
from litemq.proto.wire_pb2 import BrokerFacts, Heartbeat, Opcode, Registered

__all__ = ["Registration"]

_LOG = logging.getLogger(__name__)

_FIRST_PAUSE: Final = 0.05
_LONGEST_PAUSE: Final = 1.0
_TIMEOUT: Final = 5.0
_GOODBYE_TIMEOUT: Final = 0.5
_ANNOUNCED_WITHIN: Final = 1.0
_APART: Final = 0.05  # a thousand topics created in a row are not told one by one
_HEARTBEAT_MS: Final = range(50, 60_001)  # what is believed of a NameServer
_DEFAULT_HEARTBEAT_MS: Final = 1_000


class Registration:
    """Keeps a broker registered while it runs. ``facts`` is asked for what is true now, each time that everything is told."""

    def __init__(self, nameservers: Iterable[tuple[str, int]], facts: Callable[[], BrokerFacts]) -> None:
        self._links = [_Link(host, port, facts) for host, port in nameservers]
        if not self._links:
            raise InvalidArgumentError("a broker without a NameServer is found by nobody: name at least one")
        self._closing = asyncio.Event()

    async def run(self) -> None:
        """In the background, until ``close``: then goodbye is said to those who can be reached within half a second."""
        async with asyncio.TaskGroup() as background:
            links = [background.create_task(link.run()) for link in self._links]
            await self._closing.wait()
            for link in self._links:
                link.close()
            _, stuck = await asyncio.wait(links, timeout=_GOODBYE_TIMEOUT)
            for task in stuck:
                task.cancel()

    def close(self) -> None:
        """The broker stops: let ``run`` end."""
        self._closing.set()

    def changed(self) -> None:
        """The facts are others now, a topic was created for example: they are told at once."""
        for link in self._links:
            link.changed()

    async def announce(self) -> None:
        """The same, and wait until those NameServers know that can be reached: a second at most."""
        self.changed()
        reachable = [link for link in self._links if link.registered.is_set()]
        if reachable:
            telling = [asyncio.create_task(link.told.wait()) for link in reachable]
            _, late = await asyncio.wait(telling, timeout=_ANNOUNCED_WITHIN)
            for task in late:
                task.cancel()

    @property
    def registered(self) -> int:
        """How many NameServers know this broker."""
        return sum(link.registered.is_set() for link in self._links)

    async def wait_registered(self) -> None:
        """Until one NameServer knows this broker."""
        waiting = [asyncio.create_task(link.registered.wait()) for link in self._links]
        try:
            await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in waiting:
                task.cancel()


class _Link:
    """One NameServer, and what it was told."""

    def __init__(self, host: str, port: int, facts: Callable[[], BrokerFacts]) -> None:
        self._host = host
        self._port = port
        self._facts = facts
        self._name = ""
        self._beat = b""
        self._wake = asyncio.Event()
        self._closing = asyncio.Event()
        self._stale = True  # what the NameServer knows is not what is true
        self._complaint = ""
        self._heartbeat = _DEFAULT_HEARTBEAT_MS / 1000
        self.registered = asyncio.Event()
        self.told = asyncio.Event()  # what is true

    def changed(self) -> None:
        self._stale = True
        self.told.clear()
        self._wake.set()

    def close(self) -> None:
        self._closing.set()
        self._wake.set()

    async def run(self) -> None:
        pause = _FIRST_PAUSE
        while not self._closing.is_set():
            peer: Peer | None = None
            try:
                peer = await Peer.connect(self._host, self._port, client_id=self._who(), timeout=_TIMEOUT, lost=self._lost)
                self._stale = True
                while not self._closing.is_set():
                    await self._tell(peer)
                    pause = _FIRST_PAUSE
                    await self._sleep(self._heartbeat)
                await peer.request(Opcode.DEREGISTER_BROKER, self._beat, timeout=_GOODBYE_TIMEOUT)
            except (LiteMQError, DecodeError) as error:  # whatever stands at the address, the broker goes on
                self._complain(error)
                if not self._closing.is_set():
                    self._wake.clear()  # that the connection was lost is known by now, and is no reason to hurry
                await self._sleep(pause)
                pause = min(2 * pause, _LONGEST_PAUSE)
            finally:
                self.registered.clear()
                if peer is not None:
                    peer.close()

    async def _tell(self, peer: Peer) -> None:
        """Everything if it is new to the NameServer, otherwise that this broker is there."""
        if not self._stale:
            await self._ask(peer, Opcode.HEARTBEAT, self._beat)
        if self._stale:
            self._stale = False  # what changes from here on is told the next time
            facts = self._facts()
            self._beat = Heartbeat(name=facts.name, started_at=facts.started_at).SerializeToString()
            await self._ask(peer, Opcode.REGISTER_BROKER, facts.SerializeToString())
            if not self.registered.is_set():
                _LOG.info("registered with the NameServer at %s", peer.address)
            self.registered.set()
            if not self._stale:
                self.told.set()
            self._complaint = ""
            await asyncio.sleep(_APART)

    async def _ask(self, peer: Peer, opcode: int, header: bytes) -> None:
        answer = await peer.request(opcode, header, timeout=_TIMEOUT)
        told = Registered.FromString(answer.header)
        self._heartbeat = (told.heartbeat_ms if told.heartbeat_ms in _HEARTBEAT_MS else _DEFAULT_HEARTBEAT_MS) / 1000
        self._stale = self._stale or not told.known

    def _who(self) -> str:
        self._name = self._name or self._facts().name
        return self._name

    async def _sleep(self, seconds: float) -> None:
        """Until there is something to do, or the time has passed."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._wake.wait()
        self._wake.clear()

    def _lost(self, _reason: LiteMQError) -> None:
        self._wake.set()  # the next heartbeat finds out, at once

    def _complain(self, error: Exception) -> None:
        """Log what is wrong once, not once a second."""
        complaint = f"{type(error).__name__}: {error}"
        if complaint != self._complaint and not self._closing.is_set():
            _LOG.warning("not registered with the NameServer at %s:%d, trying again: %s", self._host, self._port, error)
        self._complaint = complaint
