"""Typed topics: values of one type, whose schema is kept at the topic."""

import asyncio
import json
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal

import pytest
from pydantic import BaseModel

import litemq
from litemq.errors import IncompatibleSchemaError, InvalidArgumentError, SerializationError
from support.engines import Engine, read_all
from support.waiting import eventually

capability = pytest.mark.capability


class Order(BaseModel):
    id: int
    at: datetime
    total: Decimal = Decimal(0)


class OrderWithNote(BaseModel):
    id: int
    at: datetime
    total: Decimal = Decimal(0)
    note: str = ""


class OrderWithCustomer(BaseModel):
    id: int
    at: datetime
    total: Decimal = Decimal(0)
    customer: str


@dataclass
class Click:
    page: str


_ORDER = Order(id=7, at=datetime(2026, 1, 31, tzinfo=UTC), total=Decimal("1.10"))


@capability("Typed topics: pydantic models and dataclasses, with a schema at the topic")
async def test_values_arrive_as_their_type(engine: Engine, topic: str) -> None:
    seen: list[object] = []
    async with engine.client() as mq:
        orders = mq.topic(topic, Order)
        assert mq.topic(topic, Order) is orders
        await orders.send(_ORDER, keys="k")
        assert len(await orders.send_batch([_ORDER, _ORDER])) == 2
        assert [message.value for message in await read_all(mq, topic)] == [_ORDER] * 3
        with pytest.raises(SerializationError, match="Send a value of type Order"):
            await orders.send({"id": 1})  # type: ignore[arg-type]

        @orders.subscriber(group_id="g")
        async def handle(order: Order, message: litemq.Message) -> None:
            seen.append((order, message.topic))

        with pytest.raises(InvalidArgumentError, match="declare its first parameter as Order"):

            @orders.subscriber(group_id="other")  # type: ignore[arg-type]
            async def wrong(order: Click) -> None: ...

        running = asyncio.create_task(mq.run())
        await eventually(lambda: len(seen) == 3)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        assert seen == [(_ORDER, topic)] * 3
        with pytest.raises(InvalidArgumentError, match=f"topic '{topic}' has the type Order in this client, not Click"):
            mq.topic(topic, Click)


@capability("A topic's schema: compatible changes only, unless its compatibility is none")
async def test_an_incompatible_type_is_refused(engine: Engine, topic: str) -> None:
    async with engine.client() as mq:
        await mq.topic(topic, Order).send(_ORDER)
        (schema,) = (await mq.admin.describe_topic(topic)).settings.schemas
        assert json.loads(schema)["properties"].keys() == {"id", "at", "total"}
    async with engine.client() as mq:
        await mq.topic(topic, OrderWithNote).declare()
        assert len((await mq.admin.describe_topic(topic)).settings.schemas) == 2
    async with engine.client() as mq:  # a program with the earlier type goes on
        await mq.topic(topic, Order).send(_ORDER)
        assert len((await mq.admin.describe_topic(topic)).settings.schemas) == 2
    async with engine.client() as mq:
        wrong = mq.topic(topic, OrderWithCustomer)
        with pytest.raises(IncompatibleSchemaError, match="field 'customer' is required, and earlier"):
            await wrong.send(OrderWithCustomer(id=1, at=_ORDER.at, customer="c"))
        assert len(await read_all(mq, topic)) == 2
        await mq.admin.alter_topic(topic, compatibility="none")
        await wrong.send(OrderWithCustomer(id=1, at=_ORDER.at, customer="c"))
        settings = (await mq.admin.describe_topic(topic)).settings
        assert settings.compatibility == "none"
        assert len(settings.schemas) == 1
        for nonsense in ({"schema": 5}, {"schema": {"x": object()}}, {"compatibility": "forward"}):
            with pytest.raises(InvalidArgumentError):
                await mq.admin.alter_topic(topic, **nonsense)


@pytest.mark.no_auto_create
async def test_a_typed_topic_is_not_created_against_the_brokers_will(engine: Engine, topic: str) -> None:
    async with engine.client() as mq:
        with pytest.raises(litemq.errors.TopicNotFoundError):
            await mq.topic(topic, Click).send(Click("x"))


def test_the_synchronous_client(engine: Engine, topic: str) -> None:
    with engine.sync_client() as mq:
        clicks = mq.topic(topic, Click)
        clicks.declare()
        clicks.send(Click("home"))
        clicks.send_batch([Click("a"), Click("b")])
        assert sorted(message.value.page for message in mq.reader(topic, follow=False)) == ["a", "b", "home"]
        assert repr(clicks) == f"<Topic {topic} of Click>"
        assert clicks.schema["properties"].keys() == {"page"}

        @clicks.subscriber(group_id="g")
        def handle(click: Click) -> None: ...

        assert [each.topic for each in mq.subscriptions] == [topic]
