"""Damaged logs of real replicas are repaired byte for byte, and the damage does not spread."""

from __future__ import annotations

import random
from contextlib import ExitStack
from pathlib import Path

from litemq import AsyncClient
from litemq.storage.log.segment import segment_starts
from support.damage import damage_log, log_bytes
from support.on_loop import on_loop
from support.replica_processes import ReplicaProcesses
from support.waiting import eventually

SEED = 18
MESSAGES = 200


async def _send(group: ReplicaProcesses) -> None:
    async with AsyncClient(f"litemq://{group.nameserver.address}") as mq:
        await mq.admin.create_topic("orders", queues=1)
        for number in range(MESSAGES):
            await mq.send("orders", b"%d" % number * 100, durability="replicas")


async def _bodies(group: ReplicaProcesses, count: int) -> list[bytes]:
    async with (
        AsyncClient(f"litemq://{group.nameserver.address}") as mq,
        mq.reader("orders", start="earliest") as reader,
    ):
        return [bytes((await anext(reader)).body) for _ in range(count)]


def _used(folder: Path) -> int:
    """Return the size of the records in the first segment."""
    assert segment_starts(folder / "commitlog") == [0]
    return len(log_bytes(folder)[0].rstrip(b"\0"))


async def _same_logs(group: ReplicaProcesses) -> None:
    """Wait until the logs of all replicas are the same, to the last byte."""
    folders = [group.folder / name for name in group.replicas]
    await eventually(lambda: log_bytes(folders[0]) == log_bytes(folders[1]) == log_bytes(folders[2]))


async def _becomes(folder: Path, intact: dict[int, bytes]) -> None:
    await eventually(lambda: log_bytes(folder) == intact)


async def _sent(folder: Path, stack: ExitStack) -> tuple[ReplicaProcesses, str, list[str]]:
    """Start a group with messages; return it with the names of its master and of its followers."""
    group = ReplicaProcesses(folder, stack)
    master = await group.wait_master(1)
    await _send(group)
    await _same_logs(group)
    [name] = [name for name, each in group.replicas.items() if each is master]
    return group, name, [other for other in group.replicas if other != name]


async def _check(group: ReplicaProcesses) -> None:
    """Send more; check that all logs are the same then, and that no message is lost or changed."""
    await group.wait_master(1)
    await _send(group)
    await _same_logs(group)
    expected = [b"%d" % number * 100 for number in range(MESSAGES)]
    assert await _bodies(group, 2 * MESSAGES) == 2 * expected


@on_loop
async def test_a_flipped_bit_of_a_stopped_replica_is_repaired(tmp_path: Path) -> None:
    """NATS 2.12: one flipped bit spread to the replicas that were intact."""
    with ExitStack() as stack:
        group, _, [name, _] = await _sent(tmp_path, stack)
        intact = log_bytes(tmp_path / name)
        assert group.replicas[name].stop() == 0
        damage_log(tmp_path / name, random.Random(SEED).randrange(_used(tmp_path / name)))
        assert log_bytes(tmp_path / name) != intact
        group.replicas[name].start()
        await _becomes(tmp_path / name, intact)
        await _check(group)


@on_loop
async def test_replicas_that_cannot_open_are_repaired_first(tmp_path: Path) -> None:
    """Both followers would have to skip damaged records, at different places of the log."""
    with ExitStack() as stack:
        group, _, followers = await _sent(tmp_path, stack)
        intact = log_bytes(tmp_path / followers[0])
        used = _used(tmp_path / followers[0])
        for part, name in enumerate(followers, 1):
            assert group.replicas[name].stop() == 0
            for path in (tmp_path / name).glob("state.db*"):
                path.unlink()  # the state comes from the whole log
            damage_log(tmp_path / name, part * used // 3)
        for name in followers:
            group.replicas[name].start()
        for name in followers:
            await _becomes(tmp_path / name, intact)
            assert "repaired with the bytes of another replica before it opens" in group.log_of(name)
        await _check(group)


@on_loop
async def test_a_damaged_log_of_the_master_is_repaired_and_not_shipped(tmp_path: Path) -> None:
    with ExitStack() as stack:
        group, master, [stopped, intact] = await _sent(tmp_path, stack)
        group.replicas[stopped].kill()
        begin = _used(tmp_path / master)
        await _send(group)
        damage_log(tmp_path / master, random.Random(SEED).randrange(begin, _used(tmp_path / master)))
        assert log_bytes(tmp_path / master) != log_bytes(tmp_path / intact)
        group.replicas[stopped].start()
        await _same_logs(group)
        assert "repaired the log from" in group.log_of(master)
        assert "repaired the log from" not in group.log_of(stopped)


@on_loop
async def test_a_replica_asks_one_after_another_for_intact_bytes(tmp_path: Path) -> None:
    """The same record is damaged in two replicas."""
    with ExitStack() as stack:
        group, _, followers = await _sent(tmp_path, stack)
        intact = log_bytes(tmp_path / followers[0])
        at = random.Random(SEED).randrange(_used(tmp_path / followers[0]))
        for name in followers:
            assert group.replicas[name].stop() == 0
            damage_log(tmp_path / name, at)
        for name in followers:
            group.replicas[name].start()
        for name in followers:
            await _becomes(tmp_path / name, intact)
        await _check(group)
