"""A TCP proxy that delivers late: a network that keeps what a client has sent and given up."""

from __future__ import annotations

import asyncio
from typing import Self

__all__ = ["LateProxy"]


class LateProxy:
    """Forwards connections to ``port``.

    From ``withhold`` to ``deliver``, it keeps back the requests of the connections that were open,
    even if their clients close them. Meanwhile it accepts no connection before ``accept``.
    """

    def __init__(self, port: int) -> None:
        self._target = port
        self._server: asyncio.Server | None = None
        self._forwarding: set[asyncio.Task[None]] = set()
        self._late: set[asyncio.Task[None]] = set()
        self._withheld: set[asyncio.Task[None]] = set()
        self._may_deliver = asyncio.Event()
        self.port = 0

    async def accept(self) -> None:
        """Accept connections, at the same address as before."""
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", self.port)
        self.port = self._server.sockets[0].getsockname()[1]

    def withhold(self) -> None:
        assert self._server is not None
        self._server.close()
        self._late = set(self._forwarding)

    async def deliver(self) -> None:
        """Deliver what was withheld; return when its connections have ended."""
        self._may_deliver.set()
        await asyncio.gather(*self._withheld)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._forwarding.add(task)
        to_reader, to_writer = await asyncio.open_connection("127.0.0.1", self._target)
        answering = asyncio.create_task(_forward_answers(to_reader, writer))
        try:
            while data := await reader.read(65_536):
                if task in self._late:
                    self._withheld.add(task)
                    await self._may_deliver.wait()
                to_writer.write(data)
                await to_writer.drain()
            to_writer.write_eof()
            await answering
        except (OSError, asyncio.CancelledError):
            answering.cancel()
            await asyncio.gather(answering, return_exceptions=True)
        finally:
            to_writer.close()
            writer.close()
            self._forwarding.discard(task)

    async def __aenter__(self) -> Self:
        await self.accept()
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._server is not None:
            self._server.close()
        for task in self._forwarding:
            task.cancel()
        await asyncio.gather(*self._forwarding, return_exceptions=True)


async def _forward_answers(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(65_536):
        writer.write(data)
