"""``litemq cluster switch``: clients continue at the next master, and lose or repeat nothing."""

from __future__ import annotations

import asyncio
import json
from contextlib import ExitStack
from pathlib import Path

from litemq import AsyncClient
from litemq.cli.rendering.exit_codes import EXIT_FAILED, EXIT_USAGE
from support.on_loop import on_loop
from support.replica_processes import ReplicaProcesses
from support.replica_views import master_of, wait_no_master
from support.waiting import eventually

_SENDERS = 4
_LEASE = "30s"  # on a busy machine, no other master is elected meanwhile


class _Load:
    """Senders of numbered messages, at two levels of durability."""

    def __init__(self, mq: AsyncClient) -> None:
        self._mq = mq
        self._is_over = asyncio.Event()
        self.acked: list[bytes] = []
        self._tasks = [
            asyncio.create_task(self._send(f"{sender}-{level}", level))
            for sender in range(_SENDERS)
            for level in ("replicas", "disk")
        ]

    async def _send(self, sender: str, level: str) -> None:
        number = 0
        while not self._is_over.is_set():
            body = f"{sender}-{number}".encode()
            number += 1
            await self._mq.send("orders", body, durability=level)  # type: ignore[arg-type]
            self.acked.append(body)

    async def more(self) -> None:
        """Wait until more messages are acked."""
        enough = len(self.acked) + 200
        await eventually(lambda: len(self.acked) >= enough or any(task.done() for task in self._tasks))

    async def end(self) -> list[bytes]:
        """Stop sending, and return all acknowledged messages. Raise if a send has failed."""
        self._is_over.set()
        await asyncio.gather(*self._tasks)
        return self.acked


@on_loop
async def test_clients_continue_at_the_next_master_and_lose_nothing(tmp_path: Path) -> None:
    with ExitStack() as stack:
        group = ReplicaProcesses(tmp_path, stack, master_lease=_LEASE)
        await group.wait_master(1)
        url = f"litemq://{group.nameserver.address}"
        async with AsyncClient(url) as mq:
            await mq.admin.create_topic("orders", queues=2)
            load = _Load(mq)
            for number in range(3):
                await load.more()
                former = master_of(group.view)
                named = min({"a", "b", "c"} - {former}) if number else ""
                chosen = ("--to", named) if named else ()
                done = await group.cluster("switch", "orders", *chosen, "--format", "json")
                while done.returncode:  # on a busy machine, a successor may lag for a second
                    assert "The present master goes on" in done.stderr
                    done = await group.cluster("switch", "orders", *chosen, "--format", "json")
                said = json.loads(done.stdout)
                assert (said["former"], said["epoch"]) == (former, group.view.epoch + 1)
                assert said["master"] == named or not named
                await load.more()
                await group.wait_master(said["epoch"])  # all are in sync again
                assert master_of(group.view) == said["master"]
            acked = await load.end()
        async with AsyncClient(url) as mq, mq.reader("orders", start="earliest") as reader:
            found = [bytes((await anext(reader)).body) for _ in range(len(acked))]
            assert sorted(found) == sorted(acked)  # each once


@on_loop
async def test_a_successor_that_is_too_slow_leaves_the_master_in_charge(tmp_path: Path) -> None:
    with ExitStack() as stack:
        group = ReplicaProcesses(tmp_path, stack, master_lease=_LEASE, replica_lag="10m")  # it stays in the set
        master = await group.wait_master(1)
        stopped = min({"a", "b", "c"} - {master_of(group.view)})
        async with AsyncClient(f"litemq://{group.nameserver.address}") as mq:
            await mq.admin.create_topic("orders", queues=1)
            group.replicas[stopped].freeze()
            await mq.send("orders", b"before", durability="disk")
            done = await group.cluster("switch", "orders", "--to", stopped)
            assert done.returncode == EXIT_FAILED
            assert f"{stopped} still lacked " in done.stderr
            assert "The present master goes on" in done.stderr
            await mq.send("orders", b"after", durability="disk")
            group.replicas[stopped].thaw()
            assert await group.wait_master(1) is master
            async with mq.reader("orders", start="earliest") as reader:
                assert [bytes((await anext(reader)).body) for _ in range(2)] == [b"before", b"after"]


@on_loop
async def test_a_switch_that_is_not_possible_is_refused(tmp_path: Path) -> None:
    with ExitStack() as stack:
        group = ReplicaProcesses(tmp_path, stack)
        await group.wait_master(1)
        master = master_of(group.view)
        lost = min({"a", "b", "c"} - {master})
        group.replicas[lost].kill()
        await group.wait_master(1, members=2)
        for arguments, code, says in (
            (("nothing",), EXIT_USAGE, "no replicated group 'nothing': choose one of orders"),
            (("orders", "--to", "d"), EXIT_USAGE, "orders has no replica 'd': choose one of a, b, c"),
            (("orders", "--to", master), EXIT_FAILED, f"{master} is the master already"),
            (("orders", "--to", lost), EXIT_FAILED, f"{lost} is not in sync"),
        ):
            done = await group.cluster("switch", *arguments)
            assert done.returncode == code, done
            assert says in done.stderr
        for replica in group.replicas.values():
            replica.kill()
        await wait_no_master(group.nameserver.port)
        done = await group.cluster("switch", "orders")
        assert done.returncode == EXIT_FAILED
        assert "orders has no master that could hand over" in done.stderr
