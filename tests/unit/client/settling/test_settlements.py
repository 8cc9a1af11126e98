"""Settlements: acknowledged offsets as runs, and the outcome of each delivery."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from litemq.client.settling.ack_policy import Failure
from litemq.client.settling.settlements import DeliveryPosition, FailedDelivery, Settlements, Unsettled, pack_offsets
from litemq.errors import ConnectionLostError, LeaseLostError
from support.on_loop import on_loop


def unpack(packed: list[int]) -> list[int]:
    offsets: list[int] = []
    reached = 0
    for distance, count in zip(packed[::2], packed[1::2], strict=True):
        offsets += range(reached + distance, reached + distance + count)
        reached += distance + count
    return offsets


@given(st.sets(st.integers(0, 60), min_size=1).flatmap(lambda offsets: st.permutations(sorted(offsets))))
def test_offsets_become_runs_and_offsets_again(offsets: list[int]) -> None:
    packed = pack_offsets(offsets)
    assert unpack(packed) == sorted(offsets)
    assert all(packed[1::2])
    assert all(packed[2::2])  # runs that touch are one


def test_acks_are_grouped_by_queue_and_lease() -> None:
    settlements = Settlements()
    for offset in (7, 5, 6, 9):
        settlements.ack(0, False, 11, offset)
    settlements.ack(0, False, 12, 8)
    settlements.ack(0, True, 11, 5)
    failed = FailedDelivery(DeliveryPosition(0, False, 4), 11, 1, Failure())
    settlements.fail(failed)
    assert settlements.acked == [(0, False, 11, [5, 3, 1, 1]), (0, False, 12, [8, 1]), (0, True, 11, [5, 1])]
    assert settlements.failed == [failed]
    assert settlements.count == 7


@on_loop
async def test_each_delivery_has_its_own_outcome() -> None:
    settlements = Settlements()
    positions = [DeliveryPosition(0, False, offset) for offset in range(3)]
    early = [settlements.outcome(position) for position in positions]
    early[0].cancel()  # its caller no longer waits
    settlements.answered([Unsettled(positions[1], LeaseLostError("too late"))])
    late = settlements.outcome(positions[1])
    for future in (early[1], late):
        with pytest.raises(LeaseLostError):
            await future
    await early[2]


@on_loop
async def test_without_an_answer_the_outcome_is_the_error() -> None:
    settlements = Settlements()
    outcome = settlements.outcome(DeliveryPosition(0, False, 0))
    settlements.lost(ConnectionLostError("gone"))
    with pytest.raises(ConnectionLostError):
        await outcome
