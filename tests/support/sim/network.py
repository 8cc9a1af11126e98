"""A network between the hosts of a simulation: delays, cuts, lost connections.

A connection is a stream in each direction: bytes arrive in order, or the connection ends. While a
direction is cut, its bytes wait, as TCP would send them again later.
"""

from __future__ import annotations

import asyncio
import contextvars
import errno
import random
from collections import deque
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, Final

from support.sim.process import PROCESS, Host, Process

__all__ = ["Network", "Side"]

_CONNECT_AGAIN_S: Final = 0.3
_DELAY_S: Final = 0.0003
_END: Final = b""  # of a stream
_MAX_RESEND_S: Final = 0.3


class Side(asyncio.Transport):
    """One end of a connection."""

    def __init__(self, network: Network, process: Process | None, host: Host, peer_name: tuple[str, int]) -> None:
        super().__init__({"peername": peer_name})
        self._network = network
        self.process = process
        self.host = host
        self.peer: Side
        self.protocol: asyncio.Protocol | None = None
        self._context = contextvars.copy_context()
        self._outgoing: deque[tuple[float, int, bytes]] = deque()  # when it arrives, and at which byte
        self._sent_bytes = 0
        self._received_bytes = 0
        self._is_reset = False  # nothing that it sends arrives any more
        self._timer: asyncio.TimerHandle | None = None
        self._incoming: deque[bytes] = deque()
        self._is_reading = True
        self._is_closing = False
        self.is_over = False  # nothing arrives any more

    # What a protocol calls ------------------------------------------------------------------------

    def write(self, data: bytes | bytearray | memoryview) -> None:
        if data and not self._is_closing:
            self._send(bytes(data))

    def writelines(self, list_of_data: Any) -> None:
        self.write(b"".join(bytes(data) for data in list_of_data))

    def close(self) -> None:
        if not self._is_closing:
            self._is_closing = True
            self._send(_END)
            self.end(None)

    def abort(self) -> None:
        if not self.is_over:
            self._is_closing = True
            self._outgoing.clear()
            self._send(_END)
            self.end(None)

    def is_closing(self) -> bool:
        return self._is_closing

    def pause_reading(self) -> None:
        self._is_reading = False

    def resume_reading(self) -> None:
        if not self._is_reading:
            self._is_reading = True
            self._network.loop.call_soon(self._deliver, context=self._context)

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        pass

    # The network ----------------------------------------------------------------------------------

    @property
    def link(self) -> tuple[str, str]:
        """The direction in which this end sends."""
        return self.host.name, self.peer.host.name

    def open(self, make_protocol: Callable[[], asyncio.Protocol]) -> None:
        """Make the protocol, in the context of this end's process."""
        if not self.is_over:
            self.protocol = make_protocol()
            self.protocol.connection_made(self)

    def accept(self, make_protocol: Callable[[], asyncio.Protocol]) -> None:
        """Open a server's end once its process runs."""
        self._network.loop.call_soon(self.open, make_protocol, context=self._context)

    def _send(self, data: bytes) -> None:
        if self._is_reset:
            return
        self._outgoing.append((self._network.loop.time() + self._network.delay(self.link), self._sent_bytes, data))
        self._sent_bytes += len(data)
        self.pump()

    def pump(self, *, is_late: bool = False) -> None:
        """Let the waiting bytes arrive when it is time; after a cut, they are sent again."""
        if self._outgoing and self._timer is None:
            at = self._outgoing[0][0]
            if is_late:
                at = max(at, self._network.loop.time() + self._network.random.random() * _MAX_RESEND_S)
            self._timer = self._network.loop.call_at(at, self._arrive, context=self._network.context)

    def _arrive(self) -> None:
        self._timer = None
        if self.link in self._network.cuts:
            return  # until the link is healed
        now = self._network.loop.time()
        while self._outgoing and self._outgoing[0][0] <= now:
            _, begin, data = self._outgoing.popleft()
            self.peer.receive(begin, data)
        self.pump()

    def receive(self, begin: int, data: bytes) -> None:
        """Take what has arrived, which begins at byte ``begin`` of the stream."""
        network = self._network
        # An end may come early. Bytes after a gap would be no fault that TCP lets a peer see.
        assert data == _END or begin == self._received_bytes, f"bytes are missing before {begin}"
        self._received_bytes += len(data)
        network.trace("arrive", *self.peer.link, len(data))
        if self.is_over:
            if self.host.has_power:  # it does not know the connection any more
                self.peer.end_later(ConnectionResetError(errno.ECONNRESET, "connection reset"))
        else:
            self._incoming.append(data)
            network.loop.call_soon(self._deliver, context=self._context)

    def _deliver(self) -> None:
        while self._incoming and self._is_reading and not self.is_over and self.protocol is not None:
            data = self._incoming.popleft()
            if data == _END:
                self._is_closing = True
                self._outgoing.clear()
                self.end(None)
            else:
                self.protocol.data_received(data)

    def reset(self) -> None:
        """Lose what is on its way, and what is sent from now on. The caller ends both sides."""
        self._outgoing.clear()
        self._is_reset = True

    def end_later(self, error: Exception) -> None:
        """End this side when the news arrives, unless the way back is cut."""
        if self.peer.link not in self._network.cuts:
            delay = self._network.delay(self.peer.link)
            self._network.loop.call_later(delay, self.end, error, context=self._network.context)

    def end(self, error: Exception | None) -> None:
        """End this side: the protocol learns it in the next tick of its process."""
        if not self.is_over:
            self.is_over = self._is_closing = True
            self._network.loop.call_soon(self._lose, error, context=self._context)

    def _lose(self, error: Exception | None) -> None:
        if self.protocol is not None:
            self.protocol.connection_lost(error)

    def lose_process(self, *, has_power: bool) -> None:
        """The process of this side is gone; with power, its host closes the connection."""
        was_over, self.is_over = self.is_over, True
        self._incoming.clear()
        if not has_power:
            self._outgoing.clear()
        elif not was_over:
            self._send(_END)


