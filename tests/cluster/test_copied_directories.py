"""Replicas that start with a copy of another one's directory, or with an old one of their own.

No acknowledged message is lost, and the operator reads what is wrong and what to do.
"""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path

from litemq import AsyncClient
from litemq.cli.rendering.exit_codes import EXIT_PARTIAL
from litemq.clock import SystemClock
from litemq.server.broker_config import BrokerConfig
from litemq.server.broker_setup import store_config
from litemq.storage.files.disk import DISK
from support.on_loop import on_loop
from support.replica_group import LEFT, send_bodies
from support.replica_processes import ReplicaProcesses
from support.replica_views import master_of
from support.replicas import confirm_all, open_replica
from support.waiting import eventually

_NAMES = ("a", "b", "c")


class _Site:
    """A group, whose replica ``copied`` has a ``backup`` that lacks acknowledged messages."""

    def __init__(self, group: ReplicaProcesses, mq: AsyncClient) -> None:
        self.group, self.mq = group, mq
        self.sent: list[bytes] = []

    async def send(self) -> None:
        body = b"%d" % len(self.sent)
        await self.mq.send("orders", body)
        self.sent.append(body)

    async def begin(self) -> None:
        """Choose the replicas, take the backup, and send more."""
        group = self.group
        await group.wait_master(1)
        await self.mq.admin.create_topic("orders", queues=1)
        await self.send()
        self.master = master_of(group.view)
        self.copied, self.other = (name for name in _NAMES if name != self.master)
        group.replicas[self.copied].kill()
        self.backup = group.folder / "backup"
        shutil.copytree(group.folder / self.copied, self.backup)
        await group.wait_master(1, members=2)
        await self.send()
        group.replicas[self.copied].start()
        await group.wait_master(1)
        for _ in range(3):
            await self.send()

    def restore(self, name: str) -> None:
        """Replace the directory of a replica, which is not running, by the backup."""
        shutil.rmtree(self.group.folder / name)
        shutil.copytree(self.backup, self.group.folder / name)

    async def said(self, *expected: str) -> str:
        """Wait until the status is incomplete, and says all that is ``expected``; return it."""
        while True:
            done = await self.group.cluster("status")
            if all(each in done.stdout + done.stderr for each in expected):
                assert done.returncode == EXIT_PARTIAL
                return done.stdout + done.stderr
            await asyncio.sleep(0.1)

    async def check(self) -> None:
        """Everything that was acknowledged is there, once."""
        await self.send()
        async with self.mq.reader("orders", start="earliest") as reader:
            assert [bytes((await anext(reader)).body) for _ in self.sent] == self.sent


@asynccontextmanager
async def _site(folder: Path) -> AsyncIterator[tuple[_Site, ReplicaProcesses]]:
    with ExitStack() as stack:
        group = ReplicaProcesses(folder, stack)
        async with AsyncClient(f"litemq://{group.nameserver.address}") as mq:
            site = _Site(group, mq)
            await site.begin()
            yield site, group


@on_loop
async def test_a_copy_of_another_replicas_directory_is_refused(tmp_path: Path) -> None:
    async with _site(tmp_path) as (site, group):
        for name in (site.copied, site.other):
            group.replicas[name].kill()
        site.restore(site.other)
        other = group.replicas[site.other]
        other.start()
        await eventually(lambda: not other.is_running)
        assert (
            f"is the directory of replica {site.copied}, or a copy of it, but this is replica {site.other}. "
            f"Start {site.other} with an empty directory: it copies the log"
        ) in group.log_of(site.other)
        shutil.rmtree(tmp_path / site.other)
        other.start()
        await group.wait_master(1, members=2)
        await site.send()
        group.replicas[site.copied].start()
        await group.wait_master(1)
        await site.check()


@on_loop
async def test_a_copy_without_the_name_of_its_replica_takes_no_part(tmp_path: Path) -> None:
    """An older version has written the directory: it has the store id of a member that is down."""
    async with _site(tmp_path) as (site, group):
        for name in (site.other, site.copied):  # the second one stays a member: the set gets no smaller
            group.replicas[name].kill()
            await group.wait_master(1, members=2)
        site.restore(site.other)
        mark = tmp_path / site.other / "store_id"
        mark.write_text("".join(mark.read_text().splitlines(keepends=True)[:2]))
        group.replicas[site.other].start()
        await site.said("the data directory is older than this replica was")
        group.replicas[site.master].kill()
        await site.said(f"the data directory of {site.other} is older than the replica, like a backup or a copy")

        group.replicas[site.copied].start()
        refused = f"{site.copied} at 127.0.0.1:{group.replicas[site.copied].port} is refused: "
        assert f"is a copy of the one of {site.other}" in await site.said(refused)
        assert (tmp_path / "nameserver.log").read_text().count(refused) == 1
        group.replicas[site.other].kill()
        shutil.rmtree(tmp_path / site.other)
        for name in (site.other, site.master):
            group.replicas[name].start()
        await group.wait_master(2)
        await site.check()


@on_loop
async def test_a_directory_from_a_backup_is_not_elected(tmp_path: Path) -> None:
    """Also if the NameServer was started again, and it is the only replica that is alive."""
    async with _site(tmp_path) as (site, group):
        group.replicas[site.other].kill()
        await group.wait_master(1, members=2)
        for name in (site.master, site.copied):
            group.replicas[name].kill()
        await site.said("no member of the in-sync set is alive")
        site.restore(site.copied)
        group.nameserver.kill()
        group.nameserver.start()
        group.replicas[site.copied].start()
        await site.said(
            f"the data directory of {site.copied} is older than the replica, like a backup or a copy",
            f"{site.copied}: the data directory is older than this replica was",
        )
        assert "older than this replica was" in group.log_of(site.copied)
        group.replicas[site.master].start()
        await group.wait_master(2, members=2)
        assert master_of(group.view) == site.master
        group.replicas[site.other].start()
        await group.wait_master(2)  # the one from the backup has left the set, and has joined it again
        await site.check()
        while (await group.cluster("status")).returncode:  # its last report may be from before
            pass


@on_loop
async def test_a_replica_that_stops_because_its_log_differs_is_seen(tmp_path: Path) -> None:
    async with _site(tmp_path) as (site, group):
        group.replicas[site.other].kill()
        await group.wait_master(1, members=2)
        config = BrokerConfig(data_path=str(tmp_path / site.other), file_size=8_000_000)
        store = open_replica(tmp_path / site.other, store_config(config), SystemClock(), DISK)
        store.begin_writing(1 + store.begun_epoch)  # someone has written to it
        send_bodies(store, b"not of the group")
        confirm_all(store)
        store.stop_writing(LEFT)
        store.close()
        await site.mq.admin.switch_master("orders")  # the group begins this epoch, too, at the same offset
        other = group.replicas[site.other]
        other.start()
        await eventually(lambda: not other.is_running)
        said = await site.said(
            f"{site.other} has not reported for", f"{site.other} said at last: it has stopped: the record at"
        )
        assert "this replica stops. Keep its data directory: the master may be the one that lacks messages" in said
        assert f"group orders: {site.other}: it has stopped: the record at" in (tmp_path / "nameserver.log").read_text()
        await site.check()
