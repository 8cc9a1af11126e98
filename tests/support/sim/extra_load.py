"""A load beside that of ``Load``, as a process of its own."""

from __future__ import annotations

import asyncio
import random

from litemq.client.async_client import AsyncClient
from litemq.errors import InvalidArgumentError, LiteMQError
from support.sim.cluster import CLIENTS
from support.sim.load import Load

__all__ = ["ExtraLoad"]

_AGAIN_S = 0.3


class ExtraLoad:
    """A load with a ``topic``, which may be its own."""

    topic: str

    def __init__(self, load: Load, chosen: random.Random) -> None:
        self.load = load
        self.cluster = load.cluster
        self.random = chosen
        self._has_worked = asyncio.Event()
        self._task = self.cluster.run_consumer(CLIENTS[0], self._run)

    async def _run(self) -> None:
        async with self.load.client(type(self).__name__.lower()) as mq:
            while not await self._tries(mq, "create"):
                pass
            while not self.load.is_stopping:
                await self._tries(mq, "step")
                await asyncio.sleep(self.random.expovariate(1 / self.pause_s))
            self.on_stop()
            self._has_worked.set()
            while True:  # until cancelled
                await self._tries(mq, "rest")

    async def _tries(self, mq: AsyncClient, what: str) -> bool:
        """Call a method; return whether it came to its end."""
        try:
            await getattr(self, what)(mq)
        except InvalidArgumentError:
            raise
        except LiteMQError as error:
            self.cluster.trace(self.topic, what, repr(error))
            await asyncio.sleep(_AGAIN_S)
            return False
        return True

    pause_s = 0.3  # between two steps, on average

    async def create(self, mq: AsyncClient) -> None:
        """Create what ``step`` needs, with ``mq``."""

    async def step(self, mq: AsyncClient) -> None:
        """Do one thing, and record what came of it."""
        raise NotImplementedError

    def on_stop(self) -> None:
        """The load has ended."""

    async def rest(self, _mq: AsyncClient) -> None:
        """Do what is to be done after the load, until it is complete."""
        await asyncio.sleep(_AGAIN_S)

    # The end --------------------------------------------------------------------------------------

    async def end(self) -> None:
        """Wait until the load is complete, and end it."""
        await self._has_worked.wait()
        await self.cluster.run_to_end(self._complete)
        self._task.cancel()
        await asyncio.wait([self._task])

    async def _complete(self) -> None:
        async with self.load.client("end") as mq:
            while not self.is_complete:
                await self._tries(mq, "look")
            await self._tries(mq, "look")  # nothing comes twice

    async def look(self, _mq: AsyncClient) -> None:
        """Look at what the group has now, after a moment."""
        await asyncio.sleep(_AGAIN_S)

    @property
    def is_complete(self) -> bool:
        """Whether all is there that must come."""
        raise NotImplementedError

    def problems(self) -> list[str]:
        """Return the violated invariants."""
        return []
