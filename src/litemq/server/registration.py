"""Registration of a broker with its NameServers, followed by a heartbeat every second.

Each NameServer has its own connection. If one is down, the broker logs the failure once, retries
and keeps serving: clients keep the routes they have.
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

_INITIAL_PAUSE_S: Final = 0.05
_MAX_PAUSE_S: Final = 1.0
_TIMEOUT_S: Final = 5.0
_DEREGISTER_TIMEOUT_S: Final = 0.5
_ANNOUNCE_TIMEOUT_S: Final = 1.0
_MIN_INTERVAL_S: Final = 0.05  # between two registrations: groups the creation of many topics
_HEARTBEAT_MS: Final = range(50, 60_001)  # accepted from a NameServer
_DEFAULT_HEARTBEAT_MS: Final = 1_000


class Registration:
    """The registration of a broker with all NameServers. ``facts`` returns the current facts."""

    def __init__(self, nameservers: Iterable[tuple[str, int]], facts: Callable[[], BrokerFacts]) -> None:
        self._nameservers = [_NameServerRegistration(host, port, facts) for host, port in nameservers]
        if not self._nameservers:
            raise InvalidArgumentError("a broker needs at least one NameServer, so that clients find it")
        self._closing = asyncio.Event()

    async def run(self) -> None:
        """Run until ``close``, then deregister from every NameServer that answers in time."""
        async with asyncio.TaskGroup() as background:
            runs = [background.create_task(nameserver.run()) for nameserver in self._nameservers]
            await self._closing.wait()
            for nameserver in self._nameservers:
                nameserver.close()
            _, stuck = await asyncio.wait(runs, timeout=_DEREGISTER_TIMEOUT_S)
            for task in stuck:
                task.cancel()

    def close(self) -> None:
        """Let ``run`` deregister and return."""
        self._closing.set()

    def changed(self) -> None:
        """Register again at once, because the facts have changed, for example by a new topic."""
        for nameserver in self._nameservers:
            nameserver.changed()

    async def announce(self) -> None:
        """Register again, and wait up to a second for the reachable NameServers to acknowledge."""
        self.changed()
        reachable = [nameserver for nameserver in self._nameservers if nameserver.registered.is_set()]
        if reachable:
            waiting = [asyncio.create_task(nameserver.up_to_date.wait()) for nameserver in reachable]
            _, late = await asyncio.wait(waiting, timeout=_ANNOUNCE_TIMEOUT_S)
            for task in late:
                task.cancel()

    @property
    def registered(self) -> int:
        """The number of NameServers that have registered this broker."""
        return sum(nameserver.registered.is_set() for nameserver in self._nameservers)

    async def wait_registered(self) -> None:
        """Wait until one NameServer has registered this broker."""
        waiting = [asyncio.create_task(nameserver.registered.wait()) for nameserver in self._nameservers]
        try:
            await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in waiting:
                task.cancel()


class _NameServerRegistration:
    """The registration with one NameServer, over its own connection."""

    def __init__(self, host: str, port: int, facts: Callable[[], BrokerFacts]) -> None:
        self._host = host
        self._port = port
        self._facts = facts
        self._name = ""
        self._heartbeat = b""
        self._wake = asyncio.Event()
        self._closing = asyncio.Event()
        self._stale = True  # the NameServer does not have the current facts
        self._last_failure = ""
        self._heartbeat_interval = _DEFAULT_HEARTBEAT_MS / 1000
        self.registered = asyncio.Event()
        self.up_to_date = asyncio.Event()  # the NameServer has acknowledged the current facts

    def changed(self) -> None:
        self._stale = True
        self.up_to_date.clear()
        self._wake.set()

    def close(self) -> None:
        self._closing.set()
        self._wake.set()

    async def run(self) -> None:
        pause = _INITIAL_PAUSE_S
        while not self._closing.is_set():
            peer: Peer | None = None
            try:
                peer = await Peer.connect(
                    self._host, self._port, client_id=self._broker_name(), timeout=_TIMEOUT_S, on_lost=self._on_lost
                )
                self._stale = True
                while not self._closing.is_set():
                    await self._report(peer)
                    pause = _INITIAL_PAUSE_S
                    await self._sleep(self._heartbeat_interval)
                await peer.request(Opcode.DEREGISTER_BROKER, self._heartbeat, timeout=_DEREGISTER_TIMEOUT_S)
            except (LiteMQError, DecodeError) as error:  # the broker keeps running
                self._log_failure(error)
                if not self._closing.is_set():
                    self._wake.clear()  # ``_on_lost`` set it; the pause must not be cut short
                await self._sleep(pause)
                pause = min(2 * pause, _MAX_PAUSE_S)
            finally:
                self.registered.clear()
                if peer is not None:
                    peer.close()

    async def _report(self, peer: Peer) -> None:
        """Send a heartbeat, or register if the NameServer does not have the current facts."""
        if not self._stale:
            await self._request(peer, Opcode.HEARTBEAT, self._heartbeat)
        if self._stale:
            self._stale = False  # changes from here on are for the next registration
            facts = self._facts()
            self._heartbeat = Heartbeat(
                name=facts.name, started_at=facts.started_at, epoch=facts.epoch
            ).SerializeToString()
            await self._request(peer, Opcode.REGISTER_BROKER, facts.SerializeToString())
            if not self.registered.is_set():
                _LOG.info("registered with the NameServer at %s", peer.address)
            self.registered.set()
            if not self._stale:
                self.up_to_date.set()
            self._last_failure = ""
            await asyncio.sleep(_MIN_INTERVAL_S)

    async def _request(self, peer: Peer, opcode: int, header: bytes) -> None:
        answer = await peer.request(opcode, header, timeout=_TIMEOUT_S)
        registered = Registered.FromString(answer.header)
        heartbeat_ms = registered.heartbeat_ms if registered.heartbeat_ms in _HEARTBEAT_MS else _DEFAULT_HEARTBEAT_MS
        self._heartbeat_interval = heartbeat_ms / 1000
        self._stale = self._stale or not registered.known

    def _broker_name(self) -> str:
        self._name = self._name or self._facts().name
        return self._name

    async def _sleep(self, seconds: float) -> None:
        """Sleep for ``seconds``, or until ``_wake`` is set."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._wake.wait()
        self._wake.clear()

    def _on_lost(self, _reason: LiteMQError) -> None:
        self._wake.set()  # the next heartbeat fails at once, and ``run`` reconnects

    def _log_failure(self, error: Exception) -> None:
        """Log a failure once, not once a second."""
        failure = f"{type(error).__name__}: {error}"
        if failure != self._last_failure and not self._closing.is_set():
            _LOG.warning("not registered with the NameServer at %s:%d, retrying: %s", self._host, self._port, error)
        self._last_failure = failure
