"""A well-behaved client at a steady rate, and the latency of its messages."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, field

from litemq.client.async_client import AsyncClient


@dataclass
class Latencies:
    """Latencies in seconds from the moment when a message was due, so that waiting counts."""

    sends: list[float] = field(default_factory=list)
    deliveries: list[float] = field(default_factory=list)


def percentile(values: list[float], share: float) -> float:
    return sorted(values)[min(len(values) - 1, int(len(values) * share))]


async def steady(mq: AsyncClient, topic: str, *, per_second: float, seconds: float) -> Latencies:
    """Send at a fixed rate and read the messages; return the latencies."""
    found = Latencies()
    count = int(per_second * seconds)
    arrived = asyncio.Event()

    async def read() -> None:
        async with mq.reader(topic, start="latest") as messages:
            async for message in messages:
                due, number = message.body.split(b" ")[:2]
                found.deliveries.append(time.monotonic() - float(due))
                if int(number) == count:
                    arrived.set()

    async def send(due: float, number: int) -> None:
        await mq.send(topic, f"{due} {number} ".encode().ljust(1024), ordering_key="one")
        found.sends.append(time.monotonic() - due)

    reading = asyncio.create_task(read())
    await asyncio.sleep(0.3)
    try:
        begin = time.monotonic()
        sending = []
        for number in range(1, count + 1):
            due = begin + number / per_second
            if (wait := due - time.monotonic()) > 0:
                await asyncio.sleep(wait)
            sending.append(asyncio.create_task(send(due, number)))
        await asyncio.gather(*sending)
        async with asyncio.timeout(30):
            await asyncio.wait({reading, asyncio.create_task(arrived.wait())}, return_when=asyncio.FIRST_COMPLETED)
        if reading.done():
            reading.result()  # what ended it, said here
    finally:
        reading.cancel()
        await asyncio.gather(reading, return_exceptions=True)
    return found
