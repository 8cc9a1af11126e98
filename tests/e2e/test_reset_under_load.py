"""A group's offsets are set by command while producers send and consumers read, and set back: what was skipped comes, nothing is missed."""

from __future__ import annotations

import asyncio
from pathlib import Path

from litemq import AsyncClient
from litemq.client.consumer import Consumer
from support.commands import litemq, up

_BEFORE = 600
_BACKLOG = 2_000


async def _send(mq: AsyncClient, count: list[int], stop: asyncio.Event) -> None:
    while not stop.is_set():
        await mq.send_batch("orders", [b"%d" % number for number in range(count[0], count[0] + 40)])
        count[0] += 40
        await asyncio.sleep(0.02)


async def _read(consumer: Consumer, seen: list[int], reading: asyncio.Event, undone: asyncio.Event) -> None:
    async for message in consumer:
        seen.append(int(message.body))
        await message.ack()
        await reading.wait()
        if not undone.is_set():
            await asyncio.sleep(0.01)  # a backlog is not read before it is known that it is to be skipped


async def _scenario(folder: Path, environment: dict[str, str]) -> None:
    def command(*arguments: str, status: int = 0) -> str:
        done = litemq("group", *arguments, "billing", "--topic", "orders", cwd=folder, environment=environment, check=False)
        assert done.returncode == status, f"{arguments}: {done.returncode}\n{done.stdout}\n{done.stderr}"
        return done.stdout + done.stderr

    url = environment["LITEMQ_URL"]
    count, seen = [0], list[int]()
    stop, reading, undone = asyncio.Event(), asyncio.Event(), asyncio.Event()
    reading.set()
    async with AsyncClient(url) as producer, AsyncClient(url) as one, AsyncClient(url) as two:
        await producer.admin.create_topic("orders", queues=4)
        consumers = [mq.consumer("orders", group_id="billing") for mq in (one, two)]
        working = [
            asyncio.create_task(_send(producer, count, stop)),
            *(asyncio.create_task(_read(each, seen, reading, undone)) for each in consumers),
        ]
        while len(seen) < _BEFORE:  # noqa: ASYNC110
            await asyncio.sleep(0.05)
        # The plan alone changes nothing; a group that reads is not moved by accident.
        await asyncio.to_thread(command, "reset", "--to", "latest", status=1)
        refused = await asyncio.to_thread(command, "reset", "--to", "latest", "--yes", status=1)
        assert "--force" in refused
        reading.clear()
        while count[0] - len(seen) < _BACKLOG:  # noqa: ASYNC110
            await asyncio.sleep(0.05)
        backlog = set(range(count[0])) - set(seen)
        await asyncio.to_thread(command, "reset", "--to", "latest", "--yes", "--force")
        reading.set()
        async with asyncio.timeout(60):
            while max(seen) <= max(backlog):  # noqa: ASYNC110
                await asyncio.sleep(0.05)
        assert backlog - set(seen)  # it was skipped
        await asyncio.to_thread(command, "undo", "--yes", "--force")
        undone.set()
        stop.set()
        await working[0]
        async with asyncio.timeout(60):  # what was skipped comes, too
            while set(range(count[0])) - set(seen) or (await producer.admin.describe_group("billing")).lag:  # noqa: ASYNC110
                await asyncio.sleep(0.1)
        for consumer in consumers:
            consumer.stop()
        await asyncio.gather(*working)


def test_a_reset_is_undone_under_load(tmp_path: Path) -> None:
    with up(tmp_path) as (_, environment):
        asyncio.run(_scenario(tmp_path, environment))
