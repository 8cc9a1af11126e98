"""A member of a group that works too slowly while queues move to other members.

It holds up nobody else's queues, and nothing that it reports too late moves the group's offsets.
``LITEMQ_CHAOS_SECONDS`` sets the duration of the test with kills.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import pytest

from litemq.client.async_client import AsyncClient
from litemq.client.messages.message import Message
from litemq.client.messages.outgoing import OutgoingMessage
from litemq.errors import LiteMQError, NotGroupMemberError
from litemq.net.event_loop import run
from support.chaos_cluster import BETWEEN_KILLS, cluster, kill_in_turn
from support.chaos_length import SECONDS, SETTLE_S
from support.processes import ServerProcess
from support.waiting import HANG_S, eventually

TOPIC: Final = "orders"
GROUP: Final = "billing"
SESSION_MS: Final = 2000
QUEUES: Final = 4

Position = tuple[str, int, int]


def position(message: Message) -> Position:
    return message.broker, message.queue_id, message.queue_offset


@dataclass
class Member:
    """A consumer that takes messages as they come, and settles them when the test says so."""

    mq: AsyncClient
    acked: set[Position]  # of all members
    pause: float | None = 0.0  # before each acknowledgement; None: never
    taken: list[Message] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.consumer = self.mq.consumer(TOPIC, group_id=GROUP)
        self._task = asyncio.ensure_future(self._take())

    async def _take(self) -> None:
        async for message in self.consumer:
            self.taken.append(message)
            if self.pause is not None:
                await asyncio.sleep(self.pause)
                await self.ack(message)

    async def ack(self, *messages: Message) -> None:
        for message in messages:
            self.acked.add(position(message))  # before: from now on, the group may commit it
            await message.ack()

    @property
    def positions(self) -> set[Position]:
        return set(map(position, self.taken))

    async def close(self) -> None:
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        await self.consumer.close()


@contextlib.asynccontextmanager
async def client(url: str) -> AsyncIterator[AsyncClient]:
    async with AsyncClient(url, session_timeout_ms=SESSION_MS, delivery_timeout_ms=round(1000 * SETTLE_S)) as mq:
        yield mq


async def send(mq: AsyncClient, count: int) -> None:
    await mq.send_batch(TOPIC, [OutgoingMessage(b"x", ordering_key=str(number)) for number in range(count)])


async def all_positions(mq: AsyncClient) -> set[Position]:
    return {position(message) async for message in mq.reader(TOPIC, follow=False)}


async def committed(mq: AsyncClient) -> dict[int, int]:
    return {each.queue_id: each.committed for each in (await mq.admin.describe_group(GROUP)).queues}


async def drained(mq: AsyncClient) -> None:
    """Wait until the group has committed all messages."""
    async with asyncio.timeout(SETTLE_S):
        while True:
            with contextlib.suppress(LiteMQError):
                if (await mq.admin.describe_group(GROUP)).lag == 0:
                    return
            await asyncio.sleep(0.1)


def test_the_late_reports_of_a_slow_member_do_not_count(tmp_path: Path) -> None:
    async def scenario(url: str) -> None:
        acked: set[Position] = set()
        async with client(url) as admin, client(url) as one, client(url) as two, client(url) as three:
            await admin.admin.create_topic(TOPIC, queues=QUEUES)
            await send(admin, 200)
            everything = await all_positions(admin)
            slow = Member(one, acked, pause=None)
            await eventually(lambda: slow.positions == everything)  # it works on all of them, and ends none

            fast = Member(two, acked, pause=None)
            # The slow member has its session timeout to finish. Then its queues move all the same.
            await eventually(lambda: len(fast.consumer.assignment) == QUEUES // 2)
            moved = {queue_id for _, queue_id in fast.consumer.assignment}
            lost = {each for each in everything if each[1] in moved}
            await eventually(lambda: fast.positions == lost)  # delivered again, from the first one on
            assert {queue_id for _, queue_id in slow.consumer.assignment} == set(range(QUEUES)) - moved
            first = [message for message in fast.taken if message.queue_offset < 3]
            await fast.ack(*first)
            await fast.consumer.commit()

            late = [message for message in slow.taken if message.queue_id in moved]
            refused = late.pop()
            async with asyncio.timeout(HANG_S):  # far below delivery_timeout_ms: it is not retried
                with pytest.raises(NotGroupMemberError):
                    await refused.reject(reason="its queue has another owner")
            for message in late:
                await message.ack()  # raises nothing: it cannot know
            own = [message for message in slow.taken if message.queue_id not in moved]
            await slow.ack(*own)

            await slow.consumer.commit()
            offsets = await committed(admin)
            ends = {queue_id: offset + 1 for _, queue_id, offset in sorted(everything)}
            assert offsets == ends | dict.fromkeys(moved, 3)
            assert await admin.dead_letters(TOPIC).count() == 0

            await fast.close()  # without the others: they go to whoever is there
            third = Member(three, acked)
            await slow.close()
            await drained(admin)
            assert acked == everything
            await third.close()

    async def main() -> None:
        with (
            ServerProcess("nameserver", tmp_path / "names.log", data_path=tmp_path / "names") as names,
            ServerProcess(
                "broker", tmp_path / "broker.log", nameserver=names.address, data_path=tmp_path / "a", file_size="64MiB"
            ),
        ):
            await scenario(f"litemq://{names.address}")

    run(main())


@pytest.mark.skipif(SECONDS < 2 * BETWEEN_KILLS, reason="too short for a kill of each")
def test_a_slow_member_under_kills(tmp_path: Path) -> None:
    """Members come and go, brokers are killed, and one member outlasts each of its sessions.

    The group commits only messages that a member has acknowledged.
    """

    async def scenario(url: str, brokers: dict[str, ServerProcess]) -> None:
        acked: set[Position] = set()
        async with client(url) as admin, client(url) as one, client(url) as two, client(url) as three:
            await admin.admin.create_topic(TOPIC, queues=QUEUES)
            slow, fast = Member(one, acked, pause=1.5 * SESSION_MS / 1000), Member(two, acked)
            rebalances, is_over = 0, False

            async def produce() -> None:
                while not is_over:
                    await send(admin, 50)
                    await asyncio.sleep(0.1)

            async def come_and_go() -> None:
                nonlocal rebalances
                while not is_over:
                    member = Member(three, acked)
                    while not member.consumer.assignment and not is_over:  # noqa: ASYNC110
                        await asyncio.sleep(0.01)
                    await asyncio.sleep(0.5)
                    await member.close()
                    rebalances += 1

            work = [asyncio.create_task(produce()), asyncio.create_task(come_and_go())]
            kills = await kill_in_turn(brokers, SECONDS)
            is_over = True
            async with asyncio.timeout(SETTLE_S):
                await asyncio.gather(*work)
            of_slow = len(slow.taken)
            slow.pause = 0.0
            await drained(admin)
            everything = await all_positions(admin)
            print(  # noqa: T201
                f"\n{len(everything):,} messages; brokers killed {kills} times, {rebalances} members came and went; "
                f"the slow member took {of_slow:,}, the fast one {len(fast.taken):,}"
            )
            assert everything - acked == set(), "committed, and no member has acknowledged it"
            assert of_slow
            for member in (slow, fast):
                await member.close()

    with cluster(tmp_path) as (names, brokers):
        run(scenario(f"litemq://{names.address}", brokers))
