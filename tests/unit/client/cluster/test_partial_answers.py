"""Calls that concern several brokers while one of them is down."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any, Final

import pytest

from litemq import AsyncClient
from litemq.client.engine.timers import CancelOutcome
from litemq.errors import NoRouteError, PartialAnswerError
from support.clusters import LocalCluster, local_cluster
from support.on_loop import on_loop

_EPOCH: Final = datetime.fromtimestamp(0, UTC)


class Orders:
    """A cluster of brokers a and b with a message and a delayed message on each."""

    def __init__(self, cluster: LocalCluster, mq: AsyncClient) -> None:
        self.cluster = cluster
        self.mq = mq
        self.sent: dict[str, str] = {}  # message id by broker
        self.delayed: dict[str, str] = {}

    async def fill(self) -> None:
        await self.mq.admin.create_topic("orders", queues=2)
        while set(self.sent) != {"a", "b"}:
            receipt = await self.mq.send("orders", b"x", keys="k")
            self.sent[receipt.broker] = receipt.message_id
        while set(self.delayed) != {"a", "b"}:
            receipt = await self.mq.send("orders", b"later", delay=3600, batch_id="b-1")
            self.delayed[receipt.broker] = receipt.message_id
        async with self.mq.consumer("orders", group_id="billing") as consumer:
            seen = set[str]()
            async for message in consumer:
                await message.ack()
                seen.add(message.broker)
                if seen == {"a", "b"}:
                    break


@asynccontextmanager
async def orders() -> AsyncIterator[Orders]:
    async with local_cluster("a", "b") as cluster, cluster.client() as mq:
        shop = Orders(cluster, mq)
        await shop.fill()
        yield shop


async def _listed_timers(mq: AsyncClient) -> list[str]:
    return [each.broker async for each in mq.timers.list("orders")]


# What a call answers if both brokers are up, and if b is down.
LISTS: Final[dict[str, tuple[Callable[[AsyncClient], Awaitable[Any]], Callable[[Any], Any], Any, Any]]] = {
    "groups": (lambda mq: mq.admin.groups(), lambda answer: [each.group for each in answer], ["billing"], ["billing"]),
    "describe_group": (
        lambda mq: mq.admin.describe_group("billing"),
        lambda answer: {each.broker for each in answer.queues},
        {"a", "b"},
        {"a"},
    ),
    "topics": (lambda mq: mq.admin.topics(), lambda answer: answer["orders"], 4, 4),
    "describe_topic": (
        lambda mq: mq.admin.describe_topic("orders"),
        lambda answer: [each.broker for each in answer.queues],
        ["a", "a", "b", "b"],
        ["a", "a"],
    ),
    "system topic": (
        lambda mq: mq.admin.describe_topic("LITEMQ_SYS_TIMER"),
        lambda answer: answer.topic,
        "LITEMQ_SYS_TIMER",
        "LITEMQ_SYS_TIMER",
    ),
    "find": (
        lambda mq: mq.admin.find("orders", "k"),
        lambda answer: {each.broker for each in answer},
        {"a", "b"},
        {"a"},
    ),
    "offset_at_time": (
        lambda mq: mq.admin.offset_at_time("orders", _EPOCH),
        lambda answer: {broker for broker, _ in answer},
        {"a", "b"},
        {"a"},
    ),
    "describe_archive": (
        lambda mq: mq.admin.describe_archive("orders"),
        lambda answer: [broker for broker, _ in answer.topic_ids],
        ["a", "b"],
        ["a"],
    ),
    "dead_letter_topics": (lambda mq: mq.admin.dead_letter_topics(), dict, {}, {}),
    "dead_letters.select": (lambda mq: mq.dead_letters("orders").select(), list, [], []),
    "dead_letters.groups": (lambda mq: mq.dead_letters("billing").groups(), list, [], []),
    "dead_letters.count": (lambda mq: mq.dead_letters("billing").count(), int, 0, 0),
    "jobs.list": (lambda mq: mq.jobs.list(), list, [], []),
    "jobs.count": (lambda mq: mq.jobs.count(), int, 0, 0),
    "timers.count": (lambda mq: mq.timers.count("orders"), lambda answer: answer >= 1, True, True),
    "transactions.select": (lambda mq: mq.transactions.select(), list, [], []),
    "pause_group": (lambda mq: mq.admin.pause_group("billing"), lambda answer: answer, None, None),
}


@on_loop
async def test_an_answer_without_a_broker_says_so() -> None:
    async with orders() as shop:
        for name, (call, view, whole, _) in LISTS.items():
            assert view(await call(shop.mq)) == whole, name
        shop.cluster.take_down("b")
        for name, (call, view, _, part) in LISTS.items():
            with pytest.raises(PartialAnswerError, match="broker b does not answer") as caught:
                await call(shop.mq)
            assert list(caught.value.missing) == ["b"]
            assert view(caught.value.answer) == part, name
        shop.cluster.bring_back("b")
        for name, (call, view, whole, _) in LISTS.items():
            assert view(await call(shop.mq)) == whole, name


async def _until_partial(messages: AsyncIterator[Any]) -> list[str]:
    """Return the brokers of all messages up to the ``PartialAnswerError`` that must end them."""
    brokers: list[str] = []
    try:
        async for message in messages:
            brokers.append(message.broker)  # noqa: PERF401
    except PartialAnswerError as error:
        assert list(error.missing) == ["b"]  # noqa: PT017
        return brokers
    raise AssertionError("no broker was missing")


@on_loop
async def test_a_list_of_timers_ends_with_the_missing_brokers() -> None:
    async with orders() as shop:
        assert set(await _listed_timers(shop.mq)) == {"a", "b"}
        assert len([each async for each in shop.mq.timers.list("orders", most=1)]) == 1
        shop.cluster.take_down("b")
        assert await _until_partial(shop.mq.timers.list("orders", most=1)) == ["a"]


@on_loop
async def test_what_one_broker_knows_is_answered_without_the_other() -> None:
    async with orders() as shop:
        shop.cluster.take_down("b")
        mq = shop.mq
        found = await mq.admin.get("orders", shop.sent["a"])
        assert found is not None
        assert (await mq.admin.why(shop.sent["a"], group_id="billing")).topic == "orders"
        assert await mq.timers.cancel("orders", shop.delayed["a"]) is CancelOutcome.CANCELLED
        with pytest.raises(PartialAnswerError, match="broker b does not answer"):
            await mq.admin.get("orders", shop.sent["b"])
        for call in (
            mq.admin.why(shop.sent["b"], group_id="billing"),
            mq.timers.get("orders", shop.delayed["b"]),
            mq.timers.cancel("orders", shop.delayed["b"]),
            mq.timers.cancel_batch("orders", "b-1"),
            mq.jobs.get("job"),
            mq.dead_letters("orders").get(shop.sent["b"]),
            mq.admin.describe_group("unknown"),
        ):
            with pytest.raises(NoRouteError, match="broker b does not answer"):
                await call


@on_loop
async def test_changes_of_all_brokers_change_nothing_without_one() -> None:
    async with orders() as shop:
        shop.cluster.take_down("b")
        mq = shop.mq
        for call in (
            mq.admin.alter_topic("orders", ttl=1),
            mq.admin.delete_topic("orders"),
            mq.admin.delete_group("billing"),
            mq.admin.plan_reset("orders", "billing", to="earliest"),
            mq.admin.plan_undo("orders", "billing"),
            mq.admin.move_archive("orders", "/elsewhere"),
        ):
            with pytest.raises(NoRouteError, match="broker b does not answer"):
                await call
        shop.cluster.bring_back("b")
        assert (await mq.admin.describe_topic("orders")).settings.ttl_ms == 0
        assert len((await mq.admin.describe_group("billing")).queues) == 4


@on_loop
async def test_a_redrive_names_the_brokers_whose_dead_letters_stay() -> None:
    async with orders() as shop:
        assert (await shop.mq.dead_letters("orders").redrive()).missing == {}
        shop.cluster.take_down("b")
        assert list((await shop.mq.dead_letters("orders").redrive()).missing) == ["b"]
        assert list((await shop.mq.dead_letters("orders").purge()).missing) == ["b"]


@on_loop
async def test_a_reader_and_a_broadcast_consumer_read_from_the_others(tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = str(tmp_path_factory.mktemp("offsets"))
    async with orders() as shop:
        shop.cluster.take_down("b")
        assert set(await _until_partial(shop.mq.reader("orders", start="earliest", follow=False))) == {"a"}
        async with shop.mq.reader("orders", start="earliest", follow=True) as reader:
            assert (await anext(reader)).broker == "a"
        async with (
            shop.cluster.client(client_id="c", offsets_directory=folder) as other,
            other.consumer("orders", group_id="each", mode="broadcast") as consumer,
        ):
            assert (await anext(consumer)).broker == "a"


@on_loop
async def test_brokers_are_listed_with_what_is_wrong() -> None:
    async with orders() as shop:
        assert [each.problem for each in await shop.mq.admin.brokers()] == ["", ""]
        shop.cluster.take_down("b")
        first, second = await shop.mq.admin.brokers()
        assert (first.problem, second.name) == ("", "b")
        assert "b is down" in second.problem
