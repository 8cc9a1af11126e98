"""The lag of a group, exact to the message."""

import asyncio
from pathlib import Path
from typing import NamedTuple

from litemq.broker.broker import Broker
from litemq.broker.groups.queue_lag import QueueStatistics, queue_statistics
from litemq.clock import FakeClock
from litemq.storage.state import QueueKey, retry_topic
from litemq.storage.store import Store
from support.callers import records, running_broker
from support.leases import Leaser


class DeliveryStatistics(NamedTuple):
    """The statistics of a group in a topic: all queues, then the retry queue if there is one."""

    queues: tuple[QueueStatistics, ...]
    waiting_tries: int

    @property
    def lag(self) -> int:
        return sum(queue.lag for queue in self.queues)

    @property
    def in_flight(self) -> int:
        return sum(queue.in_flight for queue in self.queues)

    @property
    def ready(self) -> int:
        return sum(queue.ready for queue in self.queues)


def _statistics(broker: Broker, clock: FakeClock) -> DeliveryStatistics:
    state = broker.context.store.state
    keys = [QueueKey(16, queue_id) for queue_id in range(state.topics[16].queues)]
    retry = state.topic(retry_topic("billing"))
    if retry is not None and QueueKey(retry.topic_id, 16) in state.end_offsets:
        keys.append(QueueKey(retry.topic_id, 16))
    queues = tuple(queue_statistics(state, "billing", key, clock.wall_ms()) for key in keys)
    return DeliveryStatistics(queues, sum(name == "billing" for _, name, _ in state.parts.tries))


def oldest_store_timestamp(store: Store, statistics: DeliveryStatistics) -> int:
    times = [
        int(store.read_entries(queue.key, queue.oldest, 1)["store_timestamp"][0])
        for queue in statistics.queues
        if queue.lag
    ]
    return min(times, default=0)


def _numbers(statistics: DeliveryStatistics) -> tuple[int, int, int, int]:
    return statistics.lag, statistics.in_flight, statistics.ready, statistics.waiting_tries


def test_lag_in_flight_and_ready_count_every_message(tmp_path: Path) -> None:
    clock = FakeClock()

    async def main() -> None:
        async with running_broker("disk", tmp_path, clock=clock) as broker:
            ann = Leaser(broker)
            await ann.create(queues=2)
            began = clock.wall_ms()
            await ann.send(records(6), 0)
            clock.advance(1)
            await ann.send(records(4, first=6), 1)
            assert _numbers(_statistics(broker, clock)) == (10, 0, 10, 0)
            assert _statistics(broker, clock).queues[0].offset == -1
            got = await ann.ask_for(100, lease_ms=1000)
            got.sort(key=lambda one: (one.queue_id, one.offset))
            assert _numbers(_statistics(broker, clock)) == (10, 10, 0, 0)
            assert await ann.ack(*got[1:6]) == []
            assert oldest_store_timestamp(broker.context.store, _statistics(broker, clock)) == began
            assert await ann.ack(got[0]) == []
            assert oldest_store_timestamp(broker.context.store, _statistics(broker, clock)) == began + 1000
            assert await ann.fail(got[6]) == []
            assert await ann.fail(got[7], delay_ms=5000) == []
            assert _numbers(_statistics(broker, clock)) == (3, 2, 1, 1)
            clock.advance(2)
            assert _numbers(_statistics(broker, clock)) == (3, 0, 3, 1)
            clock.advance(10)
            await broker.fire_due()
            assert _numbers(_statistics(broker, clock)) == (4, 0, 4, 0)
            await broker.context.store.confirmed(broker.context.store.log_end)
            assert await ann.ack(*await ann.ask_for()) == []
            assert _numbers(_statistics(broker, clock)) == (0, 0, 0, 0)
            assert oldest_store_timestamp(broker.context.store, _statistics(broker, clock)) == 0
            await ann.send(records(5, first=10), 0)
            broker.context.store.state.start_offsets[QueueKey(16, 0)] = 8
            assert _statistics(broker, clock).lag == 3, "what retention took is no lag"

    asyncio.run(main())