class _Listener:
    """An address on which a process accepts connections."""

    def __init__(self, network: Network, make_protocol: Callable[[], asyncio.Protocol], host: str, port: int) -> None:
        process = PROCESS.get()
        assert process is not None
        self.process = process
        self.make_protocol = make_protocol
        self.context = contextvars.copy_context()
        self.address = host, port
        self._network = network
        self.sockets = [SimpleNamespace(getsockname=lambda: (host, port))]

    def close(self) -> None:
        if self._network.listeners.get(self.address) is self:
            del self._network.listeners[self.address]


class Network:
    """The links between all hosts; ``cuts`` has the directions that carry nothing now."""

    def __init__(self, loop: asyncio.AbstractEventLoop, chosen: random.Random, trace: Callable[..., None]) -> None:
        self.loop = loop
        self.random = chosen
        self.trace = trace
        self.context = contextvars.Context()
        self.hosts: dict[str, Host] = {}
        self.cuts: set[tuple[str, str]] = set()
        self.slowness: dict[tuple[str, str], float] = {}
        self.listeners: dict[tuple[str, int], _Listener] = {}
        self._sides: list[Side] = []

    def delay(self, link: tuple[str, str]) -> float:
        slow = self.slowness.get(link, 0.0)
        return self.random.expovariate(1 / _DELAY_S) + slow * (0.5 + self.random.random())

    def listen(self, make_protocol: Callable[[], asyncio.Protocol], host: str, port: int) -> _Listener:
        listener = self.listeners[host, port] = _Listener(self, make_protocol, host, port)
        return listener

    async def connect(
        self, make_protocol: Callable[[], asyncio.Protocol], host: str, port: int
    ) -> tuple[Side, asyncio.Protocol]:
        process = PROCESS.get()
        assert process is not None
        there, back = (process.host.name, host), (host, process.host.name)
        while True:
            await asyncio.sleep(self.delay(there))
            if there not in self.cuts and self.hosts[host].has_power:
                listener = self.listeners.get((host, port))
                await asyncio.sleep(self.delay(back))
                if back not in self.cuts and self.hosts[host].has_power:
                    break
            await asyncio.sleep(_CONNECT_AGAIN_S)
        if listener is None or self.listeners.get((host, port)) is not listener:
            raise ConnectionRefusedError(errno.ECONNREFUSED, "connection refused")
        client = Side(self, process, process.host, (host, port))
        server = listener.context.run(Side, self, listener.process, listener.process.host, (process.name, 0))
        client.peer, server.peer = server, client
        self._sides = [side for side in self._sides if not (side.is_over and side.peer.is_over)]
        self._sides += [client, server]
        server.accept(listener.make_protocol)
        client.open(make_protocol)
        assert client.protocol is not None
        return client, client.protocol

    # Faults ---------------------------------------------------------------------------------------

    def heal(self) -> None:
        """End all cuts, and let every link be fast."""
        self.cuts.clear()
        self.slowness.clear()
        for side in self._sides:
            side.pump(is_late=True)

    def lose_process(self, process: Process, *, has_power: bool) -> None:
        """End all connections of a process that is gone."""
        for listener in list(self.listeners.values()):
            if listener.process is process:
                listener.close()
        for side in self._sides:
            if side.process is process:
                side.lose_process(has_power=has_power)

    def reset_connection(self) -> None:
        """End one connection, with all that is on its way."""
        alive = [side for side in self._sides if not side.is_over and not side.peer.is_over]
        if alive:
            for side in (one := self.random.choice(alive)), one.peer:
                side.reset()
                delay = self.random.random() * _MAX_RESEND_S
                error = ConnectionResetError(errno.ECONNRESET, "connection reset")
                self.loop.call_later(delay, side.end, error, context=self.context)
