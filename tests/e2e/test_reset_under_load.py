"""Offset reset and undo by command while producers send and consumers read: none is missed."""

from __future__ import annotations

import asyncio
from pathlib import Path

from litemq import AsyncClient
from litemq.client.consuming.consumer import Consumer
from support.commands import litemq, up
from support.waiting import HANG_S, eventually

_BEFORE = 200
_BACKLOG = 500
_SESSION_MS = 600_000  # no session expires because the machine is slow


class Readers:
    """Consumers that can be paused at a gate, and the messages they have seen."""

    def __init__(self, *consumers: Consumer) -> None:
        self.consumers = consumers
        self.seen: list[int] = []
        self.gate = asyncio.Event()
        self.gate.set()
        self._held: set[Consumer] = set()

    async def read(self, consumer: Consumer) -> None:
        async for message in consumer:
            self.seen.append(int(message.body))
            await message.ack()
            self._held.add(consumer)
            await self.gate.wait()
            self._held.discard(consumer)

    async def hold(self) -> None:
        """Wait until all consumers are at the gate."""
        self.gate.clear()
        await eventually(lambda: len(self._held) == len(self.consumers))


async def _send(mq: AsyncClient, count: list[int], stop: asyncio.Event) -> None:
    """Send more slowly than consumers read, so that they can catch up."""
    while not stop.is_set():
        await mq.send_batch("orders", [b"%d" % number for number in range(count[0], count[0] + 10)])
        count[0] += 10
        await asyncio.sleep(0.02)


async def _joined(mq: AsyncClient, members: int) -> None:
    async with asyncio.timeout(HANG_S):
        while len((await mq.admin.describe_group("billing")).members) < members:  # noqa: ASYNC110
            await asyncio.sleep(0.05)


async def _scenario(folder: Path, environment: dict[str, str]) -> None:
    def command(*arguments: str, status: int = 0) -> str:
        done = litemq(
            "group", *arguments, "billing", "--topic", "orders", cwd=folder, environment=environment, check=False
        )
        assert done.returncode == status, f"{arguments}: {done.returncode}\n{done.stdout}\n{done.stderr}"
        return done.stdout + done.stderr

    url = environment["LITEMQ_URL"]
    count, stop = [0], asyncio.Event()
    async with (
        AsyncClient(url) as producer,
        AsyncClient(url, session_timeout_ms=_SESSION_MS) as one,
        AsyncClient(url, session_timeout_ms=_SESSION_MS) as two,
    ):
        await producer.admin.create_topic("orders", queues=4)
        readers = Readers(*(mq.consumer("orders", group_id="billing") for mq in (one, two)))
        seen = readers.seen
        sending = asyncio.create_task(_send(producer, count, stop))
        reading = [asyncio.create_task(readers.read(each)) for each in readers.consumers]
        await eventually(lambda: len(seen) >= _BEFORE)
        await _joined(producer, 2)
        # The plan alone changes nothing; a group that reads is not moved by accident.
        await asyncio.to_thread(command, "reset", "--to", "latest", status=1)
        refused = await asyncio.to_thread(command, "reset", "--to", "latest", "--yes", status=1)
        assert "--force" in refused
        await readers.hold()
        await eventually(lambda: count[0] - len(set(seen)) >= _BACKLOG)
        backlog = set(range(count[0])) - set(seen)
        await asyncio.to_thread(command, "reset", "--to", "latest", "--yes", "--force")
        await _joined(producer, 2)  # the old consumers and their fetched messages are gone: these start over
        readers.gate.set()
        await eventually(lambda: max(seen) > max(backlog))
        assert not backlog & set(seen), "it was to be skipped"
        await asyncio.to_thread(command, "undo", "--yes", "--force")
        stop.set()
        await sending
        async with asyncio.timeout(HANG_S):  # what was skipped comes, too
            while set(range(count[0])) - set(seen) or (await producer.admin.describe_group("billing")).lag:  # noqa: ASYNC110
                await asyncio.sleep(0.1)
        for consumer in readers.consumers:
            consumer.stop()
        await asyncio.gather(*reading)


def test_a_reset_is_undone_under_load(tmp_path: Path) -> None:
    with up(tmp_path) as (_, environment):
        asyncio.run(_scenario(tmp_path, environment))
