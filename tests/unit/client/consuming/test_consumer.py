"""A consumer in queue mode whose ``close`` does not come to its end."""

import asyncio

import pytest

from litemq.client.consuming.consumer import Consumer
from support.clusters import local_cluster
from support.on_loop import on_loop
from support.waiting import eventually


@on_loop
async def test_a_cancelled_close_gives_the_queues_to_others(monkeypatch: pytest.MonkeyPatch) -> None:
    async with local_cluster() as cluster, cluster.client(session_timeout_ms=300) as one, cluster.client() as two:
        await one.admin.create_topic("orders", queues=2)
        consumer = one.consumer("orders", group_id="g")
        async with consumer:
            await eventually(lambda: len(consumer.assignment) == 2)
            committing = asyncio.Event()

            async def hang(_: Consumer) -> None:
                committing.set()
                await asyncio.Event().wait()

            with monkeypatch.context() as patch:
                patch.setattr(Consumer, "commit", hang)
                closing = asyncio.create_task(consumer.close())
                await committing.wait()
                closing.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await closing
            other = two.consumer("orders", group_id="g")
            async with other:
                await eventually(lambda: len(other.assignment) == 2, within=30)
            await consumer.close()  # once more, to the end
            assert consumer.is_closed
