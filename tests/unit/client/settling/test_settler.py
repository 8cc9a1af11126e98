"""One request for all that is settled in a turn; again where an answer was lost; an end."""

import asyncio
from typing import Any

import pytest

from litemq.client.config import ClientConfig
from litemq.client.settling.ack_policy import Failure
from litemq.client.settling.settlements import FailedDelivery, Place, Unsettled
from litemq.client.settling.settler import Settler
from litemq.errors import ClientClosedError, ConnectionLostError, InvalidArgumentError, LeaseLostError, OverloadedError
from support.lease_backend import LeaseBackend
from support.on_loop import on_loop


def settler_of(backend: LeaseBackend, **settings: Any) -> Settler:
    config = ClientConfig(**{"retry_backoff_ms": 1, "max_retry_backoff_ms": 2, **settings})
    return Settler(backend, "b", "orders", "g", config)


@on_loop
async def test_one_turn_is_one_request() -> None:
    backend = LeaseBackend()
    settler = settler_of(backend)
    outcomes = [settler.ack(0, False, 7, offset).outcome(Place(0, False, offset)) for offset in range(100)]
    outcomes.append(settler.fail(FailedDelivery(Place(1, False, 3), 7, 1, Failure(delay=1))).outcome(Place(1, False, 3)))
    await asyncio.gather(*outcomes)
    ((acked, failed),) = backend.settled
    assert acked == [(0, False, 7, [0, 100])]
    assert [each.place.offset for each in failed] == [3]


@on_loop
async def test_while_requests_are_on_their_way_what_comes_goes_together() -> None:
    backend = LeaseBackend()
    backend.gate.clear()
    settler = settler_of(backend)
    for offset in range(20):
        settler.ack(0, False, 7, offset)
        await asyncio.sleep(0)
        await asyncio.sleep(0)
    assert len(backend.settled) == 4
    backend.gate.set()
    await settler.flush()
    assert [acked[0].offsets for acked, _ in backend.settled] == [[0, 1], [1, 1], [2, 1], [3, 1], [4, 16]]


@on_loop
async def test_a_request_is_bounded() -> None:
    backend = LeaseBackend()
    settler = settler_of(backend)
    for offset in range(20_000):
        settler.ack(0, False, 7, offset)
    await settler.flush()
    assert [acked[0].offsets[1] for acked, _ in backend.settled] == [8192, 8192, 3616]


@on_loop
async def test_stories_are_long() -> None:
    backend = LeaseBackend()
    settler = settler_of(backend)
    for offset in range(120):
        settler.fail(FailedDelivery(Place(0, False, offset), 7, 1, Failure(stack="x" * 8000)))
    await settler.flush()
    assert [len(failed) for _, failed in backend.settled] == [50, 50, 20]


@on_loop
async def test_a_lost_answer_is_asked_for_again() -> None:
    backend = LeaseBackend()
    backend.troubles += [ConnectionLostError("gone"), OverloadedError("busy", 1)]
    settler = settler_of(backend)
    await settler.ack(0, False, 7, 5).outcome(Place(0, False, 5))
    assert [acked[0].offsets for acked, _ in backend.settled] == [[5, 1]] * 3


@on_loop
async def test_the_time_is_up() -> None:
    backend = LeaseBackend()
    backend.troubles += [ConnectionLostError("gone")] * 1000
    settler = settler_of(backend, request_timeout_ms=20, delivery_timeout_ms=20)
    with pytest.raises(ConnectionLostError):
        await settler.ack(0, False, 7, 5).outcome(Place(0, False, 5))


@on_loop
async def test_what_is_refused_is_told_to_those_concerned() -> None:
    backend = LeaseBackend()
    backend.unsettled = [Unsettled(Place(0, False, 1), LeaseLostError("too late"))]
    settler = settler_of(backend)
    outcomes = [settler.ack(0, False, 7, offset).outcome(Place(0, False, offset)) for offset in range(3)]
    told = await asyncio.gather(*outcomes, return_exceptions=True)
    assert [type(each) for each in told] == [type(None), LeaseLostError, type(None)]
    backend.troubles.append(InvalidArgumentError("never"))
    with pytest.raises(InvalidArgumentError):
        await settler.ack(0, False, 7, 9).outcome(Place(0, False, 9))


@on_loop
async def test_flush_waits_for_what_was_before_it_alone() -> None:
    backend = LeaseBackend()
    settler = settler_of(backend)

    async def keep_settling() -> None:
        for offset in range(1, 1_000_000):
            settler.ack(0, False, 7, offset)
            await asyncio.sleep(0)

    settler.ack(0, False, 7, 0)
    settling = asyncio.ensure_future(keep_settling())
    await asyncio.sleep(0)
    await settler.flush()
    assert not settling.done()
    settling.cancel()
    await settler.close()


@on_loop
async def test_an_end_leaves_nobody_waiting() -> None:
    backend = LeaseBackend()
    backend.gate.clear()
    settler = settler_of(backend)
    outcomes = []
    for offset in range(6):
        outcomes.append(settler.ack(0, False, 7, offset).outcome(Place(0, False, offset)))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
    await settler.close()
    for outcome in outcomes:
        with pytest.raises(ClientClosedError):
            await outcome
    with pytest.raises(ClientClosedError):
        settler.ack(0, False, 7, 9)
