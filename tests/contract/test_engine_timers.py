"""Delayed messages: cancelled, rescheduled, described and listed."""

import asyncio
import time
from datetime import UTC, datetime, timedelta

import pytest

from litemq import CancelOutcome, OutgoingMessage, ScheduledState
from litemq.errors import InvalidArgumentError, TimerEndedError, TimerNotFoundError
from support.engines import Engine, read_all, read_until

capability = pytest.mark.capability
HOUR = timedelta(hours=1)


@capability("`timers.cancel`: a cancelled message is never delivered")
async def test_a_cancelled_message_is_never_delivered(engine: Engine, topic: str) -> None:
    async with engine.client() as mq:
        hour = (await mq.send(topic, b"hour", delay=HOUR)).message_id
        year = (await mq.send(topic, b"year", delay=timedelta(days=365))).message_id
        now = (await mq.send(topic, b"now")).message_id
        assert await mq.timers.cancel(topic, hour) is CancelOutcome.CANCELLED
        assert await mq.timers.cancel_many(topic, [hour, year, now, "none"]) == {
            hour: CancelOutcome.CANCELLED_BEFORE,
            year: CancelOutcome.CANCELLED,
            now: CancelOutcome.DELIVERED,
            "none": CancelOutcome.UNKNOWN,
        }
        soon = [(await mq.send(topic, b"%d" % number, delay=1.5)).message_id for number in range(3)]
        outcome = await mq.timers.cancel(
            topic, soon[1]
        )  # on a very slow machine it may have been delivered before, and the answer says so
        expected = {CancelOutcome.CANCELLED: [b"0", b"2", b"now"], CancelOutcome.DELIVERED: [b"0", b"1", b"2", b"now"]}[
            outcome
        ]
        assert sorted(message.body for message in await read_until(mq, topic, len(expected))) == expected
        assert await mq.timers.cancel(topic, soon[0]) is CancelOutcome.DELIVERED
        assert sorted(message.body for message in await read_all(mq, topic)) == expected


@capability("`timers.reschedule`: earlier, later, and repeatedly")
async def test_delivered_at_another_time(engine: Engine, topic: str) -> None:
    async with engine.client() as mq:
        later, sooner, past = [
            await mq.send(topic, name, delay=delay)
            for name, delay in ((b"later", HOUR / 2), (b"sooner", HOUR), (b"past", HOUR))
        ]
        put_off = await mq.send(topic, b"put off", delay=1)
        expected = [b"later", b"past", b"sooner"]
        try:
            await mq.timers.reschedule(topic, put_off.message_id, delay=HOUR)
        except TimerEndedError:  # on a machine that is very slow it was delivered before
            expected.insert(2, b"put off")
        moved = await mq.timers.reschedule(topic, later.message_id, delay=HOUR)
        assert (moved.state, moved.sent_for < moved.due_at) == (ScheduledState.SCHEDULED, True)
        due = datetime.now(UTC) + timedelta(seconds=2)
        await mq.timers.reschedule(topic, later.message_id, deliver_at=due)
        await mq.timers.reschedule(topic, sooner.message_id, delay=timedelta(days=300))
        await mq.timers.reschedule(topic, sooner.message_id, delay=0.5)
        await mq.timers.reschedule(topic, past.message_id, deliver_at=datetime(2020, 1, 1, tzinfo=UTC))
        came = await read_until(mq, topic, len(expected))
        assert sorted(message.body for message in came) == expected
        (last,) = (message for message in came if message.body == b"later")
        assert last.store_timestamp >= int(due.timestamp() * 1000)
        with pytest.raises(TimerEndedError):
            await mq.timers.reschedule(topic, later.message_id, delay=1)
        delivered = await mq.timers.get(topic, later.message_id)
        assert delivered is not None
        assert delivered.state is ScheduledState.DELIVERED
        assert abs(delivered.due_at - due) < timedelta(milliseconds=1)  # not the time that it was sent for
        assert delivered.sent_for != delivered.due_at
        moved = await mq.timers.reschedule(topic, (await mq.send(topic, b"x", delay=HOUR)).message_id, delay=2 * HOUR)
        await mq.timers.cancel(topic, moved.message_id)
        cancelled = await mq.timers.get(topic, moved.message_id)
        assert cancelled is not None
        assert (cancelled.state, cancelled.due_at) == (ScheduledState.CANCELLED, moved.due_at)
        with pytest.raises(TimerNotFoundError):
            await mq.timers.reschedule(topic, "none", delay=1)
        with pytest.raises(InvalidArgumentError, match="either"):
            await mq.timers.reschedule(topic, later.message_id)
        with pytest.raises(InvalidArgumentError, match="365"):
            await mq.timers.reschedule(topic, later.message_id, delay=timedelta(days=366))


