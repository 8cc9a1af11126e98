"""Filters: the brokers select messages by tags or by a condition."""

from collections.abc import Callable
from typing import Any

import pytest

from litemq import OutgoingMessage
from litemq.errors import FilterSyntaxError, InvalidArgumentError
from support.engines import Engine

capability = pytest.mark.capability


def _messages(count: int) -> list[OutgoingMessage]:
    return [
        OutgoingMessage(
            str(n).encode(),
            tags=("red", "green", "blue")[n % 3],
            keys=f"k{n}",
            properties={"n": str(n)},
            ordering_key="one",
        )
        for n in range(count)
    ]


SELECTIONS: list[tuple[dict[str, Any], Callable[[int], object]]] = [
    ({"tags": "red"}, lambda n: n % 3 == 0),
    ({"tags": "red || blue"}, lambda n: n % 3 != 1),
    ({"tags": ["green", "blue"]}, lambda n: n % 3 != 0),
    ({"tags": "*"}, lambda _: True),
    ({"where": "n BETWEEN 10 AND 20 AND tags <> 'red'"}, lambda n: 10 <= n <= 20 and n % 3),
    ({"where": "keys IN ('k1', 'k99') OR n < 0"}, lambda n: n in (1, 99)),
    ({"tags": "nothing"}, lambda _: False),
]


UNREADABLE: list[dict[str, Any]] = [{"where": "n >"}, {"where": "f(n) = 1"}, {"tags": "a ||"}]
WRONG: list[dict[str, Any]] = [{"where": "n > 1", "tags": "a"}, {"where": "  "}, {"tags": ["a", ""]}]


@capability("`reader` with `tags=` or `where=`")
async def test_readers(engine: Engine, topic: str) -> None:
    async with engine.client() as mq:
        await mq.send_batch(topic, _messages(100))
        for options, wanted in SELECTIONS:
            found = [int(message.body) async for message in mq.reader(topic, follow=False, **options)]
            assert found == [n for n in range(100) if wanted(n)], options


@capability("An invalid filter is rejected with a description of the error")
async def test_a_filter_that_cannot_be_read(engine: Engine, topic: str) -> None:
    async with engine.client() as mq:
        await mq.send(topic, b"x")
        for options in UNREADABLE:
            with pytest.raises(FilterSyntaxError):
                await anext(mq.reader(topic, **options))
        for options in WRONG:
            with pytest.raises(InvalidArgumentError):
                mq.reader(topic, **options)
