"""Load on a running cluster through the public client: rates of sending and consuming, and latency.

Each function is one measurement and returns its result. Latencies count from a message's scheduled
send time, so a sender that falls behind its rate does not hide slow moments (coordinated omission).
"""

from __future__ import annotations

import asyncio
import os
import secrets
import time
from array import array
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np

from litemq import AsyncClient, SendReceipt
from litemq.bench.baselines.cpu_time import cpu_seconds
from litemq.client.consuming.consumer import Consumer
from litemq.client.consuming.reader import Reader
from litemq.errors import BufferFullError, InvalidArgumentError, LiteMQError

__all__ = ["LoadResult", "measure_batches", "measure_consume", "measure_latency", "measure_send"]

Progress = Callable[[int], None]
PERCENTILES: Final = (50.0, 90.0, 99.0, 99.9)
# Messages in flight per request in flight, with automatic batching.
_BATCHED: Final = 64
_SENT_AT_ONCE: Final = 256  # by ``send_nowait``, before the next look at the results
_TAKEN: Final = 12
_MARK_BYTES: Final = 16
_MAX_WAIT_S: Final = 10.0
_TURN_S: Final = 0.001  # of a steady sender
_NEVER: Final = float("inf")


@dataclass(frozen=True, slots=True)
class LoadResult:
    """The result of a measurement."""

    messages: int
    body_bytes: int
    seconds: float
    failed: int = 0
    missing: int = 0
    latency_ms: Mapping[float, float] | None = None
    first_error: str = ""
    reached_end: bool = False  # the whole topic was read
    client_cpu_us: float = 0.0  # CPU time per message, if measured
    broker_cpu_us: float = 0.0

    @property
    def messages_per_s(self) -> float:
        return self.messages / self.seconds if self.seconds else 0.0

    @property
    def megabytes_per_s(self) -> float:
        return self.body_bytes / self.seconds / 1e6 if self.seconds else 0.0

    def as_json(self) -> dict[str, object]:
        latency = (
            None if self.latency_ms is None else {f"p{percent:g}": value for percent, value in self.latency_ms.items()}
        )
        return {
            "messages": self.messages,
            "body_bytes": self.body_bytes,
            "seconds": self.seconds,
            "messages_per_s": self.messages_per_s,
            "megabytes_per_s": self.megabytes_per_s,
            "latency_ms": latency,
            "failed": self.failed,
            "missing": self.missing,
            "first_error": self.first_error,
            "reached_end": self.reached_end,
        }


class _Tally:
    """A counter of results and their latencies, with a budget of messages and time."""

    def __init__(self, messages: int | None, seconds: float | None, progress: Progress) -> None:
        if messages is None and seconds is None:
            raise InvalidArgumentError("set messages, seconds, or both")
        self._left = _NEVER if messages is None else messages
        self._seconds = _NEVER if seconds is None else seconds
        self._progress = progress
        self._reported = 0
        self.began = self.ended = 0.0
        self.nanoseconds = array("q")
        self.failed = 0
        self.first_error = ""

    def begin(self) -> None:
        self.began = time.perf_counter()
        self._until = self.began + self._seconds

    def take(self, limit: int = 1) -> int:
        """Take up to ``limit`` messages from the budget, and return how many."""
        if self._left <= 0 or time.perf_counter() >= self._until:
            return 0
        count = limit if self._left >= limit else int(self._left)
        self._left -= count
        return count

    def done(self, nanoseconds: int, count: int = 1) -> None:
        """Record ``count`` messages that took ``nanoseconds`` each, or less."""
        self.nanoseconds.extend([nanoseconds] * count)
        self.report()

    def report(self) -> None:
        """Report progress once per thousand messages."""
        if len(self.nanoseconds) - self._reported >= 1000:
            self._reported = len(self.nanoseconds)
            self._progress(self._reported)

    def fail(self, error: BaseException) -> None:
        self.failed += 1
        self.first_error = self.first_error or f"{type(error).__name__}: {error}"

    def result(self, size: int, missing: int = 0) -> LoadResult:
        self.ended = time.perf_counter()
        messages = len(self.nanoseconds)
        self._progress(messages)
        milliseconds = np.frombuffer(self.nanoseconds, np.int64) / 1e6
        latency = (
            dict(zip(PERCENTILES, np.percentile(milliseconds, PERCENTILES).tolist(), strict=True)) if messages else None
        )
        return LoadResult(
            messages, messages * size, self.ended - self.began, self.failed, missing, latency, self.first_error
        )


