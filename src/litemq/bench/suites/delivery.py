"""``litemq bench suite delivery``: leases, filters, priorities and groups.

Each figure has its own cluster, started with the ``litemq`` command, with its data in the temporary
directory (``TMPDIR``). The load comes from this process through the public client. Bodies have 1
KiB.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Callable, Coroutine
from typing import Any, Final

from litemq import AsyncClient
from litemq.bench.clusters import running_cluster
from litemq.bench.peers.finding import find_peer
from litemq.bench.peers.nats_client import NatsClient
from litemq.bench.peers.peer import Peer
from litemq.bench.suite import Figure, at_least, at_most
from litemq.bench.workloads.filters import fill_for_filter, measure_filter
from litemq.bench.workloads.members import GroupWorkload
from litemq.client.messages.message import Message
from litemq.client.messages.outgoing import OutgoingMessage
from litemq.errors import LiteMQError
from litemq.net.event_loop import run

__all__ = ["figures"]

_BODY: Final = secrets.token_bytes(1024)
_FETCHED: Final = 100
_MESSAGES: Final = 200_000
_BATCH: Final = 500
_ONE_BY_ONE: Final = 256  # concurrent callers
_PENDING_ACKS: Final = 4_000
_IN_FLIGHT: Final = 50_000
_FILTERED: Final = 1_000_000
_LOW_PRIORITY: Final = 1_000_000
_SENT_AT_ONCE: Final = 10_000
_WAIT_S: Final = 30.0


def figures(scale: float) -> list[Figure]:
    """Return the figures of delivery; ``scale`` makes each measurement smaller."""
    messages = max(2_000, int(_MESSAGES * scale))
    leases = _Leases(messages)
    ends = _LeaseEnds()
    group = GroupWorkload(scale)
    filtered = _Filter(max(10_000, int(_FILTERED * scale)))
    found = [
        Figure(
            "lease_batched",
            "receive and acknowledge, 500 at a time, one process",
            "msg/s",
            leases.batched,
            at_least(60_000),
        ),
        Figure(
            "lease_one_by_one",
            "async for and ack_nowait, one message at a time",
            "msg/s",
            leases.one_by_one,
            at_least(30_000),
        ),
        Figure(
            "lease_one_a_call",
            "receive one and wait until its ack is stored, 256 concurrent callers",
            "msg/s",
            leases.one_a_call,
        ),
        Figure(
            "leases_in_flight",
            "messages leased at the same time",
            "messages",
            lambda: _in_flight(scale),
            at_least(_IN_FLIGHT * min(1, scale)),
        ),
        Figure(
            "lease_end_late",
            "maximum time from a lease's expiry to the message's next delivery",
            "ms",
            ends.latest,
            at_most(100),
        ),
        Figure(
            "priority_behind",
            "latency of a high-priority message behind 1M low ones",
            "ms",
            lambda: _urgent_delay(scale),
            at_most(100),
        ),
        Figure("tag_filter", "time to read a tag of 1% / time to read everything", "×", filtered.by_tag, at_most(0.1)),
        Figure("sql_filter", "the same by a condition on a property", "×", lambda: filtered.by_condition),
        Figure(
            "unmoved_gap",
            "queues that stay: longest pause / longest pause without a rebalance",
            "×",
            group.unmoved,
            at_most(2),
        ),
        Figure(
            "moved_resume",
            "queues that move: maximum time from the session's end to the next delivery",
            "s",
            lambda: group.resumed,
            at_most(1),
        ),
    ]
    nats = find_peer("nats")
    if nats is not None:
        peer = _NatsRate(nats, messages // 4)
        found[2:2] = [
            Figure("nats_fetch_ack", "NATS JetStream, nats-py: fetch 100, acknowledge each", "msg/s", peer.rate),
            Figure(
                "lease_over_nats", "lease_batched / nats_fetch_ack", "×", lambda: leases.last / peer.last, at_least(1)
            ),
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
        await mq.send_batch(
            topic, [make(number) for number in range(first, min(count, first + _SENT_AT_ONCE))], durability="memory"
        )


class _Leases:
    """Rates of receiving and acknowledging all messages of a topic."""

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
                if len(waiting) == _PENDING_ACKS or done == self._messages:
                    await asyncio.gather(*waiting)
                    waiting.clear()
                if done == self._messages:
                    break
        return done / (time.perf_counter() - begin)

    async def _work(
        self, mq: AsyncClient, settle: Callable[[list[Message]], Coroutine[Any, Any, None]], batch: int, callers: int
    ) -> float:
        await _fill(mq, "leased", self._messages, lambda _: OutgoingMessage(_BODY))
        done = 0

        async def caller() -> None:
            nonlocal done
            while done < self._messages:
                messages = await mq.receive("leased", group_id="bench", max_messages=batch, wait=0.2)
                await settle(messages)
                done += len(messages)

        begin = time.perf_counter()
        await asyncio.gather(*(caller() for _ in range(callers)))
        if done != self._messages:
            raise LiteMQError(f"{done} of {self._messages} messages were delivered")
        return done / (time.perf_counter() - begin)


class _NatsRate:
    """The rate of fetching and acknowledging with NATS JetStream."""

    def __init__(self, peer: Peer, messages: int) -> None:
        self._peer = peer
        self._messages = messages
        self.last = 1.0

    def rate(self) -> float:
        with self._peer.serve() as server:
            self.last = asyncio.run(self._fetch(NatsClient(server.address, _FETCHED)))
        return self.last

    async def _fetch(self, client: NatsClient) -> float:
        await client.fill(self._messages)
        load = await client.consume(self._messages)
        return load.messages / load.seconds


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
    """Redelivery of messages whose lease expires. An early redelivery is an error."""

    def latest(self) -> float:
        return _with_client(self._work)

    async def _work(self, mq: AsyncClient) -> float:
        count, lease = 500, 2.0
        await _fill(mq, "silent", count, lambda number: OutgoingMessage(b"%d" % number))
        ends: dict[str, float] = {}
        while len(ends) < count:
            requested_at = time.perf_counter()  # the lease starts now or shortly after
            for message in await mq.receive("silent", group_id="bench", max_messages=count, wait=_WAIT_S, lease=lease):
                ends.setdefault(message.message_id, requested_at + lease)
        late: list[float] = []
        while len(late) < count:
            messages = await mq.receive("silent", group_id="bench", max_messages=count, wait=_WAIT_S)
            late += [time.perf_counter() - ends[message.message_id] for message in messages]
            await mq.ack_batch(messages)
        if min(late) < 0:
            raise LiteMQError(f"a message was redelivered {-min(late) * 1000:.1f} ms before its lease expired")
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
    """The time to read one message in a hundred, relative to reading all of them."""

    def __init__(self, messages: int) -> None:
        self._messages = messages
        self.by_condition = 0.0

    def by_tag(self) -> float:
        with running_cluster() as url:
            run(fill_for_filter(url, topic="filtered", messages=self._messages))
            result = run(measure_filter(url, topic="filtered"))
        self.by_condition = result.sql_ratio
        return result.tag_ratio
