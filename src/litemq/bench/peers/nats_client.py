"""NATS JetStream with nats-py."""

from __future__ import annotations

import asyncio
import importlib
import time
from array import array
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from litemq.bench.peers.peer import AWAITING, BODY, LATE_S, PENDING, READ, Load, at_rate, await_each, send_batches

__all__ = ["NatsClient"]


class NatsClient:
    """``PeerClient`` over ``nats``."""

    def __init__(self, url: str, read: int = READ) -> None:
        """``read``: messages that are fetched together."""
        self._url = url
        self._read = read

    @asynccontextmanager
    async def _connection(self) -> AsyncIterator[tuple[Any, Any]]:
        connection = await importlib.import_module("nats").connect(self._url)
        try:
            yield connection, connection.jetstream(publish_async_max_pending=PENDING)
        finally:
            await connection.close()

    async def awaited(self, seconds: float, topic: str) -> Load:
        async with self._connection() as (_, stream):
            await stream.add_stream(name=topic, subjects=[topic])
            return await await_each(seconds, [lambda: stream.publish(topic, BODY)] * AWAITING)

    async def send_nowait(self, seconds: float) -> Load:
        async with self._connection() as (_, stream):
            await stream.add_stream(name="sent", subjects=["sent"])
            return await send_batches(seconds, lambda: stream.publish_async("sent", BODY, wait_stall=10))

    async def fill(self, messages: int) -> None:
        async with self._connection() as (connection, stream):
            await stream.add_stream(name="backlog", subjects=["backlog"])
            for at in range(0, messages, PENDING):
                for _ in range(min(PENDING, messages - at) - 1):
                    await connection.publish("backlog", BODY)
                await stream.publish("backlog", BODY, timeout=LATE_S)

    async def consume(self, messages: int) -> Load:
        async with self._connection() as (connection, stream):
            subscription = await stream.pull_subscribe("backlog", durable="bench")
            begin, done = time.perf_counter(), 0
            while done < messages:
                fetched = await subscription.fetch(self._read, timeout=LATE_S)
                for message in fetched:
                    await message.ack()
                done += len(fetched)
            await connection.flush()
            return Load(done, time.perf_counter() - begin)

    async def steady(self, seconds: float, rate: float) -> Load:
        times = array("q")
        total, complete = int(rate * seconds), asyncio.Event()
        async with self._connection() as (_, sending), self._connection() as (_, receiving):
            await sending.add_stream(name="steady", subjects=["steady"])

            async def received(message: Any) -> None:
                times.append(time.perf_counter_ns() - int.from_bytes(message.data[:8], "little"))
                await message.ack()
                if len(times) == total:
                    complete.set()

            await receiving.subscribe("steady", durable="bench", cb=received, manual_ack=True)
            await asyncio.sleep(0.3)  # until it reads
            bodies: asyncio.Queue[bytes] = asyncio.Queue()

            async def send_all() -> None:
                for _ in range(total):
                    await sending.publish_async("steady", await bodies.get(), wait_stall=10)

            sender = asyncio.create_task(send_all())
            await at_rate(seconds, rate, bodies.put_nowait)
            await asyncio.wait_for(sender, LATE_S)
            await asyncio.wait_for(complete.wait(), LATE_S)
        return Load(total, seconds, times)