async def measure_send(
    url: str,
    *,
    topic: str = "bench",
    connections: int = 8,
    in_flight: int = 32,
    size: int = 1024,
    messages: int | None = None,
    seconds: float | None = None,
    durability: Any = None,
    batch: bool = False,
    settings: Mapping[str, Any] | None = None,
    progress: Progress = lambda _done: None,
) -> LoadResult:
    """Send as fast as the cluster accepts; with ``batch``, by ``send_nowait``."""
    tally = _Tally(messages, seconds, progress)
    body = secrets.token_bytes(size)
    options = {"durability": durability, **({} if batch else {"max_batch_messages": 1}), **(settings or {})}

    async def one_by_one(mq: AsyncClient) -> None:
        # Take messages by the dozen, so that counting does not slow the loop.
        send, clock, took = mq.send, time.perf_counter_ns, tally.nanoseconds.append
        while count := tally.take(_TAKEN):
            for _ in range(count):
                begin = clock()
                try:
                    await send(topic, body)
                except LiteMQError as error:
                    tally.fail(error)
                else:
                    took(clock() - begin)
            tally.report()

    async def batched(mq: AsyncClient) -> None:
        await _send_batched(mq, topic, body, tally, in_flight * _BATCHED)

    async with AsyncExitStack() as stack:
        clients = [await stack.enter_async_context(AsyncClient(url, **options)) for _ in range(connections)]
        await asyncio.gather(*(mq.send(topic, body) for mq in clients))  # loads routes and opens connections
        tally.begin()
        async with asyncio.TaskGroup() as tasks:
            for mq in clients:
                for _ in range(1 if batch else in_flight):
                    tasks.create_task(batched(mq) if batch else one_by_one(mq))
        return tally.result(size)


async def _send_batched(mq: AsyncClient, topic: str, body: bytes, tally: _Tally, limit: int) -> None:
    """Send with ``send_nowait``, with at most ``limit`` messages in flight."""
    clock = time.perf_counter_ns
    in_flight: deque[tuple[int, list[asyncio.Future[SendReceipt]]]] = deque()

    async def settle() -> None:
        begin, futures = in_flight.popleft()
        for future in futures:
            try:
                await future
            except LiteMQError as error:
                tally.fail(error)
        tally.done(clock() - begin, sum(future.exception() is None for future in futures))

    while count := tally.take(_SENT_AT_ONCE):
        futures: list[asyncio.Future[SendReceipt]] = []
        begin = clock()
        for _ in range(count):
            try:
                futures.append(mq.send_nowait(topic, body))
            except BufferFullError:  # large bodies fill the buffer earlier
                await mq.flush()
                futures.append(mq.send_nowait(topic, body))
            except LiteMQError as error:
                tally.fail(error)
        in_flight.append((begin, futures))
        await asyncio.sleep(0)
        while len(in_flight) * _SENT_AT_ONCE >= limit:
            await settle()
    while in_flight:
        await settle()


async def measure_consume(
    url: str,
    *,
    topic: str = "bench",
    group_id: str = "",
    messages: int | None = None,
    seconds: float | None = None,
    settings: Mapping[str, Any] | None = None,
    progress: Progress = lambda _done: None,
) -> LoadResult:
    """Read a topic from its beginning and acknowledge each message.

    Stop after ``messages`` messages or ``seconds`` seconds. The time counts until the last message,
    without the wait at the end of the topic.
    """
    tally = _Tally(messages, seconds, progress)
    count = total = 0
    reached_end = False
    clock = time.perf_counter
    async with AsyncClient(url, **{"auto_offset_reset": "earliest", **(settings or {})}) as mq:
        consumer = mq.consumer(topic, group_id=group_id or f"bench-{secrets.token_hex(4)}")
        tally.begin()
        last = tally.began
        try:
            async with asyncio.timeout(seconds):
                async for message in consumer:
                    last = clock()
                    count += 1
                    total += len(message.body)
                    await message.ack()
                    if count % 10_000 == 0:
                        progress(count)
                    if count == messages:
                        break
        except TimeoutError:
            reached_end = count >= sum(
                queue.next - queue.least for queue in (await mq.admin.describe_topic(topic)).queues
            )
        await consumer.close()
    progress(count)
    return LoadResult(
        count, total, last - tally.began, missing=max(0, (messages or 0) - count), reached_end=reached_end
    )


async def measure_batches(url: str, *, topic: str = "bench", messages: int, at_once: int) -> LoadResult:
    """Read ``messages`` of a topic from its beginning; take and acknowledge ``at_once`` together.

    The time counts from the first message.
    """
    count = total = 0
    began = 0.0
    async with (
        AsyncClient(url, auto_offset_reset="earliest", max_poll_records=at_once) as mq,
        mq.consumer(topic, group_id=f"bench-{secrets.token_hex(4)}") as consumer,
    ):
        while count < messages and (taken := await consumer.take(at_once, _MAX_WAIT_S)):
            began = began or time.perf_counter()
            total += sum(len(message.body) for message in taken)
            await mq.ack_batch(taken)
            count += len(taken)
        await consumer.commit()
        seconds = time.perf_counter() - began
    return LoadResult(count, total, seconds, missing=max(0, messages - count))


