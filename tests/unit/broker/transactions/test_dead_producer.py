"""Check-back for a producer that never comes back: which producers are asked, and where it ends."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import pytest

from litemq.broker.broker import Broker
from litemq.broker.limits import BrokerLimits
from litemq.clock import FakeClock
from litemq.errors import ConnectionLostError
from litemq.format.dead_letters import history_from_properties
from litemq.format.limits import STORED_LIMITS
from litemq.format.record_decode import decode_record
from litemq.proto.wire_pb2 import (
    TX_COMMITTED,
    TX_DEAD,
    TX_UNDECIDED,
    Opcode,
    WhyAnswer,
    WhyRequest,
)
from litemq.storage.disk_store import DiskStore
from litemq.storage.state import QueueKey
from litemq.types import DeadReason, StoredRecord
from support.on_loop import on_loop
from support.quick_disk import QuickDisk
from support.stores import CONFIG
from support.transactions import Producer, half, name_of
from support.waiting import eventually

LIMITS: Final = BrokerLimits(check_after_ms=60_000, check_every_ms=60_000, max_checks=3)
ORDER: Final = name_of(1)
DAY: Final = 86_400


class Shop:
    """A broker on disk, and a producer that died after it had sent its half messages."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self.clock = FakeClock()

    @asynccontextmanager
    async def broker(self) -> AsyncIterator[Broker]:
        self.store = DiskStore(self._directory, CONFIG, self.clock, disk=QuickDisk(), host="here")
        self._broker = Broker(self.store, self.clock, LIMITS)
        try:
            yield self._broker
            await asyncio.gather(*self._broker.context.answers._tasks)
        finally:
            self._broker.close()
            self.store.close()

    async def dies(self, broker: Broker) -> None:
        producer = Producer(broker, "dead")
        await producer.create(queues=1)
        await producer.send_halves(half(ORDER) + half(ORDER, 1))
        producer.channel.abort(ConnectionLostError("it is dead"))

    async def polled_by(self, producers: int) -> None:
        await eventually(lambda: self._broker._transactions._check_back._waiting == producers)

    async def pass_time(self, seconds: float) -> None:
        self.clock.advance(seconds)
        self._broker.context.ring_due()
        await asyncio.gather(*self._broker.context.answers._tasks)

    async def messages(self, topic: str = "orders") -> list[StoredRecord]:
        facts = self.store.state.topic(topic)
        if facts is None:
            return []
        await self._broker._transactions.publish_decided()
        await self.store.confirmed(self.store.log_end)
        data = bytes(self.store.read_queue(QueueKey(facts.topic_id, 0), 0, 1000, 1 << 20))
        found: list[StoredRecord] = []
        at = 0
        while at < len(data):
            found.append(decode_record(data, at, limits=STORED_LIMITS))
            at += found[-1].size
        return found


def _poll(producer: Producer, group: str = "shop") -> asyncio.Task[list[str]]:
    """Wait for checks as a living producer does; return the transactions that are asked for."""

    async def asked() -> list[str]:
        return [facts.transaction for facts in (await producer.poll(group, wait_ms=60_000))[0]]

    return asyncio.create_task(asked())


@on_loop
async def test_another_producer_of_the_group_decides(tmp_path: Path) -> None:
    """The broker asks one producer at a time, and no producer of another group."""
    shop = Shop(tmp_path)
    async with shop.broker() as broker:
        await shop.dies(broker)
        ann, bob, stranger = (Producer(broker, name) for name in ("ann", "bob", "stranger"))
        foreign = _poll(stranger, "other")
        asked_ann = _poll(ann)
        await shop.polled_by(2)
        await shop.pass_time(60)
        assert await asked_ann == [ORDER]
        ann.channel.abort(ConnectionLostError("it dies before it answers"))
        asked_bob = _poll(bob)
        await shop.polled_by(2)
        await shop.pass_time(59)
        assert not asked_bob.done(), "the broker waits for the answer of the first one until the next check"
        await shop.pass_time(1)
        assert await asked_bob == [ORDER]
        facts = await bob.describe(ORDER)
        assert (facts.state, facts.checks) == (TX_UNDECIDED, 2)
        assert [(each.asked, each.unknown) for each in facts.story] == [("ann", False), ("bob", False)]
        assert await shop.messages() == []
        assert await bob.commit(ORDER) == [TX_COMMITTED]
        assert [stored.record.message_id for stored in await shop.messages()] == [f"{ORDER}#0", f"{ORDER}#1"]
        again = _poll(bob)
        await shop.polled_by(2)
        await shop.pass_time(600)
        assert not again.done()
        assert not foreign.done()
        for producer, poll in ((bob, again), (stranger, foreign)):
            producer.channel.abort(ConnectionLostError("the test is over"))
            with pytest.raises(ConnectionLostError):
                await poll


@on_loop
async def test_without_a_producer_it_ends_as_a_dead_letter(tmp_path: Path) -> None:
    """Restarts of the broker neither forget nor repeat checks, and an operator sees each step."""
    shop = Shop(tmp_path)
    async with shop.broker() as broker:
        await shop.dies(broker)
        await shop.pass_time(60)
        operator = Producer(broker, "operator")
        (waiting,) = (await operator.listed(most=10)).transactions
        assert (waiting.transaction, waiting.checks, waiting.records) == (ORDER, 1, 2)
        assert waiting.next_check_at == shop.clock.wall_ms() + 60_000
    shop.clock.advance(2 * DAY)  # the broker is down
    async with shop.broker() as broker:
        operator = Producer(broker, "operator")
        await shop.pass_time(0)
        await shop.pass_time(59)
        facts = await operator.describe(ORDER)
        assert (facts.state, facts.checks) == (TX_UNDECIDED, 2), "two days are one check"
        assert await shop.messages("%DLQ%orders") == []
    async with shop.broker() as broker:
        operator = Producer(broker, "operator")
        await shop.pass_time(1)
        facts = await operator.describe(ORDER)
        assert (facts.state, facts.checks) == (TX_UNDECIDED, 3)
        await shop.pass_time(59)
        assert await shop.messages("%DLQ%orders") == [], "a producer may still answer the last check"
        await shop.pass_time(1)
        dead = await shop.messages("%DLQ%orders")
        assert [letter.record.message_id for letter in dead] == [f"{ORDER}#0", f"{ORDER}#1"]
        history = history_from_properties(dead[0].record.properties)
        assert (history.reason, history.tries, history.transaction) == (DeadReason.UNDECIDED, 3, ORDER)
        assert history.error.endswith("undecided after 3 checks: no producer of its group was connected")
        assert history.stack.count("no producer was connected") == 3
        assert list((await operator.listed(most=10)).transactions) == []
        request = WhyRequest(topic="orders", message_id=f"{ORDER}#0", group="billing").SerializeToString()
        why = WhyAnswer.FromString((await operator.channel.ask(Opcode.WHY, request)).header)
        assert "undecided" in f"{why.sentence} {why.advice} {list(why.facts)}"
        assert await shop.messages() == []
        # The producer was not dead but very slow. It learns that its decision comes too late.
        assert await Producer(broker, "dead").commit(ORDER) == [TX_DEAD]
        await shop.pass_time(2 * DAY)
        assert await shop.messages() == []
        assert len(await shop.messages("%DLQ%orders")) == 2
