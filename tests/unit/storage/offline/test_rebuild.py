"""Rebuilding: the projections come out the same; damaged records are skipped and reported."""

import json
import shutil
from pathlib import Path

import pytest
from typer.testing import CliRunner

from litemq.cli.main import app
from litemq.clock import FakeClock
from litemq.errors import CorruptStoreError, InvalidArgumentError, StorageError, StoreLockedError
from litemq.format.record_decode import decode_record
from litemq.format.record_encode import encode_record
from litemq.storage.config import StoreConfig
from litemq.storage.disk_store import DiskStore
from litemq.storage.offline.rebuild import rebuild_directory
from litemq.storage.offline.verify import verify_directory
from litemq.storage.state import QueueKey
from litemq.types import Record

CONFIG = StoreConfig(
    segment_bytes=69_632, max_record_bytes=4096, index_slots=50, index_entries=100, checkpoint_interval_ms=0
)


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    store = DiskStore(tmp_path / "data", CONFIG, FakeClock(), host="here")
    topic = store.create_topic("orders", 3)
    for number in range(240):
        record = Record("orders", b"%d" % number * 30, f"m-{number}", keys=(f"k-{number % 10}",))
        store.append(bytearray(encode_record(record)), topic.topic_id, number % 3)
    store.commit_offsets("billing", [(QueueKey(topic.topic_id, 1), 7)])
    store.close()
    return tmp_path / "data"


def _content(directory: Path) -> tuple[list[bytes], list[list[int]], list[str]]:
    """Return the state without the control queue, each queue's numbers, and the look-ups by key."""
    store = DiskStore(directory, CONFIG, FakeClock(), host="here")
    rows = [row.SerializeToString(deterministic=True) for row in store.state.rows() if row.queue.topic_id != 1]
    queues = []
    for queue in range(3):
        key = QueueKey(16, queue)
        numbers, at = [], 0
        while at < store.state.end_offsets[key]:
            try:
                data = store.read_queue(key, at, 1)
                numbers.append(int(decode_record(data).record.message_id[2:]))
            except CorruptStoreError:
                numbers.append(-1)
            at += 1
        queues.append(numbers)
    found = [stored.record.message_id for stored in store.find("orders", "k-3")]
    store.abandon()
    return rows, queues, found


def test_rebuilt_projections_are_the_same(directory: Path, tmp_path: Path) -> None:
    shutil.copytree(directory, tmp_path / "copy")
    expected = _content(tmp_path / "copy")
    steps: list[tuple[int, int]] = []
    done = rebuild_directory(directory, StoreConfig(), FakeClock(), on_replayed=lambda *step: steps.append(step))
    assert (done.topics, done.queues, done.messages, done.damage) == (1, 3, 240, [])
    assert steps[-1][0] == steps[-1][1] > 0
    assert verify_directory(directory).findings == []
    assert _content(directory) == expected


def test_a_damaged_record_is_skipped_and_reported(directory: Path) -> None:
    expected = [list(range(queue, 240, 3)) for queue in range(3)]
    segment = min((directory / "commitlog").glob("0*"))
    data = bytearray(segment.read_bytes())
    data[5000] ^= 4
    segment.write_bytes(data)
    result = CliRunner().invoke(app, ["store", "rebuild", str(directory), "--format", "json"])
    assert result.exit_code == 1
    report = json.loads(result.stdout)
    assert [(Path(damage["path"]), 0 <= 5000 - damage["offset"] < 600) for damage in report["damage"]] == [
        (segment, True)
    ]
    assert report["messages"] == 239
    _, queues, _ = _content(directory)
    lost = [(queue, at) for queue in range(3) for at in range(80) if queues[queue][at] != expected[queue][at]]
    assert len(lost) == 1
    assert queues[lost[0][0]][lost[0][1]] == -1
    result = CliRunner().invoke(app, ["store", "rebuild", str(directory)])
    assert result.exit_code == 1
    assert "skipped 1 damaged records" in result.stdout


def test_other_directories_are_refused(directory: Path, tmp_path: Path) -> None:
    with pytest.raises(InvalidArgumentError, match="does not exist"):
        rebuild_directory(tmp_path / "missing", StoreConfig(), FakeClock())
    store = DiskStore(directory, CONFIG, FakeClock(), host="here")
    before = sorted(path for path in directory.rglob("*"))
    with pytest.raises(StoreLockedError):
        rebuild_directory(directory, StoreConfig(), FakeClock())
    assert sorted(path for path in directory.rglob("*")) == before
    store.abandon()


