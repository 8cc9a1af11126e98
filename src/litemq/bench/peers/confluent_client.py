"""Kafka with confluent-kafka, whose core is C: one thread produces and polls."""

from __future__ import annotations

import asyncio
import functools
import importlib
import threading
import time
from array import array
from typing import Any

from litemq.bench.peers.peer import AT_ONCE, AWAITING, BODY, LATE_S, READ, Load, at_rate
from litemq.errors import LiteMQError

__all__ = ["ConfluentClient"]


class ConfluentClient:
    """``PeerClient`` over ``confluent_kafka`` with default settings."""

    def __init__(self, address: str) -> None:
        self._common = {"bootstrap.servers": address}
        self._kafka: Any = importlib.import_module("confluent_kafka")
        self._failed = 0

    def _topic(self, name: str) -> None:
        admin = importlib.import_module("confluent_kafka.admin")
        client = admin.AdminClient(self._common)  # it must outlive its requests
        for created in client.create_topics([admin.NewTopic(name, 4, 1)]).values():
            created.result(LATE_S)

    def _producer(self, topic: str) -> Any:
        self._topic(topic)
        producer = self._kafka.Producer(self._common)
        producer.produce(topic, bytes(8))
        producer.flush(LATE_S)
        return producer

    def _consumer(self, topic: str) -> Any:
        consumer = self._kafka.Consumer(self._common | {"group.id": "bench", "auto.offset.reset": "earliest"})
        consumer.subscribe([topic])
        return consumer

    async def awaited(self, seconds: float, topic: str) -> Load:
        producer, times = self._producer(topic), array("q")
        in_flight = 0
        clock = time.perf_counter_ns

        def delivered(error: object, _message: object, *, sent_at: int) -> None:
            nonlocal in_flight
            _check(error)
            times.append(clock() - sent_at)
            in_flight -= 1

        begin = time.perf_counter()
        while time.perf_counter() < begin + seconds:
            while in_flight < AWAITING:
                producer.produce(topic, BODY, on_delivery=functools.partial(delivered, sent_at=clock()))
                in_flight += 1
            producer.poll(0.1)
        producer.flush(LATE_S)
        return Load(len(times), time.perf_counter() - begin, times)

    async def send_nowait(self, seconds: float) -> Load:
        producer, done = self._producer("sent"), 0

        def delivered(error: object, _message: object) -> None:
            nonlocal done
            _check(error)
            done += 1

        begin = time.perf_counter()
        while time.perf_counter() < begin + seconds:
            for _ in range(AT_ONCE):
                try:
                    producer.produce("sent", BODY, on_delivery=delivered)
                except BufferError:
                    producer.poll(0.01)
            producer.poll(0)
        producer.flush(LATE_S)
        return Load(done, time.perf_counter() - begin)

    async def fill(self, messages: int) -> None:
        self._topic("backlog")
        producer, sent = self._kafka.Producer(self._common), 0
        while sent < messages:
            try:
                producer.produce("backlog", BODY)
                sent += 1
            except BufferError:
                producer.poll(0.01)
        producer.flush(LATE_S)

    async def consume(self, messages: int) -> Load:
        consumer, begin, done = self._consumer("backlog"), 0.0, 0
        while done < messages:
            read = consumer.consume(READ, LATE_S)
            begin = begin or time.perf_counter()
            for message in read:
                _check(message.error())
                message.value()
            done += len(read)
        consumer.commit(asynchronous=False)
        seconds = time.perf_counter() - begin
        consumer.close()
        return Load(done, seconds)

    async def steady(self, seconds: float, rate: float) -> Load:
        producer, consumer = self._producer("steady"), self._consumer("steady")
        times, reads, total = array("q"), threading.Event(), int(rate * seconds)

        def receive() -> None:
            while len(times) < total:
                message = consumer.poll(LATE_S)
                if message is None:
                    return
                due = int.from_bytes(message.value()[:8], "little")
                if due:
                    times.append(time.perf_counter_ns() - due)
                reads.set()

        receiver = threading.Thread(target=receive, daemon=True)
        receiver.start()
        await asyncio.to_thread(reads.wait, LATE_S)

        def send(body: bytes) -> None:
            producer.produce("steady", body)
            producer.poll(0)

        await at_rate(seconds, rate, send)
        producer.flush(LATE_S)
        await asyncio.to_thread(receiver.join, LATE_S)
        consumer.close()
        return Load(len(times), seconds, times)


def _check(error: object) -> None:
    if error is not None:
        raise LiteMQError(f"Kafka refused a message: {error}")
