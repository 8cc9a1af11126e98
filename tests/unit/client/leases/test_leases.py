"""Leases: renewal, loss and return."""

import asyncio
from typing import Any, cast

import pytest

from litemq.client.config import ClientConfig
from litemq.client.engine.engine import Engine
from litemq.client.leases.lease import Lease
from litemq.client.leases.leases import Leases
from litemq.client.messages.message import Message
from litemq.client.messages.serializers import Serializers
from litemq.client.settling.ack_policy import AckPolicy
from litemq.client.settling.retry_policy import Retry
from litemq.client.settling.settlements import DeliveryPosition, Unsettled
from litemq.errors import AlreadySettledError, ConnectionLostError, LeaseLostError, ProtocolError, SerializationError
from litemq.types import DeadReason, RecordKind
from support.lease_backend import LEASE_OPTIONS, SETTLE_POLICY, LeaseEngine
from support.on_loop import on_loop
from support.waiting import eventually


class Held:
    """Leases over a scripted broker."""

    def __init__(self) -> None:
        self.broker = LeaseEngine()
        config = ClientConfig(retry_backoff_ms=1, max_retry_backoff_ms=2)
        self.serializers = Serializers()
        self.leases = Leases(cast("Engine", self.broker), config, self.serializers)

    async def lease(self, *, owner: object = None, ahead: bool = False) -> Lease:
        """The messages that the broker grants."""
        lease = await self.leases.ask(
            "b",
            "orders",
            "g",
            LEASE_OPTIONS,
            SETTLE_POLICY,
            owner,
            max_messages=100,
            max_bytes=1 << 20,
            wait_ms=1000,
            ahead=ahead,
        )
        assert lease is not None
        return lease

    async def ask(self) -> list[Message]:
        """The messages of it."""
        return list((await self.lease()).open)

    async def failures(self) -> list[tuple[int, float, bool]]:
        """The reported failures: offset, delay, and whether it is final."""
        await self.leases.flush()
        return [
            (each.position.offset, each.failure.delay, each.failure.is_final)
            for _, failed in self.broker.settled
            for each in failed
        ]


@on_loop
async def test_messages_know_which_try_this_is_and_are_acknowledged_under_their_token() -> None:
    held = Held()
    held.broker.grant(5, 3, token=9, attempt=2)
    messages = await held.ask()
    assert [(message.queue_offset, message.attempt, message.body) for message in messages] == [
        (5, 2, b"5"),
        (6, 2, b"6"),
        (7, 2, b"7"),
    ]
    await asyncio.gather(*(message.ack() for message in messages))
    assert held.broker.settled == [([(0, False, 9, [5, 3])], [])]
    with pytest.raises(AlreadySettledError):
        await messages[0].ack()
    await held.leases.close()
    assert len(held.broker.settled) == 1


@on_loop
async def test_a_retry_is_settled_in_the_groups_retry_queue() -> None:
    held = Held()
    held.broker.grant(5, 1, token=9, kind=RecordKind.RETRY)
    (message,) = await held.ask()
    await message.ack()
    assert held.broker.settled == [([(0, True, 9, [5, 1])], [])]
    await held.leases.close()


@on_loop
async def test_counts_that_do_not_fit_are_no_answer() -> None:
    held = Held()
    held.broker.grant(5, 2)
    held.broker.grants[0].counts.pop()  # type: ignore[union-attr]
    with pytest.raises(ProtocolError, match="counts"):
        await held.ask()
    await held.leases.close()


@on_loop
async def test_a_message_that_is_processed_is_renewed_until_then() -> None:
    held = Held()
    held.broker.grant(0, 3)
    messages = await held.ask()
    async with messages[1].process():
        await eventually(lambda: len(held.broker.extended) >= 2)
    assert held.broker.extended[:2] == [(400, [(0, False, 7, [1, 1])])] * 2  # the others are not in use
    until_then = len(held.broker.extended)
    await asyncio.sleep(0.5)
    assert not any(leases for _, leases in held.broker.extended[until_then:])
    await held.leases.close()


@on_loop
async def test_messages_that_wait_here_are_renewed() -> None:
    held = Held()
    held.broker.grant(0, 3)
    lease = await held.lease(ahead=True)
    lease.mark_taken(next(iter(lease.open)))
    await eventually(lambda: held.broker.extended)
    assert held.broker.extended[0] == (400, [(0, False, 7, [1, 2])])
    await held.leases.close()


@on_loop
async def test_a_renewal_that_fails_is_tried_again_soon() -> None:
    held = Held()
    held.broker.troubles += [ConnectionLostError("gone")] * 1000
    held.broker.grant(0, 1)
    lease = await held.lease(ahead=True)
    await eventually(lambda: len(held.broker.extended) >= 2)
    assert lease.renew_at - held.broker.extended_at < 0.1  # and not when half of another lease has passed
    held.broker.troubles.clear()
    await held.leases.close()


