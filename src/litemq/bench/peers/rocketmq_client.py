"""RocketMQ with its Java client, which ``RocketMQLoad.java`` runs beside the broker."""

from __future__ import annotations

import asyncio
from array import array
from typing import Final

from litemq.bench.peers.peer import AWAITING, Load
from litemq.errors import LiteMQError

__all__ = ["RocketMQClient"]

_MOST_BYTES: Final = 1 << 20  # of an answer


class RocketMQClient:
    """``PeerClient`` that passes each workload to the load process at ``address``."""

    def __init__(self, address: str) -> None:
        self._host, _, port = address.rpartition(":")
        self._port = int(port)

    async def _run(self, *words: object) -> Load:
        reader, writer = await asyncio.open_connection(self._host, self._port, limit=_MOST_BYTES)
        try:
            writer.write((" ".join(map(str, words)) + "\n").encode())
            answer = (await reader.readline()).decode()
        finally:
            writer.close()
            await writer.wait_closed()
        if not answer[:1].isdigit():
            raise LiteMQError(f"RocketMQ's client: {answer.strip() or 'no answer'}")
        messages, seconds, cpu, *times = answer.split()
        return Load(int(messages), float(seconds), array("q", map(int, times)), float(cpu))

    async def awaited(self, seconds: float, topic: str) -> Load:
        return await self._run("awaited", topic, seconds, AWAITING)

    async def send_nowait(self, seconds: float) -> Load:
        return await self._run("batched", "sent", seconds)

    async def fill(self, messages: int) -> None:
        await self._run("fill", "backlog", messages)

    async def consume(self, messages: int) -> Load:
        return await self._run("consume", "backlog", messages)

    async def steady(self, seconds: float, rate: float) -> Load:
        return await self._run("steady", "steady", seconds, rate)
