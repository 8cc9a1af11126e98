"""Filter workload: reads one message in a hundred by filter, and all without one."""

from __future__ import annotations

import time
from typing import Final, NamedTuple

from litemq import AsyncClient, OutgoingMessage

__all__ = ["FilterResult", "fill_for_filter", "measure_filter"]

_ONE_IN: Final = 100
_AT_ONCE: Final = 10_000
_TAGS: Final = ("wanted", "other")


class FilterResult(NamedTuple):
    """The times to read everything and to read with each filter."""

    messages: int
    found: int
    all_seconds: float
    tag_seconds: float
    sql_seconds: float

    @property
    def tag_ratio(self) -> float:
        """Time with a tag filter, relative to reading everything."""
        return self.tag_seconds / self.all_seconds

    @property
    def sql_ratio(self) -> float:
        """Time with a condition on a property, relative to reading everything."""
        return self.sql_seconds / self.all_seconds


async def fill_for_filter(url: str, *, topic: str, messages: int, size: int = 1024) -> None:
    """Send messages of which one in a hundred matches the filters."""
    body = bytes(size)
    async with AsyncClient(url, durability="memory") as mq:
        await mq.admin.create_topic(topic, queues=4)
        for first in range(0, messages, _AT_ONCE):
            numbers = range(first, min(messages, first + _AT_ONCE))
            batch = [
                OutgoingMessage(body, tags=_TAGS[bool(n % _ONE_IN)], properties={"wanted": str(n % _ONE_IN == 0)})
                for n in numbers
            ]
            await mq.send_batch(topic, batch)


async def measure_filter(url: str, *, topic: str) -> FilterResult:
    """Read a topic that ``fill_for_filter`` filled: all of it, by tag, and by a condition."""
    async with AsyncClient(url) as mq:
        messages, all_seconds = await _read(mq, topic)
        found, tag_seconds = await _read(mq, topic, tags=_TAGS[0])
        matching, sql_seconds = await _read(mq, topic, where="wanted = TRUE")
    if found != matching or found != -(-messages // _ONE_IN):
        raise AssertionError(
            f"of {messages} messages, {found} match by tag and {matching} by condition: expected one in {_ONE_IN}"
        )
    return FilterResult(messages, found, all_seconds, tag_seconds, sql_seconds)


async def _read(mq: AsyncClient, topic: str, *, tags: str = "", where: str = "") -> tuple[int, float]:
    begin = time.perf_counter()
    count = 0
    async for _ in mq.reader(topic, follow=False, tags=tags, where=where):
        count += 1
    return count, time.perf_counter() - begin
