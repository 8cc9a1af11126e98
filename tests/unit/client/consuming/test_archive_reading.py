"""Reading from the archive, then from the broker: every message once, in order, as stored."""

from __future__ import annotations

import asyncio
import logging
import shutil
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

import pytest

from litemq import AsyncClient, Message, OutgoingMessage
from litemq.client.consuming import feed
from litemq.client.engine.routes import queue_for_key
from litemq.errors import ArchiveUnreadableError, LiteMQError, OffsetExpiredError
from litemq.format.messages import MessageFields
from litemq.spark.tables.opening import TableFormat
from support.cold import NAME, ColdCluster, can_read_archives, cold_cluster, cut_connections
from support.waiting import HANG_S

QUEUES = 2
COUNT = 300
SENT_AT_ONCE = 50
# An ordering key for each queue. They take turns in the log, so its last tenth is that of both.
KEYS = [next(key for key in map(str, range(100)) if queue_for_key(key, QUEUES) == number) for number in range(QUEUES)]


@pytest.fixture(autouse=True)
def _installed(monkeypatch: pytest.MonkeyPatch) -> None:
    can_read_archives(monkeypatch)


def _by_queue(messages: Iterable[Message]) -> dict[int, list[MessageFields]]:
    found: dict[int, list[MessageFields]] = defaultdict(list)
    for message in messages:
        found[message.queue_id].append(message._fields)
    return dict(found)


