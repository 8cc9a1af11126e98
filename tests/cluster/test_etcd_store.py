"""Several NameServers with the facts of a replicated group in etcd, as real processes."""

from __future__ import annotations

import asyncio
import json
import secrets
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from litemq import AsyncClient
from litemq.cli.rendering.exit_codes import EXIT_FAILED, EXIT_PARTIAL
from litemq.errors import LiteMQError
from litemq.nameserver.latest_fact import EPOCH_GAP
from litemq.proto.wire_pb2 import ReplicaGroup
from support.commands import litemq
from support.etcd import EtcdCluster
from support.on_loop import on_loop
from support.processes import ServerProcess, free_port
from support.replica_views import master_of, wait_master
from support.waiting import eventually, wait_until


class _Cluster:
    """Three NameServers, which share ``endpoints``, and three replicas of one group."""

    def __init__(self, folder: Path, endpoints: list[str], prefix: str, stack: ExitStack) -> None:
        self.nameservers = [
            ServerProcess(
                "nameserver",
                folder / f"nameserver-{number}.log",
                data_path=folder / f"nameserver-{number}",
                store_kind="etcd",
                etcd_endpoints=",".join(endpoints),
                etcd_prefix=prefix,
                master_lease="2s",
            )
            for number in range(3)
        ]
        self.addresses = ",".join(each.address for each in self.nameservers)
        self.url = f"litemq://{self.addresses}"
        self.logs = [folder / f"nameserver-{number}.log" for number in range(3)]
        self.replicas = {
            name: ServerProcess(
                "broker",
                folder / f"{name}.log",
                broker_id=name,
                broker_name="orders",
                nameserver=self.addresses,
                data_path=folder / name,
                file_size="8MB",
                replicas=3,
                experimental=True,
            )
            for name in ("a", "b", "c")
        }
        for server in (*self.nameservers, *self.replicas.values()):
            stack.callback(server.kill)
            server.start()

    async def wait_master(self, nameserver: ServerProcess, epoch: int, members: int = 3) -> ReplicaGroup:
        await eventually(lambda: nameserver.is_ready)
        return await wait_master(nameserver.port, epoch, members)


class _Sender:
    """Sends one message after another, and counts the acked ones."""

    def __init__(self, mq: AsyncClient) -> None:
        self._mq = mq
        self._task = asyncio.create_task(self._run())
        self.acked = 0

    async def _run(self) -> None:
        while True:
            try:
                await self._mq.send("orders", b"1", durability="replicas")
            except LiteMQError:
                await asyncio.sleep(0.05)
            else:
                self.acked += 1

    async def wait_more(self) -> None:
        enough = self.acked + 20
        await eventually(lambda: self.acked >= enough)

    async def stop(self) -> None:
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)


def _status(folder: Path, url: str) -> tuple[int, dict[str, Any], str]:
    done = litemq("cluster", "status", "--url", url, "--format", "json", cwd=folder, check=False)
    return done.returncode, json.loads(done.stdout) if done.stdout else {}, done.stderr


def _alive(folder: Path, url: str) -> list[str]:
    """Return the replicas that report to a NameServer."""
    [group] = _status(folder, url)[1]["replica_groups"]
    return [replica["replica"] for replica in group["replicas"] if replica["state"] != "silent"]


@on_loop
async def test_one_of_three_nameservers_is_enough_to_elect_a_master(tmp_path: Path, etcd: EtcdCluster) -> None:
    with ExitStack() as stack:
        cluster = _Cluster(tmp_path, etcd.endpoints, f"/litemq/{secrets.token_hex(8)}", stack)
        views = [await cluster.wait_master(each, 1) for each in cluster.nameservers]  # registered at each of them
        assert {master_of(view) for view in views} == {master_of(views[0])}
        async with AsyncClient(cluster.url) as mq:
            await mq.admin.create_topic("orders", queues=1)
            sender = _Sender(mq)
            await sender.wait_more()
            view = views[0]
            for number in range(2):
                cluster.nameservers[number].kill()
                await sender.wait_more()
                killed = cluster.replicas[master_of(view)]
                killed.kill()
                view = await cluster.wait_master(cluster.nameservers[2], view.epoch + 1, members=2)
                await sender.wait_more()
                killed.start()
                view = await cluster.wait_master(cluster.nameservers[2], view.epoch)
            for nameserver in cluster.nameservers[:2]:
                nameserver.start()
            for nameserver in cluster.nameservers:
                await cluster.wait_master(nameserver, view.epoch)  # the restarted ones know it, too
            await sender.stop()
        async with AsyncClient(cluster.url) as mq:
            await mq.send("orders", b"last")
        for server in (*cluster.replicas.values(), *cluster.nameservers):
            assert server.stop() == 0


