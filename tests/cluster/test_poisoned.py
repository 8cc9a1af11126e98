"""A poisoned topic: handlers raise and hang, workers and their broker are killed.

Every message still ends once.
``LITEMQ_CHAOS_SECONDS`` sets the duration.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections import Counter
from pathlib import Path
from typing import Final

from litemq.client.async_client import AsyncClient
from litemq.client.dead_letters.dead_letter import DeadLetter
from litemq.net.event_loop import run
from support import poisoned_worker
from support.chaos_length import SECONDS, SETTLE_S
from support.poisoned_worker import GROUP, HEALED, TOPIC
from support.processes import ServerProcess
from support.worker_processes import WorkerProcesses, drained

PER_SECOND: Final = 100
WORKERS: Final = 2


async def send(mq: AsyncClient, seconds: float) -> int:
    """Send at a steady rate; return the number of stored messages."""
    begin, number = time.monotonic(), 0
    while time.monotonic() < begin + seconds:
        await mq.send(TOPIC, b"%d " % number)
        number += 1
        await asyncio.sleep(max(0.0, begin + number / PER_SECOND - time.monotonic()))
    return number


async def kill(broker: ServerProcess, workers: WorkerProcesses, seconds: float) -> tuple[int, int]:
    """Kill a worker about every two seconds and the broker every five; return the counts."""
    until, next_broker = time.monotonic() + seconds, time.monotonic() + 4
    of_workers = of_broker = 0
    while time.monotonic() + 2 < until:
        await asyncio.sleep(random.uniform(1, 3))
        workers.kill_one()
        of_workers += 1
        if time.monotonic() > next_broker:
            broker.kill()
            broker.start()
            of_broker += 1
            while not broker.is_ready:  # noqa: ASYNC110
                await asyncio.sleep(0.02)
            next_broker = time.monotonic() + 5
    return of_workers, of_broker


def number_of(dead_letter: DeadLetter) -> int:
    return int(dead_letter.message.body.partition(b" ")[0])


def handled_by(workers: WorkerProcesses) -> Counter[int]:
    return Counter(map(int, workers.lines()))


async def dead_numbers(mq: AsyncClient) -> Counter[int]:
    """Return the numbers of the dead messages, with counts."""
    found: Counter[int] = Counter()
    for dead_letter in await mq.dead_letters(TOPIC).select(most=1_000_000):
        whole = await mq.dead_letters(TOPIC).get(dead_letter.message_id)
        assert whole is not None
        found[number_of(whole)] += 1
    return found


def test_every_message_ends_once(tmp_path: Path) -> None:
    async def scenario() -> None:
        with (
            ServerProcess("nameserver", tmp_path / "names.log", data_path=tmp_path / "names") as names,
            ServerProcess(
                "broker", tmp_path / "broker.log", nameserver=names.address, data_path=tmp_path / "a", file_size="64MiB"
            ) as broker,
        ):
            url = f"litemq://{names.address}"
            workers = WorkerProcesses("poisoned_worker", url, tmp_path, WORKERS)
            async with AsyncClient(url, delivery_timeout_ms=round(1000 * SETTLE_S)) as mq:
                await mq.admin.create_topic(TOPIC, queues=4)
                with workers.running():
                    count, (of_workers, of_broker) = await asyncio.gather(
                        send(mq, SECONDS), kill(broker, workers, SECONDS)
                    )
                    await drained(mq, GROUP)
                    dead, handled = await dead_numbers(mq), handled_by(workers)
                    everything = set(range(count))
                    poisoned = {
                        number
                        for number in everything
                        if poisoned_worker.raises(number) or poisoned_worker.hangs(number)
                    }
                    print(  # noqa: T201
                        f"\n{count:,} messages in {SECONDS:g} s, {len(poisoned):,} of them poisoned; workers killed "
                        f"{of_workers} times, the broker {of_broker}",
                        f"  handled {len(handled):,}, of those again {sum(handled.values()) - len(handled):,}; dead "
                        f"{len(dead):,}",
                        sep="\n",
                    )
                    assert [number for number, times in dead.items() if times > 1] == []
                    assert everything - handled.keys() - dead.keys() == set()
                    assert poisoned - dead.keys() == set()
                    assert poisoned & handled.keys() == set()
                    # A message whose worker was killed in each try is dead, but may have been
                    # handled. No other message is in both.
                    assert len(dead.keys() - poisoned) <= of_workers + of_broker

                    redrive = await mq.dead_letters(TOPIC).redrive(
                        transform=lambda dead_letter: b"%d " % number_of(dead_letter) + HEALED
                    )
                    done = await redrive.wait()
                    await drained(mq, GROUP)
                    again = handled_by(workers)
                    print(f"  redriven {done}", flush=True)  # noqa: T201
                    assert done.done == len(dead)
                    assert await mq.dead_letters(TOPIC).count() == 0
                    assert everything - again.keys() == set()

    run(scenario())
