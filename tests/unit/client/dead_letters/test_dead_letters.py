"""Dead letters through the client, over a broker in memory."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime

import pytest

from litemq import AsyncClient, OutgoingMessage
from litemq.client.dead_letters.dead_letter import DeadLetter
from litemq.client.dead_letters.error_groups import ErrorGroups
from litemq.client.dead_letters.redrive import combined_progress
from litemq.client.engine.dead_letters import DeadLetterInfo, RedriveProgress
from litemq.errors import InvalidArgumentError, TopicNotFoundError
from litemq.format.dead_letters import UNDECODABLE
from litemq.testing.memory import MemoryCluster, offer, withdraw
from litemq.types import DeadReason
from support.dead_letters import Death, write_dead_letters
from support.engines import read_all

URL = "memory://dead-letters"


def _with(test: Callable[[AsyncClient, MemoryCluster], Awaitable[None]]) -> None:
    """Run a test with a client and its cluster, which has ten messages in queue 0 of "orders"."""

    async def main() -> None:
        cluster = MemoryCluster()
        offer(URL, cluster)
        try:
            async with AsyncClient(URL) as mq:
                await mq.admin.create_topic("orders", queues=1)
                for number in range(10):
                    await mq.send(
                        "orders",
                        {"id": number},
                        keys=f"o-{number}",
                        tags="red",
                        properties={"shop": "7"},
                        ordering_key="ann",
                    )
                await test(mq, cluster)
        finally:
            withdraw(URL)

    asyncio.run(main())


def _dead_at(second: int) -> int:
    return 1_700_000_000_000 + second * 1000


def _moment(second: int) -> datetime:
    return datetime.fromtimestamp(_dead_at(second) / 1000, UTC)


def test_they_are_listed_by_topic_and_by_group() -> None:
    async def test(mq: AsyncClient, cluster: MemoryCluster) -> None:
        write_dead_letters(cluster._store, "orders", 0, [0, 1, 2], Death(dead_at=_dead_at(1)))
        write_dead_letters(
            cluster._store,
            "orders",
            0,
            [3],
            Death(group="audit", reason=DeadReason.CONSUME_ERROR, error="KeyError: 3", dead_at=_dead_at(2)),
        )
        dead_letters = mq.dead_letters("orders")
        assert await dead_letters.count() == 4
        found = await dead_letters.select()
        assert [(one.keys, one.group_id, one.reason) for one in found[2:]] == [
            (("o-2",), "billing", DeadReason.MAX_RETRY),
            (("o-3",), "audit", DeadReason.CONSUME_ERROR),
        ]
        assert (found[0].tries, found[0].error, found[0].consumer, found[0].died_at) == (
            17,
            "ValueError: bad amount",
            "worker-1",
            _moment(1),
        )
        assert len(await dead_letters.select(most=2)) == 2
        for selection, number in (
            ({"reasons": "max_retry"}, 3),
            ({"reasons": [DeadReason.MAX_RETRY, "consume-error"]}, 4),
            ({"group_id": "audit"}, 1),
            ({"since": _moment(2)}, 1),
            ({"until": _moment(2)}, 3),
            ({"fingerprint": found[3].fingerprint}, 1),
            ({"ids": found[0].message_id}, 1),
            ({"undecodable": True}, 0),
        ):
            assert len(await dead_letters.select(**selection)) == number, selection
        assert await mq.dead_letters("audit").count() == 1
        assert [one.keys for one in await mq.dead_letters("audit").select()] == [("o-3",)]
        assert await mq.dead_letters("billing").select(reasons="consume_error") == []
        with pytest.raises(InvalidArgumentError, match="leave it out"):
            await mq.dead_letters("audit").select(group_id="billing")
        with pytest.raises(InvalidArgumentError, match="choose one of max_retry, ttl_expired"):
            await dead_letters.select(reasons="bored")
        assert await mq.admin.dead_letter_topics() == {"orders": 4}

    _with(test)


def test_one_is_seen_whole() -> None:
    async def test(mq: AsyncClient, cluster: MemoryCluster) -> None:
        write_dead_letters(cluster._store, "orders", 0, [4], Death(stack="Traceback …"))
        (listed,) = await mq.dead_letters("orders").select()
        with pytest.raises(InvalidArgumentError, match="get"):
            _ = listed.message
        dead_letter = await mq.dead_letters("orders").get(listed.message_id)
        assert dead_letter is not None
        message = dead_letter.message
        assert (dead_letter.stack, message.value, message.tags) == ("Traceback …", {"id": 4}, ("red",))
        assert (message.queue_offset, message.properties["shop"], message.ordering_key) == (4, "7", "ann")
        assert await mq.dead_letters("orders").get("none") is None
        assert await mq.dead_letters("orders").get(listed.message_id, group_id="audit") is None
        assert "ValueError" in repr(dead_letter)

    _with(test)


def test_which_errors_they_share() -> None:
    async def test(mq: AsyncClient, cluster: MemoryCluster) -> None:
        write_dead_letters(cluster._store, "orders", 0, range(7), Death(error="ValueError: order 1"))
        write_dead_letters(
            cluster._store, "orders", 0, [7, 8], Death(reason=DeadReason.CONSUME_ERROR, detail=UNDECODABLE)
        )
        first, second = await mq.dead_letters("orders").groups()
        assert (first.letters, first.of, first.error, first.group_ids) == (7, 9, "ValueError: order 1", ("billing",))
        assert (second.letters, second.of, second.detail) == (2, 9, UNDECODABLE)
        assert await mq.dead_letters("orders").groups(group_id="audit") == []

    _with(test)


def test_they_are_sent_on_and_arrive_again() -> None:
    async def test(mq: AsyncClient, cluster: MemoryCluster) -> None:
        write_dead_letters(cluster._store, "orders", 0, range(9))
        write_dead_letters(cluster._store, "orders", 0, [9], Death(reason=DeadReason.CONSUME_ERROR, detail=UNDECODABLE))
        dead_letters = mq.dead_letters("orders")
        plan = await (await dead_letters.redrive(dry_run=True)).wait()
        assert (plan.state, plan.selected, plan.left, plan.done) == ("done", 9, 9, 0)
        redrive = await dead_letters.redrive()
        progress = await redrive.wait()
        assert (progress.state, progress.selected, progress.done, progress.left) == ("done", 9, 9, 0)
        assert await redrive.progress() == progress
        assert [one.value["id"] for one in await read_all(mq, "orders")] == [*range(10), *range(9)]
        assert [one.is_undecodable for one in await dead_letters.select()] == [True]  # kept apart
        assert (await (await dead_letters.redrive(undecodable=True)).wait()).done == 1
        assert await dead_letters.count() == 0

    _with(test)


def test_a_transform_mends_them() -> None:
    async def test(mq: AsyncClient, cluster: MemoryCluster) -> None:
        write_dead_letters(cluster._store, "orders", 0, range(6))

        async def mend(dead_letter: DeadLetter) -> object:
            number = dead_letter.message.value["id"]
            if number == 0:
                return None
            if number == 1:
                return dead_letter
            if number == 2:
                return OutgoingMessage({"id": 2, "whole": True}, tags=("blue",), keys=("new",))
            return {"id": number, "mended": True}

        dead_letters = mq.dead_letters("orders")
        plan = await (await dead_letters.redrive(transform=mend, dry_run=True)).wait()
        assert (plan.selected, plan.skipped, plan.left, await dead_letters.count()) == (6, 1, 5, 6)
        progress = await (await dead_letters.redrive(transform=mend)).wait()
        assert (progress.state, progress.selected, progress.done, progress.skipped) == ("done", 6, 5, 1)
        before, after = (await read_all(mq, "orders"))[:10], (await read_all(mq, "orders"))[10:]
        assert [one.message_id for one in after] == [one.message_id for one in before[1:6]]
        assert [one.value for one in after[:3]] == [{"id": 1}, {"id": 2, "whole": True}, {"id": 3, "mended": True}]
        assert [(one.tags, one.keys) for one in after[:3]] == [
            (("red",), ("o-1",)),
            (("blue",), ("new",)),
            (("red",), ("o-3",)),
        ]
        assert {one.ordering_key for one in after} == {"ann"}
        assert after[2].properties == before[3].properties
        assert await dead_letters.count() == 1

    _with(test)


def test_a_transform_that_raises_stops_there() -> None:
    async def test(mq: AsyncClient, cluster: MemoryCluster) -> None:
        write_dead_letters(cluster._store, "orders", 0, range(3))

        def fail(_letter: DeadLetter) -> object:
            raise KeyError("no such field")

        redrive = await mq.dead_letters("orders").redrive(transform=fail)
        with pytest.raises(KeyError):
            await redrive.wait()
        with pytest.raises(InvalidArgumentError, match="result for message"):
            await (
                await mq.dead_letters("orders").redrive(
                    transform=lambda _letter: OutgoingMessage(b"", tags=["x" * 999])
                )
            ).wait()
        assert await mq.dead_letters("orders").count() == 3

    _with(test)


def test_one_that_is_stopped_goes_on_later() -> None:
    async def test(mq: AsyncClient, cluster: MemoryCluster) -> None:
        write_dead_letters(cluster._store, "orders", 0, range(10))
        dead_letters = mq.dead_letters("orders")
        redrive = await dead_letters.redrive(messages_per_s=1)
        stopped = await redrive.cancel()
        assert (stopped.state, await redrive.wait()) == ("cancelled", stopped)
        changed = await dead_letters.redrive(transform=lambda dead_letter: dead_letter)
        assert (await changed.cancel()).state == "cancelled"
        rest = await (await dead_letters.redrive(messages_per_s=0)).wait()
        assert stopped.done + rest.done == 10
        assert len(await read_all(mq, "orders")) == 20

    _with(test)


def test_they_are_dropped_for_good() -> None:
    async def test(mq: AsyncClient, cluster: MemoryCluster) -> None:
        write_dead_letters(cluster._store, "orders", 0, range(10))
        dead_letters = mq.dead_letters("orders")
        ids = [one.message_id for one in await dead_letters.select(most=4)]
        assert (await (await dead_letters.purge(ids=ids, dry_run=True)).wait()).left == 4
        assert (await (await dead_letters.purge(ids=ids)).wait()).done == 4
        assert await dead_letters.count() == 6
        assert len(await read_all(mq, "orders")) == 10

    _with(test)


def test_those_whose_time_was_over_need_another() -> None:
    async def test(mq: AsyncClient, cluster: MemoryCluster) -> None:
        write_dead_letters(cluster._store, "orders", 0, [0])
        dead_letters = mq.dead_letters("orders")
        assert (await (await dead_letters.redrive(ttl=60)).wait()).done == 1
        again = (await read_all(mq, "orders"))[-1]
        assert again.value == {"id": 0}
        assert again._fields.expire_at > 0

    _with(test)


def test_what_has_none() -> None:
    async def test(mq: AsyncClient, cluster: MemoryCluster) -> None:
        dead_letters = mq.dead_letters("orders")
        assert (await dead_letters.count(), await dead_letters.select(), await dead_letters.groups()) == (0, [], [])
        assert await (await dead_letters.redrive()).wait() == RedriveProgress("done")
        with pytest.raises(InvalidArgumentError):
            mq.dead_letters("%DLQ%orders")
        with pytest.raises(TopicNotFoundError):
            await read_all(mq, "%DLQ%orders")
        write_dead_letters(cluster._store, "orders", 0, [5])
        (raw,) = await read_all(mq, "%DLQ%orders")
        assert raw.properties["litemq-group"] == "billing"

    _with(test)


def test_progress_of_several_brokers_is_one() -> None:
    parts = [
        RedriveProgress("done", 5, 5, 3, 2, 1),
        RedriveProgress("running", 9, 4, 4, 1),
        RedriveProgress("done", problem="x"),
    ]
    assert combined_progress(parts) == RedriveProgress("running", 14, 9, 7, 3, 1, problem="x")
    assert combined_progress([RedriveProgress("running"), RedriveProgress("failed")]).state == "failed"
    assert combined_progress([RedriveProgress("done"), RedriveProgress("cancelled")]).state == "cancelled"


def test_groups_of_errors_are_counted_as_they_come() -> None:
    groups = ErrorGroups()
    for number, (fingerprint, dead_at) in enumerate([("a", 5), ("b", 9), ("a", 2), ("a", 7)]):
        groups.add(
            DeadLetterInfo(
                number,
                number,
                f"m-{number}",
                (),
                DeadReason.MAX_RETRY,
                "",
                "g",
                "",
                f"e-{number}",
                1,
                dead_at,
                fingerprint,
                9,
            )
        )
    first, second = groups.groups()
    assert (first.fingerprint, first.letters, first.of, first.error, first.first_at, first.last_at) == (
        "a",
        3,
        4,
        "e-3",
        2,
        7,
    )
    assert second.letters == 1