@on_loop
async def test_without_etcd_routes_are_served_and_no_master_is_elected(tmp_path: Path) -> None:
    with ExitStack() as stack:
        etcd = stack.enter_context(EtcdCluster(1))
        cluster = _Cluster(tmp_path, etcd.endpoints, "/litemq", stack)
        first = cluster.nameservers[0]
        view = await cluster.wait_master(first, 1)
        async with AsyncClient(cluster.url) as mq:
            await mq.admin.create_topic("orders", queues=1)
            sender = _Sender(mq)
            await sender.wait_more()
            etcd.stop(0)
            await eventually(lambda: "the cluster store does not answer" in cluster.logs[0].read_text())
            code, facts, said = await asyncio.to_thread(_status, tmp_path, f"litemq://{first.address}")
            assert code == EXIT_PARTIAL
            assert f"NameServer {first.address}: the cluster store does not answer" in said
            assert [each["broker"] for each in facts["brokers"]] == ["orders"]
            assert facts["topics"] == 1  # by a broker whose address this NameServer knows
            text = f"the lease of the master was not renewed, retrying: no answer from etcd at {etcd.endpoints[0]}"
            await eventually(lambda: text in (tmp_path / f"{master_of(view)}.log").read_text())
            cluster.nameservers[1].kill()
            cluster.logs[1].write_bytes(b"")
            cluster.nameservers[1].start()  # it starts without etcd
            await eventually(lambda: cluster.nameservers[1].is_ready)
            await eventually(lambda: "cannot watch the groups" in cluster.logs[1].read_text())
            await eventually(lambda: "no master can be elected or stay" in cluster.logs[1].read_text())
            etcd.start(0)
            for nameserver in cluster.nameservers:
                await cluster.wait_master(nameserver, view.epoch)
            await sender.wait_more()
            await eventually(lambda: "the cluster store answers again" in cluster.logs[0].read_text())
            await sender.stop()
        url = f"litemq://{first.address}"
        await asyncio.to_thread(wait_until, lambda: _status(tmp_path, url)[0] == 0)
        etcd.stop(0)
        await eventually(lambda: all("broke" in log.read_text().rpartition(" again")[2] for log in cluster.logs))
        for nameserver, log in zip(cluster.nameservers, cluster.logs, strict=True):
            assert nameserver.stop() == 0
            assert log.read_text().count("cannot watch the groups") < 10  # once per outage, not at each attempt
            assert "Task" not in log.read_text()  # which asyncio says of one that nobody has awaited


@on_loop
async def test_a_group_is_recovered_after_a_wipe_of_etcd_without_a_restart(tmp_path: Path) -> None:
    with ExitStack() as stack:
        etcd = stack.enter_context(EtcdCluster(1))
        cluster = _Cluster(tmp_path, etcd.endpoints, "/litemq", stack)
        for nameserver in cluster.nameservers:
            await cluster.wait_master(nameserver, 1)
        async with AsyncClient(cluster.url) as mq:
            await mq.admin.create_topic("orders", queues=1)
            await mq.send("orders", b"before", durability="replicas")
            etcd.wipe()
            for nameserver in cluster.nameservers:
                await _wait_lost(tmp_path, f"litemq://{nameserver.address}")
            recover = ("cluster", "recover", "orders", "--yes", "--url", cluster.url)
            await asyncio.to_thread(wait_until, lambda: litemq(*recover, cwd=tmp_path, check=False).returncode == 0)
            for nameserver in cluster.nameservers:
                await cluster.wait_master(nameserver, 2 + EPOCH_GAP)
            await mq.send("orders", b"after", durability="replicas")
            async with mq.reader("orders", start="earliest") as reader:
                assert [bytes((await anext(reader)).body) for _ in range(2)] == [b"before", b"after"]
        for nameserver in cluster.nameservers:
            url = f"litemq://{nameserver.address}"
            await asyncio.to_thread(wait_until, lambda url=url: _status(tmp_path, url)[0] == 0)  # type: ignore[misc]


