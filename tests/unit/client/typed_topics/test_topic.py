"""A typed topic declares its schema once, however many calls use it."""

import asyncio
from dataclasses import dataclass
from typing import Any

import pytest

import litemq
from litemq.client.engine.topics import TopicChanges
from litemq.errors import InvalidArgumentError, TopicNotFoundError


@dataclass
class Click:
    page: str


@dataclass
class Other:
    page: str


def test_the_schema_is_stored_once(monkeypatch: pytest.MonkeyPatch) -> None:
    async def run() -> None:
        stored: list[TopicChanges] = []
        async with litemq.AsyncClient("memory://") as mq:
            engine = mq._opened()
            alter = engine.alter_topic

            async def alter_topic(topic: str, changes: TopicChanges) -> Any:
                stored.append(changes)
                return await alter(topic, changes)

            monkeypatch.setattr(engine, "alter_topic", alter_topic)
            clicks = mq.topic("clicks", Click)
            await asyncio.gather(*(clicks.send(Click(str(number))) for number in range(10)))
            await clicks.declare()
            assert len(stored) == 1

    asyncio.run(run())


def test_a_failed_declaration_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    async def run() -> None:
        async with litemq.AsyncClient("memory://") as mq:
            engine = mq._opened()
            route = engine.route

            async def no_route(topic: str, *, create: bool = False) -> Any:
                raise TopicNotFoundError(topic)

            clicks = mq.topic("clicks", Click)
            monkeypatch.setattr(engine, "route", no_route)
            with pytest.raises(TopicNotFoundError):
                await clicks.send(Click("x"))
            monkeypatch.setattr(engine, "route", route)
            await clicks.send(Click("x"))

    asyncio.run(run())


def test_a_topic_has_one_type() -> None:
    mq = litemq.AsyncClient("memory://")
    assert repr(mq.topic("clicks", Click)) == "<AsyncTopic clicks of Click>"
    with pytest.raises(InvalidArgumentError, match="has the type Click in this client, not Other"):
        mq.topic("clicks", Other)
    with pytest.raises(InvalidArgumentError):
        mq.topic("no/name", Click)
