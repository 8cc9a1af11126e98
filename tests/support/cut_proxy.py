"""A TCP proxy on the event loop that withholds answers, or refuses connections."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Self

__all__ = ["CutProxy"]


class CutProxy:
    """Forwards connections to ``port``. While ``withholds_answers``, it only forwards requests."""

    def __init__(self, port: int) -> None:
        self.target = port
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self.port = 0
        self.withholds_answers = False

    async def open(self) -> None:
        """Accept connections, at the same address as before."""
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", self.port)
        self.port = self._server.sockets[0].getsockname()[1]

    async def cut(self) -> None:
        """End all connections and accept no new ones."""
        if self._server is not None:
            self._server.close()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            to_reader, to_writer = await asyncio.open_connection("127.0.0.1", self.target)
            try:
                async with asyncio.TaskGroup() as both:
                    both.create_task(self._forward(reader, to_writer, are_answers=False))
                    both.create_task(self._forward(to_reader, writer, are_answers=True))
            finally:
                to_writer.close()
        except* (OSError, asyncio.CancelledError):
            pass
        finally:
            writer.close()
            self._tasks.discard(task)

    async def _forward(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, are_answers: bool) -> None:
        while data := await reader.read(65_536):
            if not (are_answers and self.withholds_answers):
                writer.write(data)
                await writer.drain()
        raise ConnectionResetError  # ends the other direction, too

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(self, *_: object) -> None:
        with contextlib.suppress(OSError):
            await self.cut()
