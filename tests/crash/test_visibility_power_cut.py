"""What consumers have read before a power cut, judged by what their topic's visibility promises.

``confirmed``: whatever a consumer has read is there after the power cut. ``received``: it may be
gone, and its offset taken by another message. Then the group's offset is not beyond it, and a
consumer that goes on reads the other message.
"""

import shutil
from pathlib import Path

import pytest

from litemq.clock import FakeClock, SystemClock
from litemq.format.record_decode import decode_record
from litemq.format.record_encode import encode_record
from litemq.storage.config import StoreConfig
from litemq.storage.disk_store import DiskStore
from litemq.storage.files.disk import DISK, Disk
from litemq.storage.state import QueueKey, TopicSettings
from litemq.storage.store import QueueReads
from litemq.types import Record, Visibility
from support.clusters import local_cluster
from support.gated_disk import GatedDisk
from support.on_loop import on_loop
from support.power_cut import RecordingDisk, states_after
from support.waiting import HANG_S

BOTH = pytest.mark.parametrize("visibility", list(Visibility))
CONFIG = StoreConfig(segment_bytes=69_632, max_record_bytes=4096, checkpoint_interval_ms=0)
KEY = QueueKey(16, 0)


class GatedRecordingDisk(GatedDisk, RecordingDisk):
    """A disk that records its operations, and syncs the log only while its gate is set."""

    def __init__(self) -> None:
        GatedDisk.__init__(self)
        RecordingDisk.__init__(self)


def _open(folder: Path, disk: Disk = DISK) -> DiskStore:
    return DiskStore(folder, CONFIG, FakeClock(), disk=disk, host="here")


def _bodies(queues: QueueReads, end_offset: int) -> list[bytes]:
    data = queues.read_queue(KEY, 0, 1000) if end_offset else b""
    bodies, at = [], 0
    while at < len(data):
        stored = decode_record(data, at)
        bodies.append(stored.record.body)
        at += stored.size
    return bodies


@BOTH
def test_every_power_cut(tmp_path: Path, visibility: Visibility) -> None:
    disk = GatedRecordingDisk()
    store = _open(tmp_path / "recorded", disk)
    store.create_topic("orders", 1, TopicSettings(visibility=visibility))
    sent: list[bytes] = []
    # After each number of disk operations: what consumers had read, and how much was acknowledged.
    read: list[tuple[int, list[bytes], int]] = []
    acknowledged = 0
    for number in range(6):
        body = b"%d" % number * (1 + 100 * (number % 4))
        store.append(bytearray(encode_record(Record("orders", body))), 16, 0)
        sent.append(body)
        bodies = _bodies(store.for_consumers, len(sent))
        end = store.commit_offsets("billing", [(KEY, len(bodies))]).end
        read.append((len(disk.operations), bodies, acknowledged))
        if number % 3 == 2:  # the others are not synced when they are read
            disk.gate.set()
            store.wait_confirmed(end, HANG_S)
            disk.gate.clear()
            acknowledged = len(sent)
    disk.gate.set()
    store.close()

    lost = 0
    for until in range(read[0][0], len(disk.operations) + 1):
        _, bodies, acknowledged = max((each for each in read if each[0] <= until), key=lambda each: each[0])
        for tree in states_after(disk.operations[:until]):
            folder = tmp_path / "state"
            tree.write_to(tmp_path / "recorded", folder)
            store = _open(folder)
            end_offset = store.state.end_offsets.get(KEY, 0)
            found = _bodies(store, end_offset)
            assert found == sent[: len(found)]
            assert len(found) >= acknowledged
            if visibility is Visibility.CONFIRMED:
                assert found[: len(bodies)] == bodies
            lost += len(found) < len(bodies)
            assert store.state.group_offsets.get(("billing", KEY), 0) <= end_offset
            store.abandon()
            shutil.rmtree(folder)
    assert bool(lost) == (visibility is Visibility.RECEIVED)


@BOTH
@on_loop
async def test_a_consumer_that_survives_the_broker(tmp_path: Path, visibility: Visibility) -> None:
    disk = GatedRecordingDisk()
    async with local_cluster() as cluster:
        first = DiskStore(tmp_path / "recorded", CONFIG, SystemClock(), disk=disk)
        first.create_topic("orders", 1, TopicSettings(visibility=visibility))
        cluster.replace("a", first)
        async with (
            cluster.client() as mq,
            mq.consumer("orders", group_id="billing", enable_auto_commit=False) as consumer,
        ):

            async def receive(count: int) -> list[bytes]:
                messages = [await anext(consumer) for _ in range(count)]
                for message in messages:
                    await message.ack()
                return [message.body for message in messages]

            for body in (b"0", b"1"):
                await mq.send("orders", body, durability="disk")
            assert await receive(2) == [b"0", b"1"]
            await consumer.commit()
            disk.gate.clear()
            lost = [b"lost 2", b"lost 3", b"lost 4"]
            for body in lost:
                await mq.send("orders", body, durability="memory")
            if visibility is Visibility.RECEIVED:
                assert await receive(3) == lost

            # All that was not synced is gone. Other messages get the offsets at once.
            cluster.take_down("a")
            next(iter(states_after(disk.operations))).write_to(tmp_path / "recorded", tmp_path / "after")
            disk.gate.set()
            second = DiskStore(tmp_path / "after", CONFIG, SystemClock())
            assert second.state.end_offsets[KEY] == 2
            bodies = [b"%d" % number for number in range(2, 8)]
            batch = b"".join(encode_record(Record("orders", body)) for body in bodies)
            second.wait_confirmed(second.append(bytearray(batch), 16, 0).end, HANG_S)
            cluster.replace("a", second)
            cluster.bring_back("a")
            assert await receive(6) == bodies
            await consumer.commit()
            assert second.state.group_offsets["billing", KEY] == 8
        first.close()
        second.close()
