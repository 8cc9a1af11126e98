"""Open the data of one revision with another: ``python -m tools.compatibility BEFORE [AFTER]``.

BEFORE's broker writes a data directory with every kind of state: messages with keys, tags and
ordering keys, committed offsets, leases, retries, dead letters, delayed messages (one rescheduled,
one cancelled), jobs, and transactions. It is stopped cleanly in one round and killed in another.
AFTER verifies the directory, opens it, and must report the same. Both sides use the public client.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tools.compare import install

STOP_S = 60.0

WRITE = """
import asyncio, sys
import litemq

async def main():
    async with litemq.AsyncClient(sys.argv[1]) as mq:
        await mq.admin.create_topic("orders", queues=4)
        await asyncio.gather(*(
            mq.send_nowait(
                "orders", {"n": n}, keys=f"k-{n}", tags="odd" if n % 2 else "even", ordering_key=f"c-{n % 7}"
            )
            for n in range(500)
        ))
        async with mq.consumer("orders", group_id="billing") as consumer:
            done = 0
            async for message in consumer:
                await message.ack()
                done += 1
                if done == 200:
                    break
        for n, message in enumerate(await mq.receive("orders", group_id="workers", max_messages=30, lease=600)):
            if n < 10:
                await message.ack()
            elif n < 15:
                await message.reject(reason="broken")
            elif n < 20:
                await message.nack(delay=3600)
        delayed = [await mq.send("orders", {"later": n}, delay=3600 + n, keys=f"d-{n}") for n in range(20)]
        await mq.timers.cancel("orders", delayed[0].message_id)
        await mq.timers.reschedule("orders", delayed[1].message_id, delay=7200)
        await mq.jobs.create("orders", {"job": 1}, job_id="nightly", cron="0 3 * * *", timezone="Asia/Shanghai")
        await mq.jobs.create("orders", {"job": 2}, job_id="paused", every=3600, paused=True)
        async with mq.transaction("orders", group_id="shop") as tx:
            await tx.send({"committed": 1})
        try:
            async with mq.transaction("orders", group_id="shop") as tx:
                await tx.send({"rolled back": 1})
                raise KeyError
        except KeyError:
            pass

asyncio.run(main())
"""

REPORT = """
import asyncio, json, sys
import litemq

async def main():
    async with litemq.AsyncClient(sys.argv[1]) as mq:
        messages = []
        async with mq.reader("orders", follow=False) as reader:
            async for message in reader:
                messages.append([json.dumps(message.value), message.message_id, list(message.keys), list(message.tags)])
        groups = {}
        for name in ("billing", "workers"):
            queues = (await mq.admin.describe_group(name)).queues
            groups[name] = sorted(
                [queue.topic, queue.queue_id, queue.is_retry, queue.committed, queue.lag] for queue in queues
            )
        dead = await mq.dead_letters("orders").select()
        print(json.dumps({
            "messages": sorted(messages),
            "groups": groups,
            "dead letters": sorted([each.message_id, each.reason.name] for each in dead),
            "timers": sorted([[each.message_id, each.due_at.isoformat()] async for each in mq.timers.list("orders")]),
            "jobs": sorted([job.job_id, job.is_paused, str(job.next_run)] for job in await mq.jobs.list()),
            "transactions": sorted([each.transaction_id, each.state.name] for each in await mq.transactions.select()),
        }))

asyncio.run(main())
"""


@contextmanager
def broker(commands: Path, data: Path, stop: signal.Signals) -> Iterator[str]:
    """Run ``litemq up`` on ``data`` and end it with ``stop``; yield the URL."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    options = ["--port", "0", "--nameserver-port", str(port), "--data", str(data)]
    process = subprocess.Popen([str(commands / "litemq"), "up", *options], stdout=subprocess.PIPE, text=True)
    try:
        if not any("ready" in line for line in process.stdout or ()):
            raise SystemExit("litemq up ended before it was ready")
        yield f"litemq://127.0.0.1:{port}"
    finally:
        process.send_signal(stop)
        process.wait(STOP_S)


def run(commands: Path, program: str, url: str) -> str:
    """Run ``program`` with the Python of a revision; return its output."""
    command = [str(commands / "python"), "-c", program, url]
    return subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout


def check(before: Path, after: Path, data: Path, stop: signal.Signals) -> bool:
    """Write with ``before``, end it with ``stop``, open with ``after``.

    Return whether both report the same.
    """
    with broker(before, data, stop) as url:
        run(before, WRITE, url)
        written = json.loads(run(before, REPORT, url))
    verified = subprocess.run([str(after / "litemq"), "store", "verify", str(data / "broker")], check=False).returncode
    with broker(after, data, signal.SIGINT) as url:
        opened = json.loads(run(after, REPORT, url))
    for what, value in written.items():
        verdict = "the same" if value == opened[what] else f"DIFFERS\n  before {value}\n  after  {opened[what]}"
        print(f"{stop.name}: {len(value)} {what}: {verdict}")
    print(f"{stop.name}: litemq store verify: {verified}")
    return written == opened and verified == 0


def main() -> None:
    parser = argparse.ArgumentParser(description="Open the data of one revision with another.")
    parser.add_argument("before")
    parser.add_argument("after", nargs="?", default="HEAD")
    arguments = parser.parse_args()
    os.environ.pop("PYTHONPATH", None)
    with tempfile.TemporaryDirectory(prefix="litemq-compatibility-") as scratch:
        folder = Path(scratch)
        before = install(arguments.before, folder / "before")
        after = install(arguments.after, folder / "after")
        same = [check(before, after, folder / stop.name, stop) for stop in (signal.SIGINT, signal.SIGKILL)]
    sys.exit(0 if all(same) else 1)


if __name__ == "__main__":
    main()
