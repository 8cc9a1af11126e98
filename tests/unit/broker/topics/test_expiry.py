"""When messages are expired: at the age of the oldest one, and soon after a change of topics."""

import asyncio
from collections.abc import Callable
from typing import Any

from litemq.broker.broker import Broker
from litemq.broker.limits import BrokerLimits
from litemq.clock import FakeClock
from litemq.format.record_encode import encode_record
from litemq.storage.memory_store import MemoryStore
from litemq.storage.state import QueueKey, TopicSettings
from litemq.types import Record
from support.waiting import eventually


def _run(use: Callable[[MemoryStore, Broker, FakeClock], Any]) -> None:
    async def run() -> None:
        clock = FakeClock()
        store = MemoryStore(clock)
        broker = Broker(store, clock, BrokerLimits())
        try:
            await use(store, broker, clock)
        finally:
            broker.close()

    asyncio.run(run())


def _send(store: MemoryStore, settings: TopicSettings) -> QueueKey:
    topic = store.create_topic("orders", 1, settings)
    store.append(bytearray(encode_record(Record("orders", b"x"))), topic.topic_id, 0)
    return QueueKey(topic.topic_id, 0)


def test_a_run_follows_a_change_of_topics_and_the_age_of_the_oldest_message() -> None:
    async def use(store: MemoryStore, broker: Broker, clock: FakeClock) -> None:
        await asyncio.sleep(0)
        key = _send(store, TopicSettings(retention_ms=60_000))
        assert len(broker.context.alarms) == 0
        broker.context.events.on_topics_changed()
        broker.context.events.on_topics_changed()
        await eventually(lambda: len(broker.context.alarms) == 1)  # one run, which has set one alarm
        clock.advance(59)
        assert broker.context.ring_due() == 0
        clock.advance(2)
        await eventually(lambda: store.state.start_offsets[key] == 1)

    _run(use)


def test_topics_without_a_maximum_age_set_no_alarm() -> None:
    async def use(store: MemoryStore, broker: Broker, clock: FakeClock) -> None:
        key = _send(store, TopicSettings())
        clock.advance(1_000_000)
        await broker.fire_due()
        assert len(broker.context.alarms) == 0
        assert store.state.start_offsets[key] == 0

    _run(use)
