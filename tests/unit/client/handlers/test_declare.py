"""Topics of handlers: found, created, waited for, missing."""

import logging

import pytest

from litemq.client.config import ClientConfig
from litemq.client.handlers.declare import declare_topics
from litemq.errors import InvalidArgumentError, LiteMQError, NoRouteError, TopicNotFoundError
from support.on_loop import on_loop

CONFIG = ClientConfig(retry_backoff_ms=1, max_retry_backoff_ms=1)


class Finder:
    """Topics that are found after the errors listed for them."""

    def __init__(self, **errors: list[LiteMQError]) -> None:
        self.errors = errors
        self.calls: list[str] = []

    async def find(self, topic: str) -> None:
        self.calls.append(topic)
        if self.errors.get(topic):
            raise self.errors[topic].pop(0)


@on_loop
async def test_each_topic_is_found_once() -> None:
    finder = Finder()
    await declare_topics(["a", "b", "a"], finder.find, CONFIG)
    assert finder.calls == ["a", "b"]


@on_loop
async def test_without_a_broker_it_waits_and_says_so_once(caplog: pytest.LogCaptureFixture) -> None:
    finder = Finder(a=[NoRouteError("no broker is alive")] * 3)
    with caplog.at_level(logging.INFO, "litemq"):
        await declare_topics(["a"], finder.find, CONFIG)
    assert finder.calls == ["a"] * 4
    assert [record.getMessage() for record in caplog.records] == ["waiting for topic a: no broker is alive"]


@on_loop
async def test_all_missing_topics_are_in_one_error() -> None:
    finder = Finder(a=[TopicNotFoundError("no")], c=[TopicNotFoundError("no")])
    with pytest.raises(TopicNotFoundError, match=r"topics a, c do not exist: create .* topics\.auto_create"):
        await declare_topics(["a", "b", "c"], finder.find, CONFIG)


@on_loop
async def test_other_errors_are_raised() -> None:
    with pytest.raises(InvalidArgumentError, match="wrong"):
        await declare_topics(["a"], Finder(a=[InvalidArgumentError("wrong")]).find, CONFIG)
