"""How a group stands, to the message."""

import asyncio
from pathlib import Path

from litemq.broker.core import Broker
from litemq.broker.delivery_statistics import DeliveryStatistics, delivery_statistics, oldest_store_timestamp
from litemq.clock import FakeClock
from litemq.storage.state import QueueKey
from support.callers import records, running_broker
from support.leases import Leaser


def _statistics(broker: Broker, clock: FakeClock) -> DeliveryStatistics:
    return delivery_statistics(broker._store.state, "billing", 16, clock.wall_ms())


def _numbers(statistics: DeliveryStatistics) -> tuple[int, int, int, int]:
    return statistics.lag, statistics.in_flight, statistics.ready, statistics.waiting_tries


def test_every_message_is_counted_where_it_is(tmp_path: Path) -> None:
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
            assert oldest_store_timestamp(broker._store, _statistics(broker, clock)) == began
            assert await ann.ack(got[0]) == []
            assert oldest_store_timestamp(broker._store, _statistics(broker, clock)) == began + 1000
            assert await ann.fail(got[6]) == []
            assert await ann.fail(got[7], delay_ms=5000) == []
            assert _numbers(_statistics(broker, clock)) == (3, 2, 1, 1)
            clock.advance(2)
            assert _numbers(_statistics(broker, clock)) == (3, 0, 3, 1)
            clock.advance(10)
            await broker.fire_due()
            assert _numbers(_statistics(broker, clock)) == (4, 0, 4, 0)
            await broker._store.confirmed(broker._store.log_end)
            assert await ann.ack(*await ann.ask_for()) == []
            assert _numbers(_statistics(broker, clock)) == (0, 0, 0, 0)
            assert oldest_store_timestamp(broker._store, _statistics(broker, clock)) == 0
            await ann.send(records(5, first=10), 0)
            broker._store.state.least[QueueKey(16, 0)] = 8
            assert _statistics(broker, clock).lag == 3, "what retention took is no lag"

    asyncio.run(main())
