"""The settler: one request for each tick, retries after lost answers, and closing."""

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from litemq.client.config import ClientConfig
from litemq.client.settling.ack_policy import Failure
from litemq.client.settling.settlements import DeliveryPosition, FailedDelivery, Unsettled
from litemq.client.settling.settler import Settler
from litemq.errors import (
    ClientClosedError,
    ConnectionLostError,
    InvalidArgumentError,
    LeaseLostError,
    NotConfirmedError,
    NotGroupMemberError,
    NotMasterError,
    OverloadedError,
)
from support.lease_backend import LeaseEngine
from support.on_loop import on_loop


def make_settler(engine: LeaseEngine, **settings: Any) -> Settler:
    config = ClientConfig(**{"retry_backoff_ms": 1, "max_retry_backoff_ms": 2, **settings})
    return Settler(engine, "b", "orders", "g", config)


@on_loop
async def test_one_tick_is_one_request() -> None:
    engine = LeaseEngine()
    settler = make_settler(engine)
    outcomes = [settler.ack(0, False, 7, offset).outcome(DeliveryPosition(0, False, offset)) for offset in range(100)]
    outcomes.append(
        settler.fail(FailedDelivery(DeliveryPosition(1, False, 3), 7, 1, Failure(delay=1))).outcome(
            DeliveryPosition(1, False, 3)
        )
    )
    await asyncio.gather(*outcomes)
    ((acked, failed),) = engine.settled
    assert acked == [(0, False, 7, [0, 100])]
    assert [each.position.offset for each in failed] == [3]


@on_loop
async def test_settlements_are_batched_while_requests_are_in_flight() -> None:
    engine = LeaseEngine()
    engine.gate.clear()
    settler = make_settler(engine)
    for offset in range(20):
        settler.ack(0, False, 7, offset)
        await asyncio.sleep(0)
        await asyncio.sleep(0)
    assert len(engine.settled) == 4
    engine.gate.set()
    await settler.flush()
    assert [acked[0].offsets for acked, _ in engine.settled] == [[0, 1], [1, 1], [2, 1], [3, 1], [4, 16]]


@on_loop
async def test_a_request_is_bounded() -> None:
    engine = LeaseEngine()
    settler = make_settler(engine)
    for offset in range(20_000):
        settler.ack(0, False, 7, offset)
    await settler.flush()
    assert [acked[0].offsets[1] for acked, _ in engine.settled] == [8192, 8192, 3616]


@on_loop
async def test_a_request_holds_few_failures() -> None:
    engine = LeaseEngine()
    settler = make_settler(engine)
    for offset in range(120):
        settler.fail(FailedDelivery(DeliveryPosition(0, False, offset), 7, 1, Failure(stack="x" * 8000)))
    await settler.flush()
    assert [len(failed) for _, failed in engine.settled] == [50, 50, 20]


@on_loop
async def test_a_lost_request_is_retried() -> None:
    engine = LeaseEngine()
    engine.troubles += [ConnectionLostError("gone"), OverloadedError("busy", 1)]
    engine.troubles += [NotConfirmedError("its lease is over"), NotMasterError("another one is")]
    settler = make_settler(engine)
    await settler.ack(0, False, 7, 5).outcome(DeliveryPosition(0, False, 5))
    assert [acked[0].offsets for acked, _ in engine.settled] == [[5, 1]] * 5


@on_loop
async def test_retries_end_after_the_delivery_timeout() -> None:
    engine = LeaseEngine()
    engine.troubles += [ConnectionLostError("gone")] * 1000
    settler = make_settler(engine, request_timeout_ms=20, delivery_timeout_ms=20)
    with pytest.raises(ConnectionLostError):
        await settler.ack(0, False, 7, 5).outcome(DeliveryPosition(0, False, 5))


@on_loop
async def test_a_delivery_of_a_lost_queue_does_not_hold_up_the_others() -> None:
    """The broker refuses the whole request: the others are sent again without it, at once."""
    engine = LeaseEngine()
    settler = make_settler(engine)
    positions = [DeliveryPosition(queue_id, False, 3) for queue_id in range(3)]
    queues = [SimpleNamespace(is_lost=False) for _ in positions]

    def fail(queue_id: int) -> asyncio.Future[None]:
        delivery = FailedDelivery(positions[queue_id], 0, 1, Failure(), queues[queue_id])
        return settler.fail(delivery).outcome(positions[queue_id])

    engine.troubles += [NotGroupMemberError("rejoining"), NotGroupMemberError("queue 1")]
    outcomes = [fail(queue_id) for queue_id in range(3)]
    await asyncio.sleep(0)
    queues[1].is_lost = True
    results = await asyncio.gather(*outcomes, return_exceptions=True)
    assert [type(each) for each in results] == [type(None), NotGroupMemberError, type(None)]
    assert [each.position for each in engine.settled[-1][1]] == [positions[0], positions[2]]

    requests = len(engine.settled)
    engine.troubles.append(NotGroupMemberError("queue 1"))
    with pytest.raises(NotGroupMemberError):
        await fail(1)
    assert len(engine.settled) == requests + 1


@on_loop
async def test_only_unsettled_deliveries_fail() -> None:
    engine = LeaseEngine()
    engine.unsettled = [Unsettled(DeliveryPosition(0, False, 1), LeaseLostError("too late"))]
    settler = make_settler(engine)
    outcomes = [settler.ack(0, False, 7, offset).outcome(DeliveryPosition(0, False, offset)) for offset in range(3)]
    results = await asyncio.gather(*outcomes, return_exceptions=True)
    assert [type(each) for each in results] == [type(None), LeaseLostError, type(None)]
    engine.troubles.append(InvalidArgumentError("never"))
    with pytest.raises(InvalidArgumentError):
        await settler.ack(0, False, 7, 9).outcome(DeliveryPosition(0, False, 9))


@on_loop
async def test_flush_waits_only_for_earlier_settlements() -> None:
    engine = LeaseEngine()
    settler = make_settler(engine)

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
async def test_close_fails_all_waiters() -> None:
    engine = LeaseEngine()
    engine.gate.clear()
    settler = make_settler(engine)
    outcomes = []
    for offset in range(6):
        outcomes.append(settler.ack(0, False, 7, offset).outcome(DeliveryPosition(0, False, offset)))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
    await settler.close()
    for outcome in outcomes:
        with pytest.raises(ClientClosedError):
            await outcome
    with pytest.raises(ClientClosedError):
        settler.ack(0, False, 7, 9)
