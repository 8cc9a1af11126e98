"""Redis streams with redis-py's asyncio client, as its documentation shows them."""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import time
from array import array
from typing import Any, Final

from litemq.bench.peers.peer import AT_ONCE, AWAITING, BODY, LATE_S, READ, Load, at_rate, await_each

__all__ = ["RedisClient"]

_PIPELINES: Final = 8


class RedisClient:
    """``PeerClient`` over ``redis.asyncio``."""

    def __init__(self, url: str) -> None:
        self._url = url

    def _client(self, connections: int) -> Any:
        library = importlib.import_module("redis.asyncio")
        pool = library.BlockingConnectionPool.from_url(self._url, max_connections=connections, timeout=None)
        return contextlib.aclosing(library.Redis(connection_pool=pool))

    async def awaited(self, seconds: float, topic: str) -> Load:
        async with self._client(AWAITING) as client:
            await asyncio.gather(*(client.xadd(topic, {"b": BODY}) for _ in range(AWAITING)))  # connect
            return await await_each(seconds, [lambda: client.xadd(topic, {"b": BODY})] * AWAITING)

    async def send_nowait(self, seconds: float) -> Load:
        async with self._client(_PIPELINES) as client:
            begin, done = time.perf_counter(), 0

            async def repeat() -> None:
                nonlocal done
                while time.perf_counter() < begin + seconds:
                    await _add_many(client, "sent", AT_ONCE)
                    done += AT_ONCE

            await asyncio.gather(*(repeat() for _ in range(_PIPELINES)))
            return Load(done, time.perf_counter() - begin)

    async def fill(self, messages: int) -> None:
        async with self._client(1) as client:
            for at in range(0, messages, AT_ONCE):
                await _add_many(client, "backlog", min(AT_ONCE, messages - at))

    async def consume(self, messages: int) -> Load:
        async with self._client(1) as client:
            await client.xgroup_create("backlog", "bench", id="0")
            begin, done = time.perf_counter(), 0
            while done < messages:
                for _, entries in await client.xreadgroup("bench", "me", {"backlog": ">"}, count=READ):
                    await client.xack("backlog", "bench", *[entry for entry, _ in entries])
                    done += len(entries)
            return Load(done, time.perf_counter() - begin)

    async def steady(self, seconds: float, rate: float) -> Load:
        times = array("q")
        total = int(rate * seconds)
        async with self._client(64) as sending, self._client(2) as receiving:
            await receiving.xgroup_create("steady", "bench", id="0", mkstream=True)

            async def receive() -> None:
                while len(times) < total:
                    read = await receiving.xreadgroup("bench", "me", {"steady": ">"}, count=READ, block=5000)
                    now = time.perf_counter_ns()
                    for _, entries in read:
                        times.extend([now - int.from_bytes(fields[b"b"][:8], "little") for _, fields in entries])
                        await receiving.xack("steady", "bench", *[entry for entry, _ in entries])

            receiver = asyncio.create_task(receive())
            await asyncio.sleep(0.3)  # until it reads
            sends: set[asyncio.Future[object]] = set()

            def send(body: bytes) -> None:
                sent = asyncio.ensure_future(sending.xadd("steady", {"b": body}))
                sends.add(sent)
                sent.add_done_callback(sends.discard)

            await at_rate(seconds, rate, send)
            await asyncio.wait_for(receiver, LATE_S)
            await asyncio.gather(*sends)
        return Load(total, seconds, times)


async def _add_many(client: Any, stream: str, count: int) -> None:
    pipeline = client.pipeline(transaction=False)
    for _ in range(count):
        pipeline.xadd(stream, {"b": BODY})
    await pipeline.execute()
