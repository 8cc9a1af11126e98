"""LiteMQ with its own client and default settings."""

from __future__ import annotations

import asyncio
import time
from array import array
from collections import deque
from typing import Any

from litemq import AsyncClient
from litemq.bench.peers.peer import AT_ONCE, AWAITING, BODY, LATE_S, PENDING, READ, Load, Promise, at_rate, await_each

__all__ = ["LiteMQClient"]


class LiteMQClient:
    """``PeerClient`` over ``AsyncClient``. Sends have the durability ``promise``."""

    def __init__(self, url: str, promise: Promise) -> None:
        self._url = url
        self._promise = promise

    def _client(self) -> AsyncClient:
        return AsyncClient(self._url, durability=self._promise)

    async def awaited(self, seconds: float, topic: str) -> Load:
        async with self._client() as mq:
            await mq.admin.create_topic(topic)
            return await await_each(seconds, [lambda: mq.send(topic, BODY)] * AWAITING)

    async def send_nowait(self, seconds: float) -> Load:
        async with self._client() as mq:
            await mq.admin.create_topic("sent")
            begin, done = time.perf_counter(), 0
            pending: deque[list[Any]] = deque()
            while time.perf_counter() < begin + seconds:
                pending.append([mq.send_nowait("sent", BODY) for _ in range(AT_ONCE)])
                await asyncio.sleep(0)
                while len(pending) * AT_ONCE >= PENDING:
                    done += await _settled(pending.popleft())
            for sends in pending:
                done += await _settled(sends)
            return Load(done, time.perf_counter() - begin)

    async def fill(self, messages: int) -> None:
        async with self._client() as mq:
            await mq.admin.create_topic("backlog")
            for _ in range(0, messages, PENDING):
                await asyncio.gather(*[mq.send_nowait("backlog", BODY) for _ in range(PENDING)])

    async def consume(self, messages: int) -> Load:
        async with self._client() as mq, mq.consumer("backlog", group_id="bench", max_poll_records=READ) as consumer:
            begin, done = 0.0, 0
            while done < messages:
                read = await consumer.take(READ, LATE_S)
                begin = begin or time.perf_counter()
                for message in read:
                    _ = message.body
                await mq.ack_batch(read)
                done += len(read)
            await consumer.commit()
            return Load(done, time.perf_counter() - begin)

    async def steady(self, seconds: float, rate: float) -> Load:
        times = array("q")
        async with self._client() as sending, self._client() as receiving:
            await sending.admin.create_topic("steady")
            await sending.send("steady", bytes(8))
            reads, total = asyncio.Event(), int(rate * seconds)
            async with receiving.consumer("steady", group_id="bench") as consumer:

                async def receive() -> None:
                    async for message in consumer:
                        due = int.from_bytes(message.body[:8], "little")
                        if due:
                            times.append(time.perf_counter_ns() - due)
                        await message.ack()
                        reads.set()
                        if len(times) == total:
                            return

                receiver = asyncio.create_task(receive())
                await asyncio.wait_for(reads.wait(), LATE_S)
                await at_rate(seconds, rate, lambda body: sending.send_nowait("steady", body))
                await asyncio.wait_for(receiver, LATE_S)
        return Load(total, seconds, times)


async def _settled(sends: list[Any]) -> int:
    for send in sends:
        await send
    return len(sends)