async def _filled(
    cluster: ColdCluster, mq: AsyncClient, *, unarchived: int = 10, hole: range = range(0)
) -> dict[int, list[MessageFields]]:
    """Fill a topic: the broker has about the last tenth, the archive all but the last few."""
    await mq.admin.create_topic("orders", queues=QUEUES, archived="block")
    batch = [
        OutgoingMessage(
            f"{n:05}".encode() * 200,
            keys=f"k-{n}",
            tags="odd" if n % 2 else "even",
            ordering_key=KEYS[n // SENT_AT_ONCE % QUEUES],
            properties={"n": str(n)},
        )
        for n in range(COUNT)
    ]
    for at in range(0, COUNT, SENT_AT_ONCE):
        await mq.send_batch("orders", batch[at : at + SENT_AT_ONCE])
    everything = cluster.messages("orders", QUEUES)
    half = COUNT // 4
    spans = dict.fromkeys(everything, (0, hole.start or half))
    await cluster.archive(mq, "orders", spans)
    await cluster.archive(
        mq, "orders", {number: (hole.stop or half, len(all_) - unarchived) for number, all_ in everything.items()}
    )
    await cluster.drop_old()
    for number, all_ in everything.items():
        assert len(all_) * 0.6 < cluster.least("orders", number) <= len(all_) - unarchived
    return everything


async def _read_all(mq: AsyncClient, **options: object) -> dict[int, list[MessageFields]]:
    async with asyncio.timeout(HANG_S):
        return _by_queue([message async for message in mq.reader("orders", follow=False, **options)])  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", ["delta", "parquet"])
def test_a_reader_from_the_beginning_sees_every_message(kind: TableFormat, tmp_path: Path) -> None:
    async def main() -> None:
        async with cold_cluster(tmp_path, kind) as cluster, cluster.client() as mq:
            everything = await _filled(cluster, mq)
            assert await _read_all(mq) == everything
            middle = {(NAME, 0): 40, (NAME, 1): 149}
            expected = {number: all_[middle[NAME, number] :] for number, all_ in everything.items()}
            assert await _read_all(mq, start=middle) == expected
            small = cluster.client(prefetch_bytes=64 << 10, max_poll_records=7)
            async with small as other:
                assert await _read_all(other) == everything

    asyncio.run(main())


def test_filters_hold_across_the_seam(tmp_path: Path) -> None:
    async def main() -> None:
        async with cold_cluster(tmp_path) as cluster, cluster.client() as mq:
            everything = await _filled(cluster, mq)
            odd = {number: [each for each in all_ if each.tags == ("odd",)] for number, all_ in everything.items()}
            assert await _read_all(mq, tags="odd") == {number: each for number, each in odd.items() if each}
            late = {
                number: [each for each in all_ if int(each.properties["n"]) < 17] for number, all_ in everything.items()
            }
            assert await _read_all(mq, where="n < 17") == {number: each for number, each in late.items() if each}

    asyncio.run(main())


def test_a_group_that_was_set_back_reads_the_archive_and_goes_on_where_it_was(tmp_path: Path) -> None:
    async def main() -> None:
        async with cold_cluster(tmp_path) as cluster, cluster.client() as mq:
            everything = await _filled(cluster, mq)
            plan = await mq.admin.plan_reset("orders", "audit", to="earliest")
            assert [step.after for step in plan.steps] == [0] * QUEUES
            await mq.admin.reset(plan)
            assert (await mq.admin.describe_group("audit")).lag == COUNT
            taken: list[Message] = []
            for rounds, until in enumerate((70, 190, COUNT)):
                async with asyncio.timeout(HANG_S), mq.consumer("orders", group_id="audit") as consumer:
                    async for message in consumer:
                        taken.append(message)
                        await message.ack()
                        if len(taken) == until:
                            break
                        if rounds == 1 and len(taken) == 100:
                            cut_connections()
                described = await mq.admin.describe_group("audit")
                assert described.lag == COUNT - until
            assert _by_queue(taken) == everything

    asyncio.run(main())


def test_a_new_group_begins_with_the_oldest_there_is_and_may_share_it(tmp_path: Path) -> None:
    async def main() -> None:
        async with cold_cluster(tmp_path) as cluster, cluster.client() as mq, cluster.client() as other:
            everything = await _filled(cluster, mq)
            taken: dict[tuple[int, int], MessageFields] = {}
            done = asyncio.Event()

            async def read(client: AsyncClient) -> None:
                async with client.consumer("orders", group_id="new", auto_offset_reset="earliest") as consumer:
                    async for message in consumer:
                        taken[message.queue_id, message.queue_offset] = message._fields
                        await message.ack()
                        if len(taken) == COUNT:
                            done.set()

            tasks = [asyncio.create_task(read(mq)), asyncio.create_task(read(other))]
            async with asyncio.timeout(HANG_S):
                await done.wait()
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            assert taken == {(number, each.queue_offset): each for number, all_ in everything.items() for each in all_}

    asyncio.run(main())


def test_a_gap_is_reported_once(tmp_path: Path) -> None:
    async def main() -> None:
        async with cold_cluster(tmp_path) as cluster, cluster.client() as mq:
            everything = await _filled(cluster, mq, hole=range(50, 60))
            errors: list[OffsetExpiredError] = []
            taken: list[Message] = []
            async with asyncio.timeout(HANG_S), mq.reader("orders") as reader:
                while len(taken) < COUNT - QUEUES * 10:
                    try:
                        taken.append(await anext(reader))
                    except OffsetExpiredError as error:
                        errors.append(error)
            assert sorted(str(error).split(" of 'orders'")[0] for error in errors) == [
                f"offsets 50 … 59 of queue {number}" for number in range(QUEUES)
            ]
            expected = {number: all_[:50] + all_[60:] for number, all_ in everything.items()}
            assert _by_queue(taken) == expected

    asyncio.run(main())


def test_without_what_it_takes_the_oldest_is_the_brokers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        async with cold_cluster(tmp_path) as cluster, cluster.client() as mq:
            everything = await _filled(cluster, mq)
            can_read_archives(monkeypatch, installed=False)
            kept = {number: all_[cluster.least("orders", number) :] for number, all_ in everything.items()}
            with caplog.at_level(logging.WARNING):
                assert await _read_all(mq) == kept
            assert caplog.text.count("litemq[archive]") == 1
            async with (
                asyncio.timeout(HANG_S),
                mq.reader("orders", start={(NAME, 0): 3, (NAME, 1): COUNT // QUEUES}) as reader,
            ):
                with pytest.raises(
                    OffsetExpiredError, match=r"offsets 3 … .* are gone.*archive .* has them: .*litemq\[archive\]"
                ):
                    await anext(reader)
                assert (await anext(reader))._fields == kept[0][0]

    asyncio.run(main())


def test_an_archive_that_cannot_be_read_passes_nothing_by(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feed, "_ARCHIVE_DELAYS", (0.01, 0.2))

    async def main() -> None:
        async with cold_cluster(tmp_path) as cluster, cluster.client() as mq:
            everything = await _filled(cluster, mq)
            lake, away = Path(cluster.location), tmp_path / "away"
            shutil.move(lake, away)
            with pytest.raises(ArchiveUnreadableError, match="no table"):
                await _read_all(mq)

            def come_back(*_: object) -> None:
                if away.exists():
                    shutil.move(away, lake)

            with monkeypatch.context() as patch:
                patch.setattr(feed._LOG, "warning", come_back)  # the first try has failed, and another follows
                assert await _read_all(mq) == everything, "it came back in time"
            shutil.move(lake, away)
            moved = await mq.admin.move_archive("orders", str(away))
            assert moved.location == str(away)
            assert await _read_all(mq) == everything

    asyncio.run(main())


def test_a_paused_group_gets_nothing_from_the_archive_either(tmp_path: Path) -> None:
    async def main() -> None:
        async with cold_cluster(tmp_path) as cluster, cluster.client(fetch_wait_ms=50) as mq:
            await _filled(cluster, mq)
            await mq.admin.reset(await mq.admin.plan_reset("orders", "audit", to="earliest"))
            await mq.admin.pause_group("audit")
            async with mq.consumer("orders", group_id="audit") as consumer:
                assert await consumer.take(10, 0.3) == []
                await mq.admin.resume_group("audit")
                assert await consumer.take(10, HANG_S)

    asyncio.run(main())


def test_what_only_the_archive_has_cannot_be_tried_again_by_the_broker(tmp_path: Path) -> None:
    async def main() -> None:
        async with cold_cluster(tmp_path) as cluster, cluster.client() as mq:
            await _filled(cluster, mq)
            await mq.admin.reset(await mq.admin.plan_reset("orders", "audit", to="earliest"))
            async with asyncio.timeout(HANG_S), mq.consumer("orders", group_id="audit") as consumer:
                message = await anext(consumer)
                with pytest.raises(LiteMQError, match="archive"):
                    await message.nack()
            before = (await mq.admin.describe_group("audit")).lag
            assert before == COUNT, "it is not done, and comes again"
            (lease,) = [await mq.receive("orders", group_id="leasing", max_messages=1, wait=HANG_S)]
            assert lease[0].queue_offset >= cluster.least("orders", lease[0].queue_id)

    asyncio.run(main())


def test_messages_of_a_deleted_topic_do_not_come_back(tmp_path: Path) -> None:
    async def main() -> None:
        async with cold_cluster(tmp_path) as cluster, cluster.client() as mq:
            await _filled(cluster, mq)
            await mq.admin.delete_topic("orders")
            await mq.admin.create_topic("orders", queues=QUEUES)
            await mq.send("orders", b"new")
            (only,) = (await _read_all(mq)).values()
            assert [each.body for each in only] == [b"new"]

    asyncio.run(main())
