"""Steady load: which acknowledged messages a topic lacks."""

import asyncio

from litemq import AsyncClient
from litemq.bench.workloads.steady_acks import Unmatched, _compare, compare_acked, sending
from litemq.testing import MemoryBroker
from support.on_loop import on_loop


@on_loop
async def test_what_was_acknowledged_is_there() -> None:
    with MemoryBroker() as broker:
        async with AsyncClient(broker.url) as mq:
            await mq.admin.create_topic("load", queues=4)
            async with sending(mq, "load", 1_000) as load:
                await load.wait_acked(0.0, 100)
            await mq.flush()
            await asyncio.sleep(0)  # until the last callbacks have run
            assert len(load.acked) == len(load.acked_at) >= 100
            assert await compare_acked(mq, load) == Unmatched(0, 0)
            load.acked.append(1_000_000)
            assert await compare_acked(mq, load) == Unmatched(1, 0)


def test_a_duplicate_does_not_hide_a_loss() -> None:
    assert _compare([0, 1, 2], [0, 1, 1]) == Unmatched(1, 1)


def test_a_message_that_was_not_acknowledged_may_be_stored() -> None:
    assert _compare([0], [0, 1]) == Unmatched(0, 0)
