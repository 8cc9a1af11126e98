"""One transaction: after an unknown outcome it is neither continued nor committed."""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from litemq.client.config import ClientConfig
from litemq.client.engine.transactions import HalfPosition, TransactionState
from litemq.client.messages.serializers import Serializers
from litemq.client.transactions.half_messages import HalfMessages
from litemq.client.transactions.transaction import Transaction, check_properties
from litemq.errors import (
    InvalidArgumentError,
    LiteMQError,
    SendOutcomeUnknownError,
    TransactionEndedError,
    TransactionNotFoundError,
    TransactionRefusedError,
)
from litemq.format.record import Stage
from litemq.format.record_decode import decode_record
from litemq.types import Durability, Record
from support.on_loop import on_loop


class _Engine:
    """A scripted engine: it stores halves, or fails, and answers with the given states."""

    def __init__(self, *failures: LiteMQError | None, state: TransactionState | None = None) -> None:
        self.failures = list(failures)
        self.state = state
        self.records: list[Record] = []
        self.ended: list[tuple[str, TransactionState, int]] = []

    async def choose_queue(
        self, _topic: str, broker: str, _key: str, _keys: Sequence[str], _priority: int
    ) -> HalfPosition:
        return HalfPosition(broker or "here", 3, Durability.DISK)

    async def send(self, _broker: str, _topic: str, _queue_id: int, record: bytes) -> int:
        self.records.append(decode_record(record, stage=Stage.SENT).record)
        failure = self.failures.pop(0) if self.failures else None
        if failure is not None:
            raise failure
        return 7

    def end(self, transaction_id: str, outcome: TransactionState, count: int = 0) -> "asyncio.Future[TransactionState]":
        self.ended.append((transaction_id, outcome, count))
        said: asyncio.Future[TransactionState] = asyncio.get_running_loop().create_future()
        said.set_result(self.state or outcome)
        return said


def _transaction(engine: Any, **options: Any) -> Transaction:
    halves = HalfMessages(engine, ClientConfig(), Serializers(None))
    chosen = {"durability": None, "on_error": "rollback", "properties": {"first": "yes"}} | options
    return Transaction(engine, halves, "orders", "shop", through=lambda post: post, wall_ms=lambda: 0, **chosen)


@on_loop
async def test_messages_have_numbers_and_the_first_one_says_more() -> None:
    engine = _Engine()
    async with _transaction(engine) as tx:
        for body in (b"a", b"b"):
            receipt = await tx.send(body, properties={"p": "v"})
            assert (receipt.broker, receipt.queue_id, receipt.queue_offset, receipt.store_timestamp) == (
                "here",
                3,
                -1,
                7,
            )
    assert [(record.sequence, record.producer_id, record.transaction_id) for record in engine.records] == [
        (0, 0, tx.id),
        (1, 0, tx.id),
    ]
    assert [dict(record.properties) for record in engine.records] == [{"p": "v", "first": "yes"}, {"p": "v"}]
    assert tx.id == f"tx:shop:{engine.records[0].message_id}@here"
    assert engine.ended == [(tx.id, TransactionState.COMMITTED, 2)]


@on_loop
async def test_one_that_is_refused_leaves_its_number_to_the_next() -> None:
    engine = _Engine(None, InvalidArgumentError("no"))
    tx = _transaction(engine)
    await tx.send(b"a")
    with pytest.raises(InvalidArgumentError):
        await tx.send(b"b")
    await tx.send(b"c")
    await tx.commit()
    assert [record.sequence for record in engine.records] == [0, 1, 1]
    assert engine.ended == [(tx.id, TransactionState.COMMITTED, 2)]


@on_loop
async def test_one_in_doubt_ends_it() -> None:
    """The broker may have used its number: another message with it would be lost."""
    engine = _Engine(None, SendOutcomeUnknownError("lost"))
    tx = _transaction(engine)
    await tx.send(b"a")
    with pytest.raises(SendOutcomeUnknownError):
        await tx.send(b"b")
    with pytest.raises(TransactionRefusedError, match="roll the transaction back"):
        await tx.send(b"c")
    with pytest.raises(TransactionRefusedError):
        await tx.commit()
    await tx.rollback()
    assert engine.ended == [(tx.id, TransactionState.ROLLED_BACK, 0)]
    with pytest.raises(TransactionEndedError):
        await tx.send(b"d")


@on_loop
async def test_the_first_one_in_doubt_is_rolled_back_if_it_is_there() -> None:
    engine = _Engine(SendOutcomeUnknownError("lost"), state=TransactionState.NOT_KNOWN)
    tx = _transaction(engine)
    with pytest.raises(SendOutcomeUnknownError):
        async with tx:
            await tx.send(b"a")
    assert engine.ended == [(tx.id, TransactionState.ROLLED_BACK, 0)]
    assert tx.state is TransactionState.ROLLED_BACK


@on_loop
async def test_an_error_may_leave_the_outcome_open() -> None:
    engine = _Engine()
    tx = _transaction(engine, on_error="ask")

    async def fail() -> None:
        async with tx:
            await tx.send(b"a")
            raise ValueError("who knows")

    with pytest.raises(ValueError, match="who knows"):
        await fail()
    assert (engine.ended, tx.state) == ([], TransactionState.UNDECIDED)


@pytest.mark.parametrize(
    ("state", "error"),
    [
        (TransactionState.NOT_KNOWN, TransactionNotFoundError),
        (TransactionState.INCOMPLETE, TransactionRefusedError),
        (TransactionState.ROLLED_BACK, TransactionEndedError),
        (TransactionState.DEAD, TransactionEndedError),
    ],
)
@on_loop
async def test_what_cannot_be_committed(state: TransactionState, error: type[LiteMQError]) -> None:
    tx = _transaction(_Engine(state=state))
    await tx.send(b"a")
    with pytest.raises(error):
        await tx.commit()
    assert tx.state is TransactionState.UNDECIDED


@on_loop
async def test_a_rollback_that_fails_is_noted_beside_the_error() -> None:
    tx = _transaction(_Engine(state=TransactionState.COMMITTED))

    async def fail() -> None:
        async with tx:
            await tx.send(b"a")
            raise ValueError("no")

    with pytest.raises(ValueError, match="no") as raised:
        await fail()
    assert "rolling back transaction" in raised.value.__notes__[0]


@on_loop
async def test_what_may_be_asked_for() -> None:
    assert check_properties(1.5, 3) == {"litemq-check-after-ms": "1500", "litemq-max-checks": "3"}
    assert check_properties(None, None) == {}
    for wrong in ((0, None), (90_000, None), (None, 0), (None, 1001)):
        with pytest.raises(InvalidArgumentError):
            check_properties(*wrong)
    with pytest.raises(InvalidArgumentError, match="durability"):
        await _transaction(_Engine(), durability="none").send(b"a")