@pytest.mark.parametrize("nameservers_restart", [False, True])
@on_loop
async def test_an_old_copy_of_etcd_costs_no_message(tmp_path: Path, nameservers_restart: bool) -> None:
    """Its in-sync set has a replica that lacks a message. That one is not elected."""
    with ExitStack() as stack:
        etcd = stack.enter_context(EtcdCluster(1))
        cluster = _Cluster(tmp_path, etcd.endpoints, "/litemq", stack)
        first, view = cluster.nameservers[0], await cluster.wait_master(cluster.nameservers[0], 1)
        async with AsyncClient(cluster.url) as mq:
            await mq.admin.create_topic("orders", queues=1)
            etcd.save(tmp_path / "copy")
            view = await cluster.wait_master(first, view.epoch)  # a long stop of etcd ends the lease
            silent = next(name for name in cluster.replicas if name != master_of(view))
            others = [replica for name, replica in cluster.replicas.items() if name != silent]
            cluster.replicas[silent].kill()
            view = await cluster.wait_master(first, view.epoch, members=2)
            await mq.send("orders", b"before", durability="replicas")
            if nameservers_restart:  # they know nothing then, but the replicas do
                for nameserver in cluster.nameservers:
                    nameserver.kill()
            etcd.restore(tmp_path / "copy")
            if nameservers_restart:
                for nameserver in cluster.nameservers:
                    nameserver.start()
            for nameserver in cluster.nameservers:
                await _wait_lost(tmp_path, f"litemq://{nameserver.address}")
            for replica in others:
                replica.kill()
            await asyncio.to_thread(wait_until, lambda: not _alive(tmp_path, cluster.url))
            cluster.replicas[silent].start()
            recover = ("cluster", "recover", "orders", "--yes", "--url", cluster.url)
            assert await asyncio.to_thread(_wait_ended, tmp_path, recover, "only 1 of 3 replicas reports") != 0
            for replica in others:
                replica.start()
            assert await asyncio.to_thread(_wait_ended, tmp_path, recover, "recovered group orders") == 0
            await cluster.wait_master(first, view.epoch + EPOCH_GAP)
            await mq.send("orders", b"after", durability="replicas")
            async with mq.reader("orders", start="earliest") as reader:
                assert [bytes((await anext(reader)).body) for _ in range(2)] == [b"before", b"after"]


async def _wait_lost(folder: Path, url: str) -> None:
    """Wait until a NameServer says that the facts of the group are lost."""
    lost = "group orders: facts lost: run `litemq cluster recover orders`"
    await asyncio.to_thread(wait_until, lambda: lost in _status(folder, url)[2])
    assert (await asyncio.to_thread(_status, folder, url))[0] == EXIT_PARTIAL


def _wait_ended(folder: Path, command: tuple[str, ...], text: str) -> int:
    """Repeat a command until its output has ``text``; return its exit code."""
    codes: list[int] = []

    def has_ended() -> bool:
        done = litemq(*command, cwd=folder, check=False)
        if text in done.stdout + done.stderr:
            codes.append(done.returncode)
        return bool(codes)

    wait_until(has_ended)
    return codes[0]


def test_without_the_extra_the_command_to_install_it_is_shown(tmp_path: Path) -> None:
    (tmp_path / "grpc.py").write_text("raise ImportError")
    refused = litemq(
        "nameserver",
        "--store-kind=etcd",
        f"--etcd-endpoints=127.0.0.1:{free_port()}",
        "--port=0",
        cwd=tmp_path,
        check=False,
        environment={"PYTHONPATH": str(tmp_path)},
    )
    assert refused.returncode == EXIT_FAILED
    assert "pip install 'litemq[etcd]'" in refused.stderr
