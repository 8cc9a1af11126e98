"""Transactions: invisible until committed, then published once; undecided ones are checked."""

import asyncio
import contextlib
from datetime import timedelta
from typing import Any

import pytest

from litemq import (
    CheckedTransaction,
    DeadReason,
    Decision,
    OutgoingMessage,
    PreparedMessage,
    TransactionListener,
    TransactionState,
)
from litemq.errors import InvalidArgumentError, TransactionEndedError, TransactionNotFoundError
from support.engines import Engine, read_all, read_until
from support.waiting import HANG_S, eventually

capability = pytest.mark.capability


@capability("`transaction`: messages are delivered together after the commit")
async def test_a_transaction_is_seen_when_it_is_committed(engine: Engine, topic: str) -> None:
    async with engine.client() as mq:
        await mq.admin.create_topic(topic, queues=2)
        async with mq.transaction(topic, group_id="shop") as tx:
            with pytest.raises(InvalidArgumentError):
                _ = tx.id
            first = await tx.send(b"one", keys="k", properties={"p": "v"}, ordering_key="o")
            await tx.send(b"two", tags="t")
            assert (first.topic, first.queue_offset) == (topic, -1)
            assert await read_all(mq, topic) == []
            assert await mq.admin.find(topic, "k") == []
            assert (await mq.transactions.get(tx.id)).state is TransactionState.UNDECIDED
        assert tx.state is TransactionState.COMMITTED
        messages = {message.body: message for message in await read_until(mq, topic, 2)}
        assert set(messages) == {b"one", b"two"}
        one = messages[b"one"]
        assert (one.message_id, one.keys, one.properties["p"], one.ordering_key) == (first.message_id, ("k",), "v", "o")
        assert [found.message_id for found in await mq.admin.find(topic, "k")] == [first.message_id]
        assert (await mq.transactions.get(tx.id)).state is TransactionState.COMMITTED


@capability("`transaction`: an error in the block rolls back")
async def test_an_error_rolls_it_back(engine: Engine, topic: str) -> None:
    async with engine.client() as mq:
        tx = mq.transaction(topic, group_id="shop")

        async def buy() -> None:
            async with tx:
                await tx.send(b"one")
                raise ValueError("no money")

        with pytest.raises(ValueError, match="no money"):
            await buy()
        assert tx.state is TransactionState.ROLLED_BACK
        async with mq.transaction(topic, group_id="shop") as empty:
            pass
        assert empty.state is TransactionState.COMMITTED
        await mq.send(topic, b"other")
        assert [message.body for message in await read_until(mq, topic, 1)] == [b"other"]
        with pytest.raises(TransactionEndedError):
            await tx.send(b"late")


@capability("`send_transaction`, `commit`, `rollback`: by id, from any client, idempotent")
async def test_by_id_from_another_client(engine: Engine, topic: str) -> None:
    async with engine.client() as mq, engine.client() as other:
        kept = await mq.send_transaction(topic, b"kept", group_id="shop")
        gone = await mq.send_transaction(topic, b"gone", group_id="shop")
        assert kept.transaction_id.startswith("tx:shop:")
        listed = await other.transactions.select(group_id="shop", topic=topic)
        assert {fact.transaction_id for fact in listed} == {kept.transaction_id, gone.transaction_id}
        assert [message.body for message in await other.transactions.messages(kept.transaction_id)] == [b"kept"]
        for _ in range(2):
            await other.commit(kept.transaction_id)
            await other.rollback(gone.transaction_id)
        with pytest.raises(TransactionEndedError, match="is committed"):
            await mq.rollback(kept.transaction_id)
        with pytest.raises(TransactionEndedError, match="is rolled back"):
            await mq.commit(gone.transaction_id)
        unknown = kept.transaction_id.replace("tx:shop:", "tx:shop:0")
        with pytest.raises(TransactionNotFoundError):
            await mq.commit(unknown)
        with pytest.raises(InvalidArgumentError):
            await mq.commit("q/0/0/0")
        assert [message.body for message in await read_until(mq, topic, 1)] == [b"kept"]
        assert await other.transactions.select(group_id="shop", topic=topic) == []