async def measure_latency(
    url: str,
    *,
    topic: str = "bench",
    rate: float = 10_000,
    size: int = 1024,
    seconds: float = 10.0,
    durability: Any = None,
    settings: Mapping[str, Any] | None = None,
    broker_pids: Sequence[int] = (),
    group_id: str = "",
    progress: Progress = lambda _done: None,
) -> LoadResult:
    """Measure the time from a message's scheduled send time to its receipt, at a steady ``rate``.

    The receiver is a reader, or with ``group_id`` a consumer of that group, which acknowledges each
    message. This corrects for coordinated omission. With ``broker_pids``, measure the CPU time
    of those brokers together and of this process, too (Linux only).
    """
    total = int(rate * seconds)
    tally = _Tally(total, None, progress)
    mark = secrets.token_bytes(8)
    padding = secrets.token_bytes(max(0, size - _MARK_BYTES))
    settings = {"durability": durability, **(settings or {})}
    async with AsyncClient(url, **settings) as sending, AsyncClient(url, **settings) as receiving:
        await sending.send(topic, padding)
        queues = (await receiving.admin.describe_topic(topic)).queues
        reader: Reader | Consumer
        if group_id:
            reader = receiving.consumer(topic, group_id=group_id, auto_offset_reset="earliest")
        else:
            start = {(queue.broker, queue.queue_id): queue.next for queue in queues}
            reader = receiving.reader(topic, start=start, follow=True)

        reads = asyncio.Event()

        async def receive() -> None:
            clock = time.perf_counter_ns
            async for message in reader:
                received_at = clock()
                body = message.body
                if group_id:
                    await message.ack()
                    reads.set()
                if body[:8] == mark:
                    tally.done(received_at - int.from_bytes(body[8:_MARK_BYTES], "little"))
                    if len(tally.nanoseconds) + tally.failed >= total:
                        return

        receiver = asyncio.create_task(receive())
        if group_id:
            await asyncio.wait_for(reads.wait(), _MAX_WAIT_S)  # the message that was sent before
        await asyncio.sleep(0.2)  # until its first pulls wait at the brokers
        pids = (os.getpid(), *broker_pids) if broker_pids else ()
        before = [cpu_seconds(pid) for pid in pids]
        tally.begin()
        await _SteadySender(sending, topic, mark, padding, rate, total, tally).run()
        _, late = await asyncio.wait((receiver,), timeout=_MAX_WAIT_S)
        cpu = [cpu_seconds(pid) - begin for pid, begin in zip(pids, before, strict=True)]
        for task in late:
            task.cancel()
        missing = total - tally.failed - len(tally.nanoseconds)
        result = tally.result(max(size, _MARK_BYTES), missing)
        await reader.close()
        if not late:
            await receiver
    if cpu and result.messages:
        client, *brokers = (1e6 * seconds / result.messages for seconds in cpu)
        return replace(result, client_cpu_us=client, broker_cpu_us=sum(brokers))
    return result


class _SteadySender:
    """Sends at a steady rate from a timer, which costs less than a task that sleeps."""

    def __init__(
        self, mq: AsyncClient, topic: str, mark: bytes, padding: bytes, rate: float, total: int, tally: _Tally
    ) -> None:
        self._send = mq.send_nowait
        self._flush = mq.flush
        self._topic = topic
        self._mark, self._padding = mark, padding
        self._interval_ns = 1e9 / rate
        self._total = total
        self._tally = tally
        self._unsettled: deque[asyncio.Future[SendReceipt]] = deque()
        self._sent = 0
        self._begin = 0
        self._loop = asyncio.get_running_loop()
        self._finished: asyncio.Future[None] = self._loop.create_future()

    async def run(self) -> None:
        """Send all messages, and wait until they are stored or have failed."""
        self._begin = time.perf_counter_ns()
        self._turn()
        await self._finished
        await self._flush()
        self._settle()

    def _turn(self) -> None:
        try:
            self._send_due()
        except LiteMQError as error:
            self._finished.set_exception(error)
            return
        self._settle()
        if self._sent < self._total:
            self._loop.call_later(_TURN_S, self._turn)
        else:
            self._finished.set_result(None)

    def _send_due(self) -> None:
        begin, interval = self._begin, self._interval_ns
        due = min(self._total, int((time.perf_counter_ns() - begin) / interval) + 1)
        while self._sent < due:
            scheduled = begin + int(self._sent * interval)
            try:
                future = self._send(self._topic, self._mark + scheduled.to_bytes(8, "little") + self._padding)
            except BufferFullError:
                return  # retry later; its latency counts from now
            self._unsettled.append(future)
            self._sent += 1

    def _settle(self) -> None:
        """Look at the outcomes so far."""
        unsettled = self._unsettled
        while unsettled and unsettled[0].done():
            error = unsettled.popleft().exception()
            if error is not None:
                self._tally.fail(error)
