"""Look-ups by key: complete, or rebuilt if files of the index are missing."""

from pathlib import Path

import pytest

from litemq.clock import FakeClock
from litemq.storage.config import StoreConfig
from litemq.storage.disk_store import DiskStore
from litemq.types import Record
from support.full_disk import FullDisk
from support.quick_disk import QuickDisk
from support.stores import send

# A file holds 40 entries; each message has an id and a key.
CONFIG = StoreConfig(
    segment_bytes=69_632, max_record_bytes=4096, index_slots=10, index_entries=40, checkpoint_interval_ms=0
)


def _open(directory: Path) -> DiskStore:
    return DiskStore(directory, CONFIG, FakeClock(), disk=QuickDisk(), host="here")


def _fill(store: DiskStore) -> None:
    for number in range(100):
        send(store, [Record("orders", b"body", f"m-{number}", keys=("all",))])
        store.commit_offsets("billing", [])  # control records between messages are not indexed


@pytest.mark.parametrize("missing", [0, 2, 4])
def test_a_missing_file_is_noticed(tmp_path: Path, missing: int, caplog: pytest.LogCaptureFixture) -> None:
    store = _open(tmp_path)
    _fill(store)
    assert len(store.find("orders", "all", 1000)) == 100
    store.close()
    files = sorted(path for path in (tmp_path / "index").iterdir() if path.name.isdigit())
    assert len(files) == 5
    for path in (files[missing], files[missing].with_name(files[missing].name + ".crc")):
        path.unlink()
    again = _open(tmp_path)
    assert len(again.find("orders", "all", 1000)) == 100
    assert ("rebuilding the key index" in caplog.text) == (missing < 4)  # the last one is indexed again
    again.close()


def test_complete_files_are_kept(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    store = _open(tmp_path)
    _fill(store)
    store.close()
    again = _open(tmp_path)
    assert len(again.find("orders", "all", 1000)) == 100
    while again.log_bytes > 69_632:
        again.retain(max_bytes=1)
    again.close()
    third = _open(tmp_path)  # after retention, the index begins before the log
    third.close()
    assert "rebuilding" not in caplog.text


def test_messages_are_found_while_the_disk_is_full(tmp_path: Path) -> None:
    disk = FullDisk()
    store = DiskStore(tmp_path, CONFIG, FakeClock(), disk=disk, host="here")
    _fill(store)
    assert len(store.find("orders", "all", 1000)) == 100  # they are in the index
    disk.is_full = True
    for number in range(100, 120):
        send(store, [Record("orders", b"body", f"m-{number}", keys=("all", "new"))])
    for _ in range(3):
        found = [one.record.message_id for one in store.find("orders", "all", 1000)]
        assert found == [f"m-{number}" for number in reversed(range(120))]
        assert len(store.find("orders", "new", 1000)) == 20
    disk.is_full = False
    assert len(store.find("orders", "all", 1000)) == 120
    assert [len(store.find("orders", f"m-{number}", 2)) for number in range(120)] == [1] * 120
    store.close()
    again = _open(tmp_path)
    assert len(again.find("orders", "all", 1000)) == 120
    again.close()
