"""Recovery after a crash: what it reads is durable before it counts as flushed."""

from pathlib import Path

import pytest

from litemq.clock import FakeClock
from litemq.errors import CorruptStoreError, StorageError
from litemq.storage.disk_store import DiskStore
from litemq.storage.state import QueueKey
from support.damage import BadSector
from support.power_cut import RecordingDisk
from support.stores import CONFIG, open_store, read_bodies, send_bodies


def test_every_segment_above_the_checkpoint_is_synced(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    store.create_topic("orders", 1)
    store.checkpoint()
    bodies = [bytes([number]) * 3000 for number in range(60)]
    for body in bodies:
        send_bodies(store, "orders", [body])
    segments = sorted(path for path in (tmp_path / "commitlog").iterdir() if path.name.isdigit())
    assert len(segments) > 2
    store.abandon()

    class Disk(RecordingDisk):
        def _number(self, path: Path) -> int:
            return self._files.setdefault(path, len(self._files))

    disk = Disk()
    again = DiskStore(tmp_path, CONFIG, FakeClock(), disk=disk, host="here")
    synced = {operation.path for operation in disk.operations if operation.what == "sync"}
    assert synced >= set(segments)
    assert read_bodies(again, "orders") == bodies
    again.close()


def test_damage_below_the_offset_of_the_state_is_not_a_torn_tail(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    store.create_topic("orders", 1)
    store.checkpoint()
    bodies = [b"body-%d" % number for number in range(10)]
    log_offsets = [int(send_bodies(store, "orders", [body]).log_offsets[0]) for body in bodies]
    store._parts.state_writer.commit(store.confirm_offset)  # later than the checkpoint
    store.abandon()
    with (tmp_path / "commitlog" / f"{0:020d}").open("r+b") as file:
        file.seek(log_offsets[4] + 150)
        file.write(b"\xff")
    again = open_store(tmp_path)
    assert again.state.end_offsets[QueueKey(16, 0)] == 10
    assert read_bodies(again, "orders", first=5) == bodies[5:]
    with pytest.raises(CorruptStoreError):
        read_bodies(again, "orders", first=4)
    again.close()


def test_a_state_ahead_of_a_shorter_log_is_rebuilt(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    store.create_topic("orders", 1)
    store.checkpoint()
    kept = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file() and "state" not in path.name}
    for _ in range(60):
        send_bodies(store, "orders", [bytes(3000)])
    store._parts.state_writer.commit(store.confirm_offset)
    store.abandon()
    for path in (tmp_path / "commitlog").iterdir():
        path.unlink()
    for path, content in kept.items():  # an operator restored the log of yesterday
        path.write_bytes(content)
    again = open_store(tmp_path)
    assert read_bodies(again, "orders") == []
    again.close()


def test_a_sector_that_the_disk_cannot_read_does_not_end_the_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = open_store(tmp_path)
    store.create_topic("orders", 1)
    store.checkpoint()
    begin = store.log_end
    send_bodies(store, "orders", [b"%d" % number * 500 for number in range(20)])
    store.abandon()
    (path,) = (tmp_path / "commitlog").iterdir()
    before = path.read_bytes()
    with monkeypatch.context() as patches:
        BadSector(path, begin + 5000).install(patches)
        with pytest.raises(StorageError, match="Input/output error"):
            open_store(tmp_path)
    assert path.read_bytes() == before
    again = open_store(tmp_path)
    assert len(read_bodies(again, "orders")) == 20
    again.close()
