"""Consumer processes that hang, resume and are killed: the others take over their queues."""

import asyncio
import contextlib
import os
import signal
import sys
from pathlib import Path

from litemq import AsyncClient
from support.broker_program import names, one_broker, serving
from support.waiting import HANG_S, eventually

PROGRAM = """
import asyncio, sys
import litemq

async def main():
    async with litemq.AsyncClient(sys.argv[1], session_timeout_ms=3000) as mq:
        consumer = mq.consumer("orders", group_id="g")
        before = frozenset()
        async def tell():
            nonlocal before
            while True:
                if consumer.assignment != before:
                    before = consumer.assignment
                    print(len(before), flush=True)
                await asyncio.sleep(0.01)
        telling = asyncio.ensure_future(tell())
        async for message in consumer:
            await message.ack()

asyncio.run(main())
"""
QUEUES = 6


def test_a_member_hangs_comes_back_and_is_killed(tmp_path: Path) -> None:
    async def main() -> None:
        async with (
            asyncio.timeout(5 * HANG_S),
            serving(names(tmp_path)) as port,
            serving(one_broker(tmp_path, port, auto_create_topics=False)),
        ):
            url = f"litemq://127.0.0.1:{port}"
            async with AsyncClient(url, session_timeout_ms=round(1000 * HANG_S)) as mq:
                while not any(broker.alive for broker in await mq.admin.brokers()):  # noqa: ASYNC110
                    await asyncio.sleep(0.01)
                await mq.admin.create_topic("orders", queues=QUEUES)
                consumer = mq.consumer("orders", group_id="g")
                seen: dict[int, float] = {}
                stays: set[int] = set()
                loop = asyncio.get_running_loop()

                async def consume() -> None:
                    async for message in consumer:
                        seen[message.queue_id] = loop.time()
                        await message.ack()

                async def produce() -> None:
                    while True:
                        await asyncio.gather(
                            *(mq.send("orders", b"x", ordering_key=str(number)) for number in range(40))
                        )
                        await asyncio.sleep(0.02)

                def all_are_read_since(moment: float) -> bool:
                    return len([at for at in seen.values() if at > moment]) == QUEUES

                work = [asyncio.ensure_future(consume()), asyncio.ensure_future(produce())]
                await eventually(lambda: len(consumer.assignment) == QUEUES)
                other = await asyncio.create_subprocess_exec(
                    sys.executable, "-c", PROGRAM, url, stdout=asyncio.subprocess.PIPE
                )
                try:
                    await eventually(lambda: len(consumer.assignment) == QUEUES // 2)
                    stays = {queue_id for _, queue_id in consumer.assignment}
                    os.kill(other.pid, signal.SIGSTOP)
                    hung_at = loop.time()
                    await eventually(lambda: len(consumer.assignment) == QUEUES)
                    assert stays <= {queue_id for _, queue_id in consumer.assignment}, "what it had it kept"
                    await eventually(lambda: all_are_read_since(hung_at))
                    os.kill(other.pid, signal.SIGCONT)
                    await eventually(
                        lambda: len(consumer.assignment) == QUEUES // 2
                    )  # it was refused, and joined again
                    other.kill()
                    killed_at = loop.time()
                    await eventually(lambda: len(consumer.assignment) == QUEUES)
                    await eventually(lambda: all_are_read_since(killed_at))
                finally:
                    with contextlib.suppress(ProcessLookupError):
                        other.kill()
                    await other.communicate()
                    for task in work:
                        task.cancel()
                    await asyncio.gather(*work, return_exceptions=True)

    asyncio.run(main())