@capability("Delays in transactions start at the commit")
async def test_a_delayed_message_of_a_transaction(engine: Engine, topic: str) -> None:
    async with engine.client() as mq:
        async with mq.transaction(topic, group_id="shop") as tx:
            await tx.send(b"much later", delay=timedelta(hours=1), ordering_key="k")
            await tx.send(b"now", ordering_key="k")
        assert [message.body for message in await read_all(mq, topic)] == [b"now"]
        async with mq.transaction(topic, group_id="shop") as tx:
            await tx.send(b"later", delay=0.5, ordering_key="k")
        assert [message.body for message in await read_until(mq, topic, 2)] == [b"now", b"later"]


class _Ledger(TransactionListener):
    """A transaction listener that records outcomes; one method is a coroutine, the other is not."""

    def __init__(self) -> None:
        self.written: dict[str, Decision] = {}
        self.asked: list[CheckedTransaction] = []

    async def execute(self, message: PreparedMessage, arg: Any) -> Decision:
        if isinstance(arg, Exception):
            raise arg
        self.written[message.transaction_id] = arg
        return arg if isinstance(arg, Decision) else Decision.UNKNOWN

    def check(self, transaction: CheckedTransaction) -> Decision:
        self.asked.append(transaction)
        return self.written.get(transaction.transaction_id, Decision.ROLLBACK)


@capability(
    "`transaction_listener`: the broker asks any live producer of the group for the outcome of an undecided transaction"
)
async def test_a_connected_producer_is_asked(engine: Engine, topic: str) -> None:
    ledger = _Ledger()
    async with engine.client() as mq, engine.client() as other:
        group = f"shop-{topic}"
        kept = await mq.send_transaction(topic, b"kept", group_id=group, check_after=0.05, keys="k")
        gone = await mq.send_transaction(topic, b"gone", group_id=group, check_after=0.05)
        ledger.written[kept.transaction_id] = Decision.COMMIT
        other.transaction_listener(group, ledger)
        with pytest.raises(InvalidArgumentError):
            other.transaction_listener(group, ledger)
        assert [message.body for message in await read_until(mq, topic, 1)] == [b"kept"]
        await eventually(lambda: len(ledger.asked) == 2)
        checked = {each.transaction_id: each for each in ledger.asked}[kept.transaction_id]
        assert (checked.group_id, checked.topics, checked.message.body, checked.message.keys) == (
            group,
            (topic,),
            b"kept",
            ("k",),
        )
        async with asyncio.timeout(HANG_S):
            while (await mq.transactions.get(gone.transaction_id)).state is not TransactionState.ROLLED_BACK:  # noqa: ASYNC110
                await asyncio.sleep(0.01)


@capability("`execute_transaction`: the listener runs the local transaction and returns its outcome")
async def test_a_listener_executes(engine: Engine, topic: str) -> None:
    ledger = _Ledger()
    async with engine.client() as mq:
        with pytest.raises(InvalidArgumentError, match="no listener"):
            await mq.execute_transaction(topic, b"x", group_id="shop")
        mq.transaction_listener("shop", ledger)
        committed = await mq.execute_transaction(topic, b"a", Decision.COMMIT, group_id="shop")
        rolled_back = await mq.execute_transaction(
            topic, OutgoingMessage(b"b", keys="k"), Decision.ROLLBACK, group_id="shop"
        )
        unknown = await mq.execute_transaction(topic, b"c", Decision.UNKNOWN, group_id="shop")
        states = [TransactionState.COMMITTED, TransactionState.ROLLED_BACK, TransactionState.UNDECIDED]
        assert [each.state for each in (committed, rolled_back, unknown)] == states
        with pytest.raises(OSError, match="database"):
            await mq.execute_transaction(topic, b"d", OSError("no database"), group_id="shop")
        assert [message.body for message in await read_until(mq, topic, 1)] == [b"a"]
        assert len(await mq.transactions.select(group_id="shop", topic=topic)) == 2


