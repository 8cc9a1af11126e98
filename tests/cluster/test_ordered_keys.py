"""Ordered keys whose messages fail and are retried, while workers and brokers are killed.

No message of a key begins before the one before it is done: handled, or a dead letter.
``LITEMQ_CHAOS_SECONDS`` sets the duration.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections import Counter, defaultdict
from itertools import pairwise
from pathlib import Path
from typing import Final

import pytest

from litemq.client.async_client import AsyncClient
from litemq.net.event_loop import run
from support.chaos_cluster import BETWEEN_KILLS, cluster, kill_in_turn
from support.chaos_length import SECONDS, SETTLE_S
from support.history import Name
from support.ordered_worker import GROUP, MAX_RETRIES, TOPIC, is_poisoned
from support.worker_processes import WorkerProcesses, drained

KEYS: Final = 12
IN_FLIGHT: Final = 4  # of each key
PAUSE_S: Final = 0.1
WORKERS: Final = 2


async def send(mq: AsyncClient, key: str, seconds: float) -> None:
    """Send the messages of one key, several at once."""
    number, until = 0, time.monotonic() + seconds
    while time.monotonic() < until:
        await asyncio.gather(
            *(
                mq.send_nowait(TOPIC, Name(0, key, number + each).to_bytes(), ordering_key=key)
                for each in range(IN_FLIGHT)
            )
        )
        number += IN_FLIGHT
        await asyncio.sleep(PAUSE_S)


async def kill_workers(workers: WorkerProcesses, seconds: float) -> int:
    """Kill a worker every few seconds; return the number of kills."""
    kills, until = 0, time.monotonic() + seconds
    while time.monotonic() < until:
        await asyncio.sleep(random.uniform(1.5, 3.5))
        workers.kill_one()
        kills += 1
    return kills


async def stored(mq: AsyncClient) -> dict[str, list[int]]:
    """Return the numbers of each key, in the order of its queue."""
    found: dict[str, list[int]] = defaultdict(list)
    queues: dict[str, set[tuple[str, int]]] = defaultdict(set)
    async for message in mq.reader(TOPIC, follow=False):
        name = Name.from_bytes(message.body)
        found[name.key].append(name.number)
        queues[name.key].add((message.broker, message.queue_id))
    assert [key for key, of_key in queues.items() if len(of_key) > 1] == [], "a key in two queues"
    return found


async def dead(mq: AsyncClient) -> Counter[tuple[str, int]]:
    found: Counter[tuple[str, int]] = Counter()
    for dead_letter in await mq.dead_letters(TOPIC).select(most=1_000_000):
        whole = await mq.dead_letters(TOPIC).get(dead_letter.message_id)
        assert whole is not None
        name = Name.from_bytes(whole.message.body)
        found[name.key, name.number] += 1
    return found


def out_of_order(lines: list[str], log: dict[str, list[int]]) -> list[str]:
    """Return the lines at which a message begins, although the one before it is not done."""
    before = {(key, number): (key, last) for key, numbers in log.items() for last, number in pairwise(numbers)}
    done: set[tuple[str, int]] = set()
    wrong: list[str] = []
    for line in lines:
        event, body, attempt, _worker = line.split()
        name = Name.from_bytes(body.encode())
        message = name.key, name.number
        if event == "begins":
            previous = before.get(message)
            if previous is not None and previous not in done:
                wrong.append(f"{line}: {previous} is not done")
        elif event == "ends" or int(attempt) > MAX_RETRIES:
            done.add(message)
    return wrong


@pytest.mark.skipif(SECONDS < 2 * BETWEEN_KILLS, reason="too short for a kill of each")
def test_retried_messages_keep_the_order_of_their_keys(tmp_path: Path) -> None:
    async def scenario() -> None:
        with cluster(tmp_path) as (names, brokers):
            url = f"litemq://{names.address}"
            workers = WorkerProcesses("ordered_worker", url, tmp_path, WORKERS)
            async with AsyncClient(url, delivery_timeout_ms=round(1000 * SETTLE_S)) as mq:
                await mq.admin.create_topic(TOPIC, queues=2)
                with workers.running():
                    of_brokers, of_workers, *_ = await asyncio.gather(
                        kill_in_turn(brokers, SECONDS),
                        kill_workers(workers, SECONDS),
                        *(send(mq, f"k{number}", SECONDS) for number in range(KEYS)),
                    )
                    await drained(mq, GROUP)
                log, letters, lines = await stored(mq), await dead(mq), workers.lines()
            messages = {(key, number) for key, numbers in log.items() for number in numbers}
            poisoned = {(key, number) for key, number in messages if is_poisoned(number)}
            ends: Counter[tuple[str, int]] = Counter()
            for line in lines:
                event, body, *_rest = line.split()
                name = Name.from_bytes(body.encode())
                ends[name.key, name.number] += event == "ends"
            print(  # noqa: T201
                f"\n{len(messages):,} messages of {KEYS} keys in {SECONDS:g} s; brokers killed {of_brokers} times, "
                f"workers {of_workers}",
                f"  tried {sum(line.startswith('begins') for line in lines):,} times, dead {len(letters):,}, "
                f"handled again {sum(ends.values()) - len(+ends):,}",
                sep="\n",
            )
            assert out_of_order(lines, log) == []
            assert all(numbers == sorted(set(numbers)) for numbers in log.values())
            assert letters == Counter(dict.fromkeys(poisoned, 1))
            assert set(+ends) == messages - poisoned
            assert min(map(len, log.values())) > IN_FLIGHT

    run(scenario())