@capability("`batch_id`: cancel all delayed messages of a batch")
async def test_a_batch_is_cancelled(engine: Engine, topic: str) -> None:
    async with engine.client() as mq:
        await mq.send_batch(topic, [OutgoingMessage(b"%d" % number, delay=HOUR, batch_id="b1") for number in range(5)])
        first = (await mq.send(topic, b"first", delay=HOUR, batch_id="b1", properties={"p": "v"})).message_id
        assert await mq.timers.count(topic, batch_id="b1") == 6
        await mq.timers.cancel_batch(topic, "b1")
        await mq.timers.cancel_batch(topic, "never")
        await mq.send(topic, b"hour", delay=HOUR, batch_id="b1")
        assert await mq.timers.count(topic, batch_id="b1") == 1
        assert await mq.timers.cancel(topic, first) is CancelOutcome.CANCELLED_BEFORE
        with pytest.raises(TimerEndedError):
            await mq.timers.reschedule(topic, first, delay=1)
        found = await mq.timers.get(topic, first)
        assert found is not None
        assert (found.state, found.batch_id) == (ScheduledState.CANCELLED, "b1")
        # Messages due soon: a very slow machine may have delivered some of them before.
        soon = [OutgoingMessage(b"%d" % number, delay=1.5, batch_id="b2") for number in range(5)]
        ids = [receipt.message_id for receipt in await mq.send_batch(topic, soon)]
        await mq.timers.cancel_batch(topic, "b2")
        await mq.send(topic, b"other", delay=2, batch_id="b3")
        await mq.send_nowait(topic, b"again", delay=2, batch_id="b2")
        facts = [await mq.timers.get(topic, message_id) for message_id in ids]
        states = [fact.state for fact in facts if fact is not None]
        assert len(states) == 5
        assert set(states) <= {ScheduledState.CANCELLED, ScheduledState.DELIVERED}
        delivered = [b"%d" % number for number, state in enumerate(states) if state is ScheduledState.DELIVERED]
        expected = [*delivered, b"again", b"other"]
        assert sorted(message.body for message in await read_until(mq, topic, len(expected))) == expected
        assert sorted(message.body for message in await read_all(mq, topic)) == expected


@capability("`timers.list` and `timers.get`: by time, key, id and batch, in the order of due times")
async def test_waiting_messages_are_listed(engine: Engine, topic: str) -> None:
    async with engine.client() as mq:
        now = datetime.now(UTC)
        ids: dict[str, str] = {}
        for name, days, key, batch in (
            ("c", 3, "k1", "b"),
            ("a", 1, "k1", ""),
            ("d", 40, "k2", "b"),
            ("b", 2, "k2", ""),
        ):
            receipt = await mq.send(
                topic, name.encode(), deliver_at=now + timedelta(days=days), keys=key, batch_id=batch
            )
            ids[receipt.message_id] = name
        await mq.send(topic, b"now")
        other = await mq.send(f"{topic}-other", b"x", delay=HOUR)

        async def names(**chosen: object) -> str:
            return "".join([ids[message.message_id] async for message in mq.timers.list(topic, **chosen)])  # type: ignore[arg-type]

        assert await names() == "abcd"
        assert await names(key="k1") == "ac"
        assert await names(batch_id="b") == "cd"
        assert await names(key="k1", batch_id="b") == "c"
        assert await names(since=now + timedelta(days=2), until=now + timedelta(days=40)) == "bc"
        assert await names(key=next(iter(ids))) == "c"
        assert await names(key=other.message_id) == ""
        assert await mq.timers.count(topic) == 4
        await mq.timers.reschedule(topic, next(iter(ids)), delay=HOUR)
        assert await names() == "cabd"
        assert await names(key="k1") == "ca"
        found = await mq.timers.get(topic, next(iter(ids)))
        assert found is not None
        assert (found.message.body, found.keys, found.batch_id, found.state) == (
            b"c",
            ("k1",),
            "b",
            ScheduledState.SCHEDULED,
        )
        assert abs(found.due_at - now - HOUR) < timedelta(minutes=10)
        assert await mq.timers.get(topic, "none") is None


@capability("`delay_level=1..18`, as in RocketMQ")
async def test_delay_levels(engine: Engine, topic: str) -> None:
    async with engine.client() as mq:
        before = time.time_ns() // 1_000_000
        await mq.send(topic, b"1", delay_level=1)
        eighteen, batch = await asyncio.gather(
            mq.send_nowait(topic, b"18", delay_level=18), mq.send_batch(topic, [OutgoingMessage(b"5", delay_level=5)])
        )
        after = time.time_ns() // 1_000_000
        for receipt, level in ((eighteen, 7200), (batch[0], 60)):
            found = await mq.timers.get(topic, receipt.message_id)
            assert found is not None
            assert before <= round(found.due_at.timestamp() * 1000) - 1000 * level <= after + 1
        for wrong in ({"delay_level": 0}, {"delay_level": 19}, {"delay_level": 1, "delay": 1}):
            with pytest.raises(InvalidArgumentError):
                await mq.send(topic, b"x", **wrong)  # type: ignore[arg-type]
        (message,) = await read_until(mq, topic, 1)
        assert (message.body, message.store_timestamp >= before + 1000) == (b"1", True)


@capability("`Client`: cancel, reschedule and list delayed messages")
def test_the_synchronous_client(engine: Engine, topic: str) -> None:
    with engine.sync_client() as mq:
        one, two, three = (mq.send(topic, b"%d" % number, delay=HOUR, batch_id="b").message_id for number in range(3))
        assert mq.timers.cancel(topic, one) is CancelOutcome.CANCELLED
        mq.timers.reschedule(topic, three, delay=60)
        assert [message.message_id for message in mq.timers.list(topic)] == [three, two]
        mq.timers.cancel_batch(topic, "b")
        assert mq.timers.count(topic) == 0
        found = mq.timers.get(topic, two)
        assert found is not None
        assert found.message.body == b"1"