@capability("A half that runs out of checks becomes a dead letter with its history and can be redriven")
async def test_an_undecided_transaction_becomes_dead_letters(engine: Engine, topic: str) -> None:
    async with engine.client() as mq:
        fact = await mq.admin.create_topic(topic, check_after=0.05, check_every=0.05, max_checks=2)
        assert (fact.settings.check_after_ms, fact.settings.check_every_ms, fact.settings.max_checks) == (50, 50, 2)
        receipt = await mq.send_transaction(topic, b"lost", group_id="nobody")
        dead_letters = mq.dead_letters(topic)
        async with asyncio.timeout(HANG_S):
            while not await dead_letters.count():  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        assert (await mq.transactions.get(receipt.transaction_id)).state is TransactionState.DEAD
        with pytest.raises(TransactionEndedError, match="dead"):
            await mq.commit(receipt.transaction_id)
        dead_letter = await dead_letters.get(receipt.message_id, group_id="nobody")
        assert dead_letter is not None
        assert (dead_letter.reason, dead_letter.tries, dead_letter.message.body) == (DeadReason.UNDECIDED, 2, b"lost")
        assert dead_letter.stack.count("no producer was connected") == 2
        assert await read_all(mq, topic) == []
        redrive = await dead_letters.redrive(reasons="undecided")
        assert (await redrive.wait()).done == 1
        assert [message.body for message in await read_until(mq, topic, 1)] == [b"lost"]


@capability("Lost connections: each transaction is delivered once or not at all")
async def test_connections_that_are_cut(engine: Engine, topic: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("litemq.client.transactions.transaction._ROLLBACK_WITHIN_S", HANG_S)
    async with engine.client() as mq:
        await mq.admin.create_topic(topic)
        committed: list[bytes] = []

        async def one(body: bytes, *, fails: bool) -> None:
            async with mq.transaction(topic, group_id="shop") as tx:
                await tx.send(body)
                await tx.send(body + b"!")
                if fails:
                    raise ValueError(body)
            committed.extend((body, body + b"!"))

        async def work(worker: int) -> None:
            for number in range(12):
                with contextlib.suppress(ValueError):
                    await one(b"%d-%d" % (worker, number), fails=number % 3 == 2)

        async def cut() -> None:
            for mark in range(8, 128, 20):  # in the middle of the work, however slow that is
                await eventually(lambda mark=mark: len(committed) >= mark)  # type: ignore[misc]
                engine.drop_connections()

        await asyncio.gather(cut(), *(work(worker) for worker in range(8)))
        assert len(committed) == 8 * 8 * 2
        assert sorted(message.body for message in await read_until(mq, topic, len(committed))) == sorted(committed)
        assert await mq.transactions.select(group_id="shop", topic=topic) == []


@capability("`Client`: transactions")
def test_the_synchronous_client_has_transactions(engine: Engine, topic: str) -> None:
    ledger = _Ledger()
    with engine.sync_client() as mq:
        mq.transaction_listener("shop", ledger)
        with mq.transaction(topic, group_id="shop") as tx:
            tx.send(b"one")
            assert mq.transactions.get(tx.id).messages == 1

        def fail() -> None:
            with mq.transaction(topic, group_id="shop") as tx:
                tx.send(b"two")
                raise ValueError("no")

        with pytest.raises(ValueError, match="no"):
            fail()
        receipt = mq.send_transaction(topic, b"three", group_id="shop")
        mq.commit(receipt.transaction_id)
        assert (
            mq.execute_transaction(topic, b"four", Decision.COMMIT, group_id="shop").state is TransactionState.COMMITTED
        )
        assert sorted(message.body for message in mq.reader(topic, follow=False)) == [b"four", b"one", b"three"]
