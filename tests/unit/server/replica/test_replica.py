"""Replicas in this process, with a real NameServer: their roles, and what a follower says."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from litemq import AsyncClient
from litemq.broker.runtime.broker_clock import BrokerClock
from litemq.client.cluster.engine import ClusterEngine
from litemq.clock import SystemClock
from litemq.errors import NotMasterError, ProtocolError, TopicNotFoundError, UnsupportedFeatureError
from litemq.net.client import Peer
from litemq.proto.wire_pb2 import ListTopicsRequest, Opcode, PullRequest, SendRequest
from litemq.server.broker import run_broker
from litemq.server.broker_config import BrokerConfig
from litemq.server.replica import replica as replica_module
from litemq.server.replica.hand_over import HandOver
from litemq.server.replica.replica import _Role
from litemq.storage.files.disk import DISK
from support.name_processes import running_nameserver
from support.on_loop import on_loop
from support.replica_views import master_of, wait_master
from support.waiting import eventually

_NAMES = ("a", "b", "c")


class _Replica:
    """One replica, as a task of this process."""

    def __init__(self, folder: Path, name: str, nameserver: int) -> None:
        self._config = BrokerConfig(
            broker_id=name,
            broker_name="orders",
            port=0,
            nameservers=(f"127.0.0.1:{nameserver}",),
            data_path=str(folder / name),
            file_size=8 << 20,
            replicas=3,
            experimental=True,
        )
        self.port = 0

    async def start(self) -> None:
        is_ready = asyncio.Event()

        def ready(_host: str, port: int) -> None:
            self.port = port
            is_ready.set()

        self._stop = asyncio.Event()
        self._task = asyncio.create_task(run_broker(self._config, ready, self._stop))
        await is_ready.wait()

    async def stop(self) -> None:
        self._stop.set()
        await self._task


class _Trio:
    """A NameServer and three replicas."""

    def __init__(self, folder: Path, nameserver: int) -> None:
        self.url = f"litemq://127.0.0.1:{nameserver}"
        self._nameserver = nameserver
        self.replicas = {name: _Replica(folder, name, nameserver) for name in _NAMES}

    async def wait_master(self, epoch: int, members: int = 3) -> str:
        """Wait for the master of ``epoch``, and for the size of the in-sync set."""
        return master_of(await wait_master(self._nameserver, epoch, members))


@asynccontextmanager
async def _trio(folder: Path) -> AsyncIterator[_Trio]:
    async with running_nameserver(folder / "nameserver") as port:
        trio = _Trio(folder, port)
        for replica in trio.replicas.values():
            await replica.start()
        try:
            yield trio
        finally:
            for replica in trio.replicas.values():
                await replica.stop()


@on_loop
async def test_a_master_that_is_stopped_hands_over(tmp_path: Path) -> None:
    async with _trio(tmp_path) as trio, AsyncClient(trio.url) as mq:
        first = await trio.wait_master(1)
        await mq.admin.create_topic("orders", queues=1)
        receipts = [await mq.send("orders", b"one")]
        await trio.replicas[first].stop()
        second = await trio.wait_master(2, members=2)
        assert second != first
        receipts.append(await mq.send("orders", b"two"))
        await trio.replicas[first].start()
        assert await trio.wait_master(2) == second  # the other one follows, and is in sync
        receipts.append(await mq.send("orders", b"three"))
        assert [receipt.queue_offset for receipt in receipts] == [0, 1, 2]
        assert {receipt.broker for receipt in receipts} == {"orders"}


@on_loop
async def test_a_follower_that_is_stopped_is_not_elected(tmp_path: Path) -> None:
    async with _trio(tmp_path) as trio, AsyncClient(trio.url) as mq:
        first = await trio.wait_master(1)
        for stopped in [name for name in _NAMES if name != first]:
            await trio.replicas[stopped].stop()
            [group] = await mq.admin.replica_groups()
            assert [each.alive for each in group.replicas if each.broker_id == stopped] == [False]
        await trio.replicas[first].stop()
        [group] = await mq.admin.replica_groups()
        assert (group.epoch, group.master) == (1, None)
        for replica in trio.replicas.values():
            await replica.start()
        await trio.wait_master(2)


@on_loop
async def test_a_master_that_learns_of_the_next_one_while_its_role_ends_follows_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    close = HandOver.close

    async def close_as_a_later_view_comes(hand_over: HandOver) -> None:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        await asyncio.sleep(0)
        await close(hand_over)

    async with _trio(tmp_path) as trio, AsyncClient(trio.url) as mq:
        first = await trio.wait_master(1)
        await mq.admin.create_topic("orders", queues=1)
        monkeypatch.setattr(HandOver, "close", close_as_a_later_view_comes)
        switched = await mq.admin.switch_master("orders")
        assert (switched.former, await trio.wait_master(2)) == (first, switched.master)
        await mq.send("orders", b"one", durability="replicas")
        monkeypatch.undo()


@on_loop
async def test_a_follower_names_its_master(tmp_path: Path) -> None:
    async with _trio(tmp_path) as trio:
        master = await trio.wait_master(1)
        follower = next(name for name in _NAMES if name != master)
        peer = await Peer.connect("127.0.0.1", trio.replicas[follower].port, client_id="tests")
        port = trio.replicas[master].port
        with pytest.raises(NotMasterError, match=f"ask {master} at 127.0.0.1:{port}"):
            await peer.request(Opcode.LIST_TOPICS, ListTopicsRequest().SerializeToString(), timeout=60)
        await eventually(lambda: not peer.is_open)  # so that the client connects to the master


@on_loop
async def test_every_replica_says_that_a_url_names_nameservers(tmp_path: Path) -> None:
    async with _trio(tmp_path) as trio:
        await trio.wait_master(1)
        for replica in trio.replicas.values():
            with pytest.raises(ProtocolError, match="not a NameServer: --url and --nameserver take"):
                async with AsyncClient(f"litemq://127.0.0.1:{replica.port}"):
                    pass


@on_loop
async def test_a_follower_serves_the_reads_of_clients_that_ask_for_it(tmp_path: Path) -> None:
    async with _trio(tmp_path) as trio, AsyncClient(trio.url) as mq:
        master = await trio.wait_master(1)
        await mq.admin.create_topic("orders", queues=1)
        for number in range(20):
            await mq.send("orders", b"%d" % number, keys=["k"])
        follower = next(name for name in _NAMES if name != master)
        port = trio.replicas[follower].port
        peer = await Peer.connect("127.0.0.1", port, client_id="tests", reads_replica=True)
        found = b""
        asked = PullRequest(topic="orders", max_messages=100, wait_ms=1_000).SerializeToString()
        while found.count(b"orders") < 20:  # a follower confirms a little later
            with contextlib.suppress(TopicNotFoundError):
                found = (await peer.request(Opcode.PULL, asked, timeout=60)).attachment
        for opcode, header in (
            (Opcode.SEND, SendRequest(topic="orders").SerializeToString()),
            (Opcode.PULL, PullRequest(topic="orders", max_messages=1, group="shop").SerializeToString()),
        ):
            with pytest.raises(NotMasterError):
                await peer.request(opcode, header, timeout=60)
        assert (await peer.request(Opcode.PULL, asked, timeout=60)).attachment == found  # it stays open
        peer.close()
        other = await Peer.connect("127.0.0.1", port, client_id="tests")  # a client that reads from the master
        with pytest.raises(NotMasterError):
            await other.request(Opcode.PULL, asked, timeout=60)
        await eventually(lambda: not other.is_open)


@on_loop
async def test_a_client_reads_from_a_replica(tmp_path: Path) -> None:
    async with _trio(tmp_path) as trio, AsyncClient(trio.url, read_from="replica") as mq:
        master = await trio.wait_master(1)
        await mq.admin.create_topic("orders", queues=1)
        bodies = [b"%d" % number for number in range(20)]
        for body in bodies:
            await mq.send("orders", body, keys=["k"], durability="replicas")
        async with mq.reader("orders", start="earliest") as reader:
            assert [bytes((await anext(reader)).body) for _ in bodies] == bodies
            assert mq._publisher is not None
            reads = cast("ClusterEngine", mq._publisher.engine)._reads
            chosen = reads._chosen["orders"]
            assert chosen.channel is not None
            assert chosen.channel.address != f"127.0.0.1:{trio.replicas[master].port}"
            [stopped] = [name for name in _NAMES if chosen.channel.address.endswith(f":{trio.replicas[name].port}")]
            await trio.replicas[stopped].stop()
            await mq.send("orders", b"more")
            assert bytes((await anext(reader)).body) == b"more"  # of another replica, or of the master
        found = await mq.admin.find("orders", "k")
        assert len(found) == len(bodies)
        await trio.replicas[stopped].start()


@on_loop
async def test_an_old_directory_of_a_member_stays_out_until_the_set_has_changed(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with _trio(tmp_path) as trio, AsyncClient(trio.url) as mq:
        first = await trio.wait_master(1)
        await mq.admin.create_topic("orders", queues=1)
        await mq.send("orders", b"one")
        restored, other = (name for name in _NAMES if name != first)
        await trio.replicas[restored].stop()
        shutil.copytree(tmp_path / restored, tmp_path / "backup")
        await trio.replicas[restored].start()
        await trio.wait_master(1)
        [group] = await mq.admin.replica_groups()
        before = max(each.log_end for each in group.replicas)
        await mq.send("orders", b"two")
        while group.master is None or group.master.confirm_offset <= before:  # the NameServer knows it
            [group] = await mq.admin.replica_groups()
        for name in (first, other, restored):  # the last two remain the in-sync set
            await trio.replicas[name].stop()
        shutil.rmtree(tmp_path / restored)
        shutil.copytree(tmp_path / "backup", tmp_path / restored)
        await trio.replicas[restored].start()
        while not any("the data directory is older than this replica was" in each for each in group.problems):
            [group] = await mq.admin.replica_groups()
        assert group.master is None
        assert f"the data directory of {restored} is older than the replica" in group.obstacle
        said = [record.name for record in caplog.records if "older than this replica was" in record.message]
        assert sorted(said) == ["litemq.nameserver.replica_groups", "litemq.server.replica.replica"]
        for name in (other, first):
            await trio.replicas[name].start()
        await trio.wait_master(2)
        await mq.send("orders", b"three")
        async with mq.reader("orders", start="earliest") as reader:
            assert [bytes((await anext(reader)).body) for _ in range(3)] == [b"one", b"two", b"three"]
        while group.problems:
            [group] = await mq.admin.replica_groups()


def test_replication_is_refused_unless_asked_for() -> None:
    with pytest.raises(UnsupportedFeatureError, match="--experimental"):
        BrokerConfig(replicas=3)


def test_a_follower_keeps_its_master_while_a_nameserver_does_not_know_the_address() -> None:
    follower = _Role(2, is_master=False, address=("h", 1))
    waiting = _Role(2, is_master=False, address=None)
    assert follower.replaces(None)
    assert waiting.replaces(None)
    assert follower.replaces(waiting)
    assert not waiting.replaces(follower)
    assert not follower.replaces(follower)
    assert follower._replace(address=("h", 2)).replaces(follower)
    assert waiting._replace(epoch=3).replaces(follower)
    assert waiting.replaces(_Role(2, is_master=True, address=None))


@on_loop
async def test_a_full_disk_is_reported_before_its_consequence(tmp_path: Path) -> None:
    config = BrokerConfig(data_path=str(tmp_path), replicas=3, nameservers=("127.0.0.1:1",), experimental=True)
    replica: Any = replica_module._Replica(config, BrokerClock(SystemClock()), lambda _epoch: None, DISK)
    assert replica._problem == ""
    replica._follower = SimpleNamespace(problem="it does not follow")
    assert replica._problem == "it does not follow"
    replica.directory.store = SimpleNamespace(disk_refusal="the disk is full: free disk space")
    assert replica._problem == "the disk is full: free disk space; it does not follow"
    replica._follower = None
    assert replica._problem == "the disk is full: free disk space"