@on_loop
async def test_settling_a_lost_lease_raises() -> None:
    held = Held()
    held.broker.grant(0, 2)
    lost, kept = await held.ask()
    held.broker.unsettled = [Unsettled(DeliveryPosition(0, False, 0), LeaseLostError("too late"))]

    async def handle() -> None:
        async with lost.process(), kept.process():
            await eventually(lambda: lost.is_lost)
            held.broker.unsettled = []

    with pytest.raises(LeaseLostError, match="too late"):
        await handle()
    assert [message.is_settled for message in (lost, kept)] == [False, True]
    for settle in (lost.ack, lost.nack, lost.reject):
        with pytest.raises(LeaseLostError):
            await settle()
    await held.leases.close()


@on_loop
async def test_extending_by_hand() -> None:
    held = Held()
    held.broker.grant(0, 2)
    message, late = await held.ask()
    await message.extend(60)
    assert held.broker.extended == [(60_000, [(0, False, 7, [0, 1])])]
    held.broker.unsettled = [Unsettled(DeliveryPosition(0, False, 1), LeaseLostError("too late"))]
    with pytest.raises(LeaseLostError):
        await late.extend(60)
    assert late.is_lost
    held.broker.unsettled = []
    await held.leases.close()


@on_loop
async def test_an_error_in_the_block_is_a_failed_try_and_goes_on() -> None:
    held = Held()
    held.broker.grant(0, 3)
    first, second, third = await held.ask()
    with pytest.raises(ValueError, match="bad"):
        async with first.process():
            raise ValueError("bad")

    async def try_again(message: Message) -> None:
        async with message.process():
            raise Retry(delay=3)

    await try_again(second)  # no error: it ends there
    with pytest.raises(ValueError, match="bad"):
        async with third.process(AckPolicy.REJECT_ON_ERROR):
            raise ValueError("bad")
    (_, failed), *_ = held.broker.settled
    assert 0.9 <= failed[0].failure.delay <= 1.1
    assert failed[0].failure.error == "ValueError: bad"
    assert "raise ValueError" in failed[0].failure.stack
    assert (await held.failures())[1:] == [(1, 3, False), (2, 0, True)]
    await held.leases.close()


@on_loop
async def test_a_payload_that_cannot_be_read_goes_to_the_dead_letters() -> None:
    held = Held()
    held.broker.grant(0, 2)
    unreadable, readable = await held.ask()
    held.serializers.choose("orders", cast("Any", _Unreadable()))
    with pytest.raises(SerializationError):
        async with unreadable.process():
            assert unreadable.value
    with pytest.raises(SerializationError):
        async with readable.process():
            raise SerializationError("of something else")
    failures = [each.failure for _, failed in held.broker.settled for each in failed]
    assert [(each.is_final, each.detail) for each in failures] == [(True, "undecodable"), (False, "")]
    assert failures[0].reason is DeadReason.CONSUME_ERROR
    await held.leases.close()


class _Unreadable:
    content_type = ""

    def loads(self, _body: bytes) -> None:
        raise ValueError("no JSON")


@on_loop
async def test_a_cancelled_handler_gives_its_message_back() -> None:
    held = Held()
    held.broker.grant(0, 1)
    (message,) = await held.ask()

    async def handle() -> None:
        async with message.process(AckPolicy.ACK):
            await asyncio.sleep(60)

    handling = asyncio.ensure_future(handle())
    await asyncio.sleep(0)
    handling.cancel()
    with pytest.raises(asyncio.CancelledError):
        await handling
    assert await held.failures() == [(0, 0, False)]
    assert message.is_settled
    await held.leases.close()


@on_loop
async def test_acknowledged_before_the_handler_begins() -> None:
    held = Held()
    held.broker.grant(0, 1)
    (message,) = await held.ask()

    async def handle() -> None:
        async with message.process(AckPolicy.ACK_FIRST):
            assert held.broker.settled == [([(0, False, 7, [0, 1])], [])]
            raise ValueError("bad")

    with pytest.raises(ValueError, match="bad"):
        await handle()
    assert len(held.broker.settled) == 1
    await held.leases.close()


@on_loop
async def test_messages_for_a_cancelled_request_are_released() -> None:
    held = Held()
    asking = asyncio.ensure_future(held.ask())
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    held.broker.grant(0, 2)
    await eventually(lambda: bool(held.broker.settled))
    assert await held.failures() == [(0, 0, False), (1, 0, False)]
    await held.leases.close()


@on_loop
async def test_what_is_left_at_the_end_is_given_back() -> None:
    held = Held()
    owner, other = object(), object()
    held.broker.grant(0, 3)
    lease = await held.lease(owner=owner, ahead=True)
    messages = list(lease.open)
    held.broker.grant(3, 1)
    (others,) = (await held.lease(owner=other)).open
    await messages[0].ack()
    lease.mark_taken(messages[1])
    held.leases.release(owner, only_ahead=True)
    assert await held.failures() == [(2, 0, False)]
    held.leases.release(owner)
    assert await held.failures() == [(2, 0, False), (1, 0, False)]
    with pytest.raises(LeaseLostError, match="was returned"):
        await messages[1].ack()
    assert not others.is_lost
    await held.leases.close()
    assert (await held.failures())[2:] == [(3, 0, False)]
    assert others.is_lost
