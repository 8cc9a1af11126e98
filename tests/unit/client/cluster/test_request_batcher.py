"""What travels together: one request a turn and place, repeated until it is answered."""

import asyncio

import pytest

from litemq.client.cluster.request_batcher import Gathering
from litemq.client.config import ClientConfig
from litemq.errors import (
    ClientClosedError,
    ConnectionLostError,
    InvalidArgumentError,
    LiteMQError,
    OverloadedError,
    SendOutcomeUnknownError,
)
from support.on_loop import on_loop
from support.waiting import HANG_S

CONFIG = ClientConfig(retry_backoff_ms=1, max_retry_backoff_ms=2)
IMPATIENT = ClientConfig(retry_backoff_ms=1, max_retry_backoff_ms=2, delivery_timeout_ms=100, request_timeout_ms=100)


class _Place:
    """Answers with the double of each number, once it has failed as often as it is told."""

    def __init__(self, *failures: LiteMQError) -> None:
        self.failures = list(failures)
        self.asked: list[tuple[str, list[int]]] = []

    async def ask(self, place: str, items: list[int]) -> list[int | LiteMQError]:
        self.asked.append((place, list(items)))
        if self.failures:
            raise self.failures.pop(0)
        await asyncio.sleep(0)
        return [InvalidArgumentError("odd") if item == 13 else 2 * item for item in items]


@on_loop
async def test_a_turn_is_a_request_for_each_place() -> None:
    place = _Place()
    gathering: Gathering[str, int, int] = Gathering(CONFIG, place.ask, 3, 100)
    waiting = [gathering.add("a", number) for number in range(4)] + [gathering.add("b", 13), gathering.add("b", 5)]
    outcomes = await asyncio.gather(*waiting, return_exceptions=True)
    assert outcomes[:4] == [0, 2, 4, 6]
    assert isinstance(outcomes[4], InvalidArgumentError)
    assert outcomes[5] == 10
    assert sorted(place.asked) == [("a", [0, 1, 2]), ("a", [3]), ("b", [13, 5])]


@on_loop
async def test_no_request_is_larger_than_it_may_be() -> None:
    place = _Place()
    gathering: Gathering[str, int, int] = Gathering(CONFIG, place.ask, 100, 10)
    await asyncio.gather(*(gathering.add("a", number, size=4) for number in range(5)))
    assert [items for _, items in place.asked] == [[0, 1], [2, 3], [4]]


@on_loop
async def test_what_was_not_answered_is_said_again() -> None:
    place = _Place(ConnectionLostError("cut"), OverloadedError("later", 1), ConnectionLostError("cut"))
    gathering: Gathering[str, int, int] = Gathering(CONFIG, place.ask, 3, 100)
    assert await gathering.add("a", 1) == 2
    assert place.asked == [("a", [1])] * 4


@pytest.mark.parametrize(
    ("failure", "told"),
    [
        (InvalidArgumentError("no"), InvalidArgumentError),
        (ConnectionLostError("cut"), SendOutcomeUnknownError),
        (OverloadedError("later"), OverloadedError),
    ],
)
@on_loop
async def test_when_it_is_given_up(failure: LiteMQError, told: type[LiteMQError]) -> None:
    gathering: Gathering[str, int, int] = Gathering(IMPATIENT, _Place(*[failure] * 1000).ask, 3, 100)
    with pytest.raises(told):
        await gathering.add("a", 1)


@on_loop
async def test_closing_waits_for_what_is_on_its_way_and_takes_nothing_more() -> None:
    place = _Place()
    gathering: Gathering[str, int, int] = Gathering(CONFIG, place.ask, 3, 100)
    waiter = gathering.add("a", 1)
    await gathering.close(HANG_S)
    assert waiter.result() == 2
    with pytest.raises(ClientClosedError):
        await gathering.add("a", 2)
    stuck: Gathering[str, int, int] = Gathering(CONFIG, _Place(*[ConnectionLostError("cut")] * 1000).ask, 3, 100)
    lost = stuck.add("a", 1)
    await stuck.close(0)
    assert isinstance(lost.exception(), SendOutcomeUnknownError)