def test_nothing_is_removed_unless_the_log_can_be_opened(directory: Path) -> None:
    before = sorted(path for path in directory.rglob("*") if path.is_file())
    epochs = directory / "epochs"
    data = bytearray(epochs.read_bytes() * 2)
    data[9] ^= 1
    epochs.write_bytes(data)
    with pytest.raises(CorruptStoreError, match="Delete the file to begin a new one"):
        rebuild_directory(directory, StoreConfig(), FakeClock())
    assert set(before) <= set(directory.rglob("*"))
    epochs.unlink()
    assert rebuild_directory(directory, StoreConfig(), FakeClock()).messages == 240


def test_a_missing_first_segment_is_reported(directory: Path) -> None:
    store = DiskStore(directory, CONFIG, FakeClock(), host="here")
    topic = store.create_topic("orders")
    for _ in range(100):
        store.append(bytearray(encode_record(Record("orders", bytes(3000)))), topic.topic_id, 0)
    store.close()
    segments = sorted((directory / "commitlog").glob("0*"))
    assert len(segments) > 2
    segments[0].unlink()
    assert [finding.offset for finding in verify_directory(directory).findings][:1] == [0]
    with pytest.raises(CorruptStoreError, match="the segment is missing"):
        DiskStore(directory, CONFIG, FakeClock())
    with pytest.raises(StorageError, match="cannot be changed"):
        DiskStore(directory, StoreConfig(segment_bytes=1 << 20, max_record_bytes=4096), FakeClock())


def test_a_truncated_segment_is_reported(directory: Path) -> None:
    segment = min((directory / "commitlog").glob("0*"))
    for size in (1000, 0):
        with segment.open("r+b") as file:
            file.truncate(size)
        findings = verify_directory(directory).findings
        assert any(finding.path == str(segment) and finding.offset <= size for finding in findings)


def test_every_damaged_record_but_each_truncated_file_once(directory: Path) -> None:
    segment = min((directory / "commitlog").glob("0*"))
    data = bytearray(segment.read_bytes())
    for position in (5000, 9000, 15000):
        data[position] ^= 4
    segment.write_bytes(data)
    queue = min((directory / "consumequeue" / "orders" / "0").glob("0*"))
    queue.write_bytes(queue.read_bytes()[:480])
    findings = verify_directory(directory).findings
    assert len([finding for finding in findings if finding.path == str(segment)]) == 3
    (of_queue,) = [finding for finding in findings if finding.path == str(queue)]
    assert of_queue.offset == 480


def test_the_tail_after_a_damaged_record_is_kept(directory: Path, caplog: pytest.LogCaptureFixture) -> None:
    store = DiskStore(directory, CONFIG, FakeClock(), host="here")
    appended = None
    for number in range(20):
        appended = store.append(bytearray(encode_record(Record("orders", b"%d" % number * 20))), 16, 0)
    assert appended is not None
    store.wait_confirmed(appended.end)
    flushed = store._parts.files._checkpoints.latest
    assert flushed is not None
    store.abandon()
    segment = min((directory / "commitlog").glob("0*"))
    data = bytearray(segment.read_bytes())
    at = flushed.flushed + 700
    data[at] ^= 1
    segment.write_bytes(data)
    assert verify_directory(directory).above_checkpoint_bytes > 0
    again = DiskStore(directory, CONFIG, FakeClock(), host="here")
    assert "bytes after it to" in caplog.text
    (kept,) = directory.glob("cut-off-*")
    assert kept.read_bytes() == bytes(data[int(kept.name[8:]) : appended.end]).rstrip(b"\0")
    again.abandon()


def test_an_index_keeps_the_settings_it_was_created_with(directory: Path) -> None:
    rebuild_directory(directory, StoreConfig(), FakeClock())
    store = DiskStore(directory, CONFIG, FakeClock(), host="here")
    store.append(bytearray(encode_record(Record("orders", b"new", "m-new", keys=("k-3",)))), 16, 0)
    store.wait_confirmed(store._log.end)
    assert [stored.record.message_id for stored in store.find("orders", "k-3", 2)] == ["m-new", "m-233"]
    store.close()
    assert verify_directory(directory).findings == []
