"""Refusals that end by themselves: the client sends again, and tells the reason meanwhile."""

import asyncio

import pytest

from litemq import AsyncClient
from litemq.errors import NotEnoughReplicasError
from litemq.testing import memory
from support.on_loop import on_loop
from support.waiting import eventually


@on_loop
async def test_the_reason_is_known_until_the_message_is_accepted() -> None:
    async with AsyncClient("memory://refusals", retry_backoff_ms=1) as mq:
        await mq.send("orders", b"first")
        assert mq.refusals == {}
        store = memory._shared["memory://refusals"].cluster.broker.context.store
        append = store.append

        def refuse(*_arguments: object, **_options: object) -> object:
            raise NotEnoughReplicasError("1 replica is in sync")

        store.append = refuse  # type: ignore[method-assign,assignment]
        sending = asyncio.ensure_future(mq.send("orders", b"second"))
        await eventually(lambda: mq.refusals)
        assert mq.refusals == {"memory": "1 replica is in sync"}
        assert not sending.done()
        store.append = append  # type: ignore[method-assign]
        await sending
        assert mq.refusals == {}


@on_loop
async def test_the_send_fails_with_the_reason_when_its_time_is_over() -> None:
    async with AsyncClient(
        "memory://refused", retry_backoff_ms=1, request_timeout_ms=1_000, delivery_timeout_ms=1_000
    ) as mq:
        await mq.admin.create_topic("orders", queues=1)
        store = memory._shared["memory://refused"].cluster.broker.context.store

        def refuse(*_arguments: object, **_options: object) -> object:
            raise NotEnoughReplicasError("1 replica is in sync")

        store.append = refuse  # type: ignore[method-assign,assignment]
        with pytest.raises(NotEnoughReplicasError, match="1 replica is in sync"):
            await mq.send("orders", b"first")
        assert mq.refusals == {}
