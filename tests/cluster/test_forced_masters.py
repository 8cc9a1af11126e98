"""``litemq cluster recover`` and ``elect --unclean``: groups that cannot elect a master."""

from __future__ import annotations

import asyncio
from contextlib import ExitStack
from pathlib import Path

from litemq import AsyncClient
from litemq.cli.rendering.exit_codes import EXIT_FAILED, EXIT_PARTIAL, EXIT_USAGE
from litemq.nameserver.latest_fact import EPOCH_GAP
from litemq.server.nameserver import GROUPS_FILE
from support.howto_commands import howto_commands
from support.on_loop import on_loop
from support.replica_processes import ReplicaProcesses
from support.replica_views import master_of, wait_master, wait_no_master
from support.waiting import eventually

_NAMES = {"a", "b", "c"}


async def _bodies(group: ReplicaProcesses, count: int) -> list[bytes]:
    url = f"litemq://{group.nameserver.address}"
    async with AsyncClient(url) as mq, mq.reader("orders", start="earliest") as reader:
        return [bytes((await anext(reader)).body) for _ in range(count)]


async def _said(group: ReplicaProcesses, *arguments: str, until: str) -> str:
    """Repeat a command until it says ``until``; return all that it said then."""
    while True:
        done = await group.cluster(*arguments)
        if until in done.stdout + done.stderr:
            return done.stdout + done.stderr
        await asyncio.sleep(0.1)


async def _shows_cuts(group: ReplicaProcesses, sizes: dict[str, int]) -> None:
    """Wait until the status shows what each replica has cut off."""
    while True:
        replicas = (await group.status())["replicas"]
        if {each["replica"]: each["bytes_cut"] for each in replicas} == sizes:
            assert all(bool(each["cut_at"]) == bool(sizes[each["replica"]]) for each in replicas)
            return
        await asyncio.sleep(0.1)


async def _more_is_confirmed_than(behind: str, group: ReplicaProcesses) -> None:
    """Wait until the NameServer has a report of confirmed records that ``behind`` lacks.

    Its own last report may be older than the last 1,000 bytes that it has.
    """
    while True:
        view = await wait_master(group.nameserver.port, 1, members=2)
        log_end = next(each.log_end for each in view.replicas if each.broker_id == behind)
        if max(each.confirm for each in view.replicas) > log_end + 1000:
            return
        await asyncio.sleep(0.02)


@on_loop
async def test_lost_facts_are_recovered_from_the_logs_of_all_replicas(tmp_path: Path) -> None:
    with ExitStack() as stack:
        group = ReplicaProcesses(tmp_path, stack)
        await group.wait_master(1)
        async with AsyncClient(f"litemq://{group.nameserver.address}") as mq:
            await mq.admin.create_topic("orders", queues=1)
            await mq.send("orders", b"before")
            refused = await group.cluster("recover", "orders", "--yes")
            assert refused.returncode == EXIT_FAILED
            assert "its facts are not lost" in refused.stderr

            group.nameserver.kill()
            lost = next(name for name in _NAMES if name != master_of(group.view))
            group.replicas[lost].kill()
            (tmp_path / "nameserver" / GROUPS_FILE).write_bytes(b"damaged")
            group.nameserver.start()
            await _said(group, "status", until="group orders: facts lost: run `litemq cluster recover orders`")
            assert (await group.cluster("status")).returncode == EXIT_PARTIAL
            plan = await _said(group, "recover", "orders", until="would recover group orders")
            assert "Acknowledged messages may be lost: only 2 of 3 replicas report" in plan
            assert "Nothing was changed. Use --yes to apply." in plan
            refused = await group.cluster("recover", "orders", "--yes")
            assert refused.returncode == EXIT_FAILED
            assert "only 2 of 3 replicas report. Start the missing replicas, or use --force" in refused.stderr

            group.replicas[lost].start()
            (_, *planning), (_, *applying) = howto_commands(
                "replicas.md", "Recover a lost NameServer store", broker_1="orders"
            )
            plan = await _said(group, *planning, until="All 3 replicas report")
            assert f"would recover group orders at epoch {1 + EPOCH_GAP}" in plan
            done = await group.cluster(*applying)
            assert done.returncode == 0, done
            assert f"recovered group orders at epoch {1 + EPOCH_GAP}" in done.stdout
            await group.wait_master(2 + EPOCH_GAP)
            await mq.send("orders", b"after")
            assert await _bodies(group, 2) == [b"before", b"after"]
        assert (await group.cluster("status")).returncode == 0


@on_loop
async def test_an_unclean_election_loses_what_it_has_said(tmp_path: Path) -> None:
    with ExitStack() as stack:
        group = ReplicaProcesses(tmp_path, stack)
        await group.wait_master(1)
        async with AsyncClient(f"litemq://{group.nameserver.address}") as mq:
            await mq.admin.create_topic("orders", queues=1)
            await mq.send("orders", b"kept")
            behind = min(_NAMES - {master_of(group.view)})
            group.replicas[behind].kill()
            await group.wait_master(1, members=2)
            for number in range(20):
                await mq.send("orders", b"lost %d" % number)
            await _more_is_confirmed_than(behind, group)
            refused = await group.cluster("elect", "orders", "--replica", behind, "--unclean", "--yes")
            assert "may still have a master" in refused.stderr
            for name in _NAMES - {behind}:
                group.replicas[name].kill()
            confirmed = max(each.confirm for each in (await wait_no_master(group.nameserver.port)).replicas)
            group.replicas[behind].start()
            await _said(group, "status", until="no member of the in-sync set is alive")

            assert (await group.cluster("elect", "orders", "--replica", behind)).returncode == EXIT_USAGE
            (_, *planning), (_, *applying) = howto_commands(
                "replicas.md", "Elect a master that lacks messages", broker_1="orders", replica_2=behind
            )
            plan = await group.cluster(*planning)
            assert plan.returncode == EXIT_FAILED
            assert f"With {behind} as the master, at least " in plan.stdout
            assert " 0 bytes" not in plan.stdout
            assert f"everything below {confirmed} is confirmed" in plan.stdout
            assert "Nothing was changed. Use --yes to apply." in plan.stdout
            done = await group.cluster(*applying)
            assert done.returncode == 0, done
            epoch = int(done.stdout.rpartition(f"{behind} is the master of epoch ")[2])

            for name in _NAMES - {behind}:  # they give up what they had, and follow
                group.replicas[name].start()
            master = await group.wait_master(epoch)
            assert master is group.replicas[behind]
            await mq.send("orders", b"new")
            assert await _bodies(group, 2) == [b"kept", b"new"]
            kept = {
                name: b"".join(path.read_bytes() for path in sorted((tmp_path / name).glob("cut-off-*")))
                for name in _NAMES
            }
            assert {name for name in _NAMES if b"lost 19" in kept[name]} == _NAMES - {behind}
            await _shows_cuts(group, {name: len(each) for name, each in kept.items()})
            # What they have is the same now: any of them may be the master.
            successor = min(_NAMES - {behind})
            assert (await group.cluster("switch", "orders", "--to", successor)).returncode == 0
            await group.wait_master(epoch + 1)
            assert await _bodies(group, 2) == [b"kept", b"new"]
        await eventually(lambda: all(each.is_running for each in group.replicas.values()))
