"""Kafka with aiokafka, a client in Python."""

from __future__ import annotations

import asyncio
import importlib
import logging
import time
from array import array
from typing import Any

from litemq.bench.peers.peer import AWAITING, BODY, LATE_S, PENDING, READ, Load, at_rate, await_each, send_batches

__all__ = ["AiokafkaClient"]


class AiokafkaClient:
    """``PeerClient`` over ``aiokafka``; sends are acknowledged by all replicas."""

    def __init__(self, address: str) -> None:
        self._address = address
        self._kafka: Any = importlib.import_module("aiokafka")
        logging.getLogger("aiokafka").setLevel(logging.CRITICAL)  # new topics have no leader at first

    async def _producer(self, topic: str) -> Any:
        admin = importlib.import_module("aiokafka.admin")
        client = admin.AIOKafkaAdminClient(bootstrap_servers=self._address)
        await client.start()
        await client.create_topics([admin.NewTopic(topic, 4, 1)])
        await client.close()
        producer = self._kafka.AIOKafkaProducer(bootstrap_servers=self._address, acks="all")
        await producer.start()
        await producer.send_and_wait(topic, bytes(8))
        return producer

    async def _consumer(self, topic: str) -> Any:
        consumer = self._kafka.AIOKafkaConsumer(
            topic, bootstrap_servers=self._address, group_id="bench", auto_offset_reset="earliest"
        )
        await consumer.start()
        return consumer

    async def awaited(self, seconds: float, topic: str) -> Load:
        producer = await self._producer(topic)
        load = await await_each(seconds, [lambda: producer.send_and_wait(topic, BODY)] * AWAITING)
        await producer.stop()
        return load

    async def send_nowait(self, seconds: float) -> Load:
        producer = await self._producer("sent")
        load = await send_batches(seconds, lambda: producer.send("sent", BODY))
        await producer.stop()
        return load

    async def fill(self, messages: int) -> None:
        producer = await self._producer("backlog")
        for _ in range(0, messages, PENDING):
            await asyncio.gather(*[await producer.send("backlog", BODY) for _ in range(PENDING)])
        await producer.stop()

    async def consume(self, messages: int) -> Load:
        consumer = await self._consumer("backlog")
        begin, done = 0.0, 0
        while done < messages:
            for read in (await consumer.getmany(timeout_ms=1000, max_records=READ)).values():
                begin = begin or time.perf_counter()
                done += len([message.value for message in read])
        await consumer.commit()
        took = time.perf_counter() - begin
        await consumer.stop()
        return Load(done, took)

    async def steady(self, seconds: float, rate: float) -> Load:
        producer, consumer = await self._producer("steady"), await self._consumer("steady")
        times, reads, total = array("q"), asyncio.Event(), int(rate * seconds)

        async def receive() -> None:
            async for message in consumer:
                due = int.from_bytes(message.value[:8], "little")
                if due:
                    times.append(time.perf_counter_ns() - due)
                reads.set()
                if len(times) == total:
                    return

        receiver = asyncio.create_task(receive())
        await asyncio.wait_for(reads.wait(), LATE_S)
        bodies: asyncio.Queue[bytes] = asyncio.Queue()

        async def send_all() -> None:
            for _ in range(total):
                await producer.send("steady", await bodies.get())

        sender = asyncio.create_task(send_all())
        await at_rate(seconds, rate, bodies.put_nowait)
        await asyncio.wait_for(sender, LATE_S)
        await asyncio.wait_for(receiver, LATE_S)
        await producer.stop()
        await consumer.stop()
        return Load(total, seconds, times)
