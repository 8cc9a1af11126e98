"""``litemq bench suite delivery``: leases, filters, priorities and groups, as users meet them.

Each figure has a cluster of its own, started by the commands that users type, its data below the temporary directory (``TMPDIR``); the load
comes from this process, through the public client. Bodies have 1 KiB.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Callable, Coroutine
from typing import Any, Final

from litemq import AsyncClient
from litemq.bench.baselines import nats
from litemq.bench.clusters import running_cluster
from litemq.bench.suite import Figure, at_least, at_most
from litemq.bench.workloads.filters import fill_for_filter, measure_filter
from litemq.bench.workloads.members import GroupWorkload
from litemq.client.messages.message import Message
from litemq.client.messages.outgoing import OutgoingMessage
from litemq.errors import LiteMQError
from litemq.net.event_loop import run

__all__ = ["figures"]

_BODY: Final = secrets.token_bytes(1024)
_MESSAGES: Final = 200_000
_BATCH: Final = 500
_ONE_BY_ONE: Final = 256  # messages in hand at once
_NOT_STORED_YET: Final = 4_000  # acknowledgements
_IN_FLIGHT: Final = 50_000
_FILTERED: Final = 1_000_000
_LOW_PRIORITY: Final = 1_000_000
_SENT_AT_ONCE: Final = 10_000
_WAIT_S: Final = 30.0


def figures(scale: float) -> list[Figure]:
    """What is promised of delivery; ``scale`` makes each measurement smaller."""
    messages = max(2_000, int(_MESSAGES * scale))
    leases = _Leases(messages)
    ends = _LeaseEnds()
    group = GroupWorkload(scale)
    filtered = _Filter(max(10_000, int(_FILTERED * scale)))
    found = [
        Figure("lease_batched", "receive and acknowledge, 500 at a time, one process", "msg/s", leases.batched, at_least(60_000)),
        Figure("lease_one_by_one", "async for and ack_nowait, each message by itself", "msg/s", leases.one_by_one, at_least(30_000)),
        Figure("lease_one_a_call", "receive one and wait until its ack is stored, 256 callers", "msg/s", leases.one_a_call),
        Figure(
            "leases_in_flight", "messages leased at one moment", "messages", lambda: _in_flight(scale), at_least(_IN_FLIGHT * min(1, scale))
        ),
        Figure(
            "lease_end_late", "from a lease's end, never before, to the message's next delivery, at most", "ms", ends.latest, at_most(100)
        ),
        Figure("priority_behind", "a high priority behind 1M low ones arrives within", "ms", lambda: _urgent_delay(scale), at_most(100)),
        Figure("tag_filter", "a tag of 1% read, against reading everything", "×", filtered.by_tag, at_most(0.1)),
        Figure("sql_filter", "the same by a condition on a property", "×", lambda: filtered.by_condition),
        Figure(
            "unmoved_gap", "queues that need not move: longest pause against the longest when all is quiet", "×", group.unmoved, at_most(2)
        ),
        Figure(
            "moved_resume", "queues that move: from the session's end until they go on, at most", "s", lambda: group.resumed, at_most(1)
        ),
    ]
    if nats.is_installed():
        peer = _NatsRate(messages // 4)
        found[2:2] = [
            Figure("nats_fetch_ack", "NATS JetStream, nats-py: fetch 100, acknowledge each", "msg/s", peer.rate),
            Figure("lease_over_nats", "lease_batched against it", "×", lambda: leases.last / peer.last, at_least(1)),
        ]
    return found


def _with_client(load: Callable[[AsyncClient], Coroutine[Any, Any, float]]) -> float:
    async def work(url: str) -> float:
        async with AsyncClient(url) as mq:
            return await load(mq)

    with running_cluster() as url:
        return run(work(url))


async def _fill(mq: AsyncClient, topic: str, count: int, make: Callable[[int], OutgoingMessage]) -> None:
    for first in range(0, count, _SENT_AT_ONCE):
        await mq.send_batch(topic, [make(number) for number in range(first, min(count, first + _SENT_AT_ONCE))], durability="memory")


class _Leases:
    """Receive and acknowledge, until everything is done."""

    def __init__(self, messages: int) -> None:
        self._messages = messages
        self.last = 1.0

    def batched(self) -> float:
        self.last = _with_client(lambda mq: self._work(mq, mq.ack_batch, _BATCH, 2))
        return self.last

    def one_by_one(self) -> float:
        return _with_client(self._consume)

    def one_a_call(self) -> float:
        async def settle(messages: list[Message]) -> None:
            for message in messages:
                await message.ack()

        return _with_client(lambda mq: self._work(mq, settle, 1, _ONE_BY_ONE))

    async def _consume(self, mq: AsyncClient) -> float:
        await _fill(mq, "leased", self._messages, lambda _: OutgoingMessage(_BODY))
        waiting: list[asyncio.Future[None]] = []
        done = 0
        begin = time.perf_counter()
        async with mq.consumer("leased", group_id="bench", mode="lease") as messages:
            async for message in messages:
                waiting.append(message.ack_nowait())
                done += 1
                if len(waiting) == _NOT_STORED_YET or done == self._messages:
                    await asyncio.gather(*waiting)
                    waiting.clear()
                if done == self._messages:
                    break
        return done / (time.perf_counter() - begin)

    async def _work(self, mq: AsyncClient, settle: Callable[[list[Message]], Coroutine[Any, Any, None]], batch: int, hands: int) -> float:
        await _fill(mq, "leased", self._messages, lambda _: OutgoingMessage(_BODY))
        done = 0

        async def hand() -> None:
            nonlocal done
            while done < self._messages:
                messages = await mq.receive("leased", group_id="bench", max_messages=batch, wait=0.2)
                await settle(messages)
                done += len(messages)

        begin = time.perf_counter()
        await asyncio.gather(*(hand() for _ in range(hands)))
        if done != self._messages:
            raise LiteMQError(f"{done} messages were delivered of {self._messages}")
        return done / (time.perf_counter() - begin)


class _NatsRate:
    """The same rate of NATS JetStream."""

    def __init__(self, messages: int) -> None:
        self._messages = messages
        self.last = 1.0

    def rate(self) -> float:
        self.last = nats.fetch_and_ack_rate(self._messages, _BODY)
        return self.last


def _in_flight(scale: float) -> float:
    count = max(1_000, int(_IN_FLIGHT * scale))

    async def work(mq: AsyncClient) -> float:
        await _fill(mq, "held", count, lambda _: OutgoingMessage(_BODY))
        held: list[Message] = []
        while len(held) < count and (more := await mq.receive("held", group_id="bench", max_messages=1000, wait=2)):
            held += more
        facts = await mq.admin.describe_group("bench")
        await mq.ack_batch(held)
        return float(sum(queue.in_flight for queue in facts.queues))

    return _with_client(work)


class _LeaseEnds:
    """Messages whose consumer is silent: when they come again. Before their time would be an error."""

    def latest(self) -> float:
        return _with_client(self._work)

    async def _work(self, mq: AsyncClient) -> float:
        count, lease = 500, 2.0
        await _fill(mq, "silent", count, lambda number: OutgoingMessage(b"%d" % number))
        ends: dict[str, float] = {}
        while len(ends) < count:
            requested_at = time.perf_counter()  # the lease began then, or a moment later
            for message in await mq.receive("silent", group_id="bench", max_messages=count, wait=_WAIT_S, lease=lease):
                ends.setdefault(message.message_id, requested_at + lease)
        late: list[float] = []
        while len(late) < count:
            messages = await mq.receive("silent", group_id="bench", max_messages=count, wait=_WAIT_S)
            late += [time.perf_counter() - ends[message.message_id] for message in messages]
            await mq.ack_batch(messages)
        if min(late) < 0:
            raise LiteMQError(f"a message came again {-min(late) * 1000:.1f} ms before its lease had ended")
        return max(late) * 1000


def _urgent_delay(scale: float) -> float:
    low = max(10_000, int(_LOW_PRIORITY * scale))

    async def work(mq: AsyncClient) -> float:
        await mq.admin.create_topic("urgent", queues=1, priorities=True)
        await _fill(mq, "urgent", low, lambda _: OutgoingMessage(b"low", priority=0))
        for message in await mq.receive("urgent", group_id="bench", max_messages=32):
            await message.ack()
        took = []
        for _ in range(20):
            begin = time.perf_counter()
            await mq.send("urgent", b"high", priority=255)
            arrived = False
            while not arrived:
                for message in await mq.receive("urgent", group_id="bench", max_messages=8):
                    arrived = arrived or message.body == b"high"
                    await message.ack()
            took.append(time.perf_counter() - begin)
        return max(took) * 1000

    return _with_client(work)


class _Filter:
    """Reading one message of a hundred, against reading all of them."""

    def __init__(self, messages: int) -> None:
        self._messages = messages
        self.by_condition = 0.0

    def by_tag(self) -> float:
        with running_cluster() as url:
            run(fill_for_filter(url, topic="filtered", messages=self._messages))
            result = run(measure_filter(url, topic="filtered"))
        self.by_condition = result.sql_ratio
        return result.tag_ratio
