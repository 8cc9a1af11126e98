"""Request batching: one request for each tick and destination, retried until it is answered."""

import asyncio

import pytest

from litemq.client.cluster.request_batcher import RequestBatcher
from litemq.client.config import ClientConfig
from litemq.errors import (
    ClientClosedError,
    ConnectionLostError,
    InvalidArgumentError,
    LiteMQError,
    NotConfirmedError,
    NotMasterError,
    OverloadedError,
    SendOutcomeUnknownError,
)
from support.on_loop import on_loop
from support.waiting import HANG_S

CONFIG = ClientConfig(retry_backoff_ms=1, max_retry_backoff_ms=2)
SHORT_TIMEOUT = ClientConfig(
    retry_backoff_ms=1, max_retry_backoff_ms=2, delivery_timeout_ms=100, request_timeout_ms=100
)


class _FakeBroker:
    """Fails with each of ``failures``, then answers with the double of each number."""

    def __init__(self, *failures: LiteMQError) -> None:
        self.failures = list(failures)
        self.asked: list[tuple[str, list[int]]] = []

    async def ask(self, destination: str, items: list[int]) -> list[int | LiteMQError]:
        self.asked.append((destination, list(items)))
        if self.failures:
            raise self.failures.pop(0)
        await asyncio.sleep(0)
        return [InvalidArgumentError("odd") if item == 13 else 2 * item for item in items]


@on_loop
async def test_a_tick_is_one_request_for_each_destination() -> None:
    broker = _FakeBroker()
    batcher: RequestBatcher[str, int, int] = RequestBatcher(CONFIG, broker.ask, 3, 100)
    waiting = [batcher.add("a", number) for number in range(4)] + [batcher.add("b", 13), batcher.add("b", 5)]
    outcomes = await asyncio.gather(*waiting, return_exceptions=True)
    assert outcomes[:4] == [0, 2, 4, 6]
    assert isinstance(outcomes[4], InvalidArgumentError)
    assert outcomes[5] == 10
    assert sorted(broker.asked) == [("a", [0, 1, 2]), ("a", [3]), ("b", [13, 5])]


@on_loop
async def test_requests_are_bounded() -> None:
    broker = _FakeBroker()
    batcher: RequestBatcher[str, int, int] = RequestBatcher(CONFIG, broker.ask, 100, 10)
    await asyncio.gather(*(batcher.add("a", number, size=4) for number in range(5)))
    assert [items for _, items in broker.asked] == [[0, 1], [2, 3], [4]]


@on_loop
async def test_an_unanswered_request_is_retried() -> None:
    broker = _FakeBroker(ConnectionLostError("cut"), OverloadedError("later", 1), ConnectionLostError("cut"))
    batcher: RequestBatcher[str, int, int] = RequestBatcher(CONFIG, broker.ask, 3, 100)
    assert await batcher.add("a", 1) == 2
    assert broker.asked == [("a", [1])] * 4


@pytest.mark.parametrize(
    ("failure", "expected"),
    [
        (InvalidArgumentError("no"), InvalidArgumentError),
        (ConnectionLostError("cut"), SendOutcomeUnknownError),
        (OverloadedError("later"), OverloadedError),
        (NotMasterError("ask b"), NotMasterError),
        (NotConfirmedError("no lease"), SendOutcomeUnknownError),
    ],
)
@on_loop
async def test_the_error_after_giving_up(failure: LiteMQError, expected: type[LiteMQError]) -> None:
    batcher: RequestBatcher[str, int, int] = RequestBatcher(SHORT_TIMEOUT, _FakeBroker(*[failure] * 1000).ask, 3, 100)
    with pytest.raises(expected):
        await batcher.add("a", 1)


@on_loop
async def test_close_waits_for_requests_in_flight_and_takes_no_more() -> None:
    broker = _FakeBroker()
    batcher: RequestBatcher[str, int, int] = RequestBatcher(CONFIG, broker.ask, 3, 100)
    waiter = batcher.add("a", 1)
    await batcher.close(HANG_S)
    assert waiter.result() == 2
    with pytest.raises(ClientClosedError):
        await batcher.add("a", 2)
    stuck: RequestBatcher[str, int, int] = RequestBatcher(
        CONFIG, _FakeBroker(*[ConnectionLostError("cut")] * 1000).ask, 3, 100
    )
    lost = stuck.add("a", 1)
    await stuck.close(0)
    assert isinstance(lost.exception(), SendOutcomeUnknownError)
