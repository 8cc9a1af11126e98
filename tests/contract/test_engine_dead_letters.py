"""Dead letters: listed, grouped, redriven and dropped; and why a message was not consumed."""

import asyncio

import pytest

from litemq import AsyncClient, DeadLetter, DeadReason, OutgoingMessage
from litemq.errors import InvalidArgumentError, TopicNotFoundError
from support.engines import Engine, read_all
from support.waiting import HANG_S


async def _die(mq: AsyncClient, topic: str, number: int, *, group_id: str, error: str = "ValueError: bad") -> list[str]:
    """Send ``number`` messages that a group rejects; return their ids."""
    receipts = await mq.send_batch(topic, [OutgoingMessage({"id": each}, keys=f"o-{each}") for each in range(number)])
    left = {receipt.message_id for receipt in receipts}
    while left:
        for message in await mq.receive(topic, group_id=group_id, wait=HANG_S, lease=600):
            if message.message_id in left:
                await message.reject(reason=error)
                left.discard(message.message_id)
            else:
                await message.ack()
    return [receipt.message_id for receipt in receipts]


@pytest.mark.capability("`reject()` makes a dead letter")
async def test_a_rejected_message_becomes_a_dead_letter_once(engine: Engine, topic: str) -> None:
    async with engine.client() as mq:
        ids = await _die(mq, topic, 5, group_id=f"{topic}-billing")
        dead_letters = mq.dead_letters(topic)
        assert await dead_letters.count() == 5
        found = await dead_letters.select()
        assert sorted(one.message_id for one in found) == sorted(ids)
        assert {(one.reason, one.group_id, one.error) for one in found} == {
            (DeadReason.CONSUME_ERROR, f"{topic}-billing", "ValueError: bad")
        }
        assert {one.consumer for one in found} == {mq.config.client_id}
        assert len(await mq.dead_letters(f"{topic}-billing").select()) == 5
        whole = await dead_letters.get(ids[3])
        assert whole is not None
        assert (whole.message.value, whole.message.keys) == ({"id": 3}, ("o-3",))
        assert topic in await mq.admin.dead_letter_topics()


@pytest.mark.capability("Dead letters grouped by error: `groups()`")
async def test_equal_errors_are_one_group(engine: Engine, topic: str) -> None:
    async with engine.client() as mq:
        await _die(mq, topic, 7, group_id="billing", error="ValueError: order 1")
        await _die(mq, topic, 2, group_id="billing", error="KeyError: 'price'")
        first, second = await mq.dead_letters(topic).groups()
        assert (first.letters, second.letters, first.of) == (7, 2, 9)
        assert (first.error, second.error) == ("ValueError: order 1", "KeyError: 'price'")
        assert len(await mq.dead_letters(topic).select(fingerprint=second.fingerprint)) == 2


@pytest.mark.capability("Redrive by selection, with a dry run")
async def test_redriven_messages_arrive_again(engine: Engine, topic: str) -> None:
    async with engine.client() as mq:
        ids = await _die(mq, topic, 6, group_id="billing")
        dead_letters = mq.dead_letters(topic)
        plan = await (await dead_letters.redrive(ids=ids[:2], dry_run=True)).wait()
        assert (plan.left, await dead_letters.count()) == (2, 6)
        assert (await (await dead_letters.redrive(ids=ids[:2])).wait()).done == 2
        again = [await (await dead_letters.redrive(messages_per_s=0)).wait() for _ in range(2)]
        assert [one.done for one in again] == [4, 0]
        got: dict[str, object] = {}
        async with asyncio.timeout(HANG_S):
            while len(got) < 6:
                for message in await mq.receive(topic, group_id="billing", wait=HANG_S, lease=600):
                    got[message.message_id] = message.value
                    await message.ack()
        assert got == {message_id: {"id": number} for number, message_id in enumerate(ids)}
        assert await dead_letters.count() == 0
        assert len(await read_all(mq, topic)) == 12


@pytest.mark.capability("Redrive through a transform")
async def test_a_transform_conserves_the_count(engine: Engine, topic: str) -> None:
    async with engine.client() as mq:
        ids = await _die(mq, topic, 9, group_id="billing")

        def edit(dead_letter: DeadLetter) -> object:
            return {**dead_letter.message.value, "mended": True} if dead_letter.message.value["id"] else None

        done = await (await mq.dead_letters(topic).redrive(transform=edit)).wait()
        assert (done.selected, done.done, done.skipped) == (9, 8, 1)
        mended = {one.message_id: one.value for one in await read_all(mq, topic) if "mended" in one.value}
        assert mended == {ids[number]: {"id": number, "mended": True} for number in range(1, 9)}
        assert [one.message_id for one in await mq.dead_letters(topic).select()] == ids[:1]


@pytest.mark.capability("Purge of dead letters")
async def test_purged_dead_letters_are_gone(engine: Engine, topic: str) -> None:
    async with engine.client() as mq:
        ids = await _die(mq, topic, 3, group_id="billing")
        dead_letters = mq.dead_letters(topic)
        assert (await (await dead_letters.purge(ids=ids[:2], dry_run=True)).wait()).left == 2
        assert (await (await dead_letters.purge(ids=ids[:2])).wait()).done == 2
        assert [one.message_id for one in await dead_letters.select()] == ids[2:]


@pytest.mark.capability("`%DLQ%<topic>` can be read like a topic")
async def test_dead_letters_can_be_read_as_a_topic(engine: Engine, topic: str) -> None:
    async with engine.client() as mq:
        with pytest.raises(TopicNotFoundError):
            await read_all(mq, f"%DLQ%{topic}")
        (message_id,) = await _die(mq, topic, 1, group_id="billing")
        (dead_letter,) = await read_all(mq, f"%DLQ%{topic}")
        assert (dead_letter.message_id, dead_letter.keys) == (message_id, ("o-0",))
        with pytest.raises(InvalidArgumentError):
            await mq.send(f"%DLQ%{topic}", b"x")


@pytest.mark.capability("`admin.why(…)` explains why a message was not consumed")
async def test_why_a_message_was_not_consumed(engine: Engine, topic: str) -> None:
    async with engine.client() as mq:
        (dead,) = await _die(mq, topic, 1, group_id="billing")
        fresh = await mq.send(topic, b"x")
        assert (await mq.admin.why(dead, group_id="billing")).verdict == "dead"
        assert (await mq.admin.why(dead, group_id="billing", topic=topic)).topic == topic
        assert (await mq.admin.why(dead, group_id="nobody")).verdict == "before-start"
        assert (await mq.admin.why(fresh.message_id, group_id="nobody")).verdict == "before-start"
        assert (await mq.admin.why("no-such-id", group_id="billing")).verdict == "not-found"
        assert (await mq.admin.why(dead, group_id="billing", topic="no-such-topic")).verdict == "no-topic"
        with pytest.raises(InvalidArgumentError):
            await mq.admin.why("", group_id="billing")


@pytest.mark.capability("Dead letters from the synchronous client")
def test_the_same_from_the_synchronous_client(engine: Engine, topic: str) -> None:
    with engine.sync_client() as mq:
        receipt = mq.send(topic, {"id": 1})
        (message,) = mq.receive(topic, group_id="billing", wait=HANG_S, lease=600)
        message.reject(reason="ValueError: bad")
        dead_letters = mq.dead_letters(topic)
        assert dead_letters.count() == 1
        dead_letter = dead_letters.get(receipt.message_id)
        assert dead_letter is not None
        assert dead_letter.message.value == {"id": 1}
        assert dead_letters.redrive(transform=lambda dead_letter: dead_letter).wait().done == 1
        assert dead_letters.count() == 0
