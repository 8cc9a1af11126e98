"""What is derived from the log is made anew, the same; what is damaged in the log is left out and named."""

import json
import shutil
from pathlib import Path

import pytest
from typer.testing import CliRunner

from litemq.cli.main import app
from litemq.clock import FakeClock
from litemq.errors import CorruptStoreError, InvalidArgumentError, StoreLockedError
from litemq.format.record import decode_record, encode_record
from litemq.storage.config import StoreConfig
from litemq.storage.disk_store import DiskStore
from litemq.storage.rebuild import rebuild_directory
from litemq.storage.state import QueueKey
from litemq.storage.verify import verify_directory
from litemq.types import Record

CONFIG = StoreConfig(segment_bytes=69_632, max_record_bytes=4096, index_slots=50, index_entries=100, checkpoint_interval_ms=0)


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
    """The state but for the control queue, the numbers in each queue, and what is found by a key."""
    store = DiskStore(directory, CONFIG, FakeClock(), host="here")
    rows = [row.SerializeToString(deterministic=True) for row in store.state.rows() if row.queue.topic_id != 1]
    queues = []
    for queue in range(3):
        key = QueueKey(16, queue)
        numbers, at = [], 0
        while at < store.state.next[key]:
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


def test_everything_comes_back_the_same(directory: Path, tmp_path: Path) -> None:
    shutil.copytree(directory, tmp_path / "copy")
    expected = _content(tmp_path / "copy")
    steps: list[tuple[int, int]] = []
    done = rebuild_directory(directory, StoreConfig(), FakeClock(), replayed=lambda *step: steps.append(step))
    assert (done.topics, done.queues, done.messages, done.damage) == (1, 3, 240, [])
    assert steps[-1][0] == steps[-1][1] > 0
    assert verify_directory(directory).findings == []
    assert _content(directory) == expected


def test_a_damaged_record_is_left_out_and_named_and_its_neighbours_keep_their_place(directory: Path) -> None:
    expected = [list(range(queue, 240, 3)) for queue in range(3)]
    segment = min((directory / "commitlog").glob("0*"))
    data = bytearray(segment.read_bytes())
    data[5000] ^= 4
    segment.write_bytes(data)
    result = CliRunner().invoke(app, ["store", "rebuild", str(directory), "--format", "json"])
    assert result.exit_code == 1
    told = json.loads(result.stdout)
    assert [(Path(damage["path"]), 0 <= 5000 - damage["offset"] < 600) for damage in told["damage"]] == [(segment, True)]
    assert told["messages"] == 240
    _, queues, _ = _content(directory)
    lost = [(queue, at) for queue in range(3) for at in range(80) if queues[queue][at] != expected[queue][at]]
    assert len(lost) == 1
    assert queues[lost[0][0]][lost[0][1]] == -1
    result = CliRunner().invoke(app, ["store", "rebuild", str(directory)])
    assert result.exit_code == 1
    assert "1 records are damaged" in result.stdout


def test_what_cannot_be_rebuilt_says_why(directory: Path, tmp_path: Path) -> None:
    with pytest.raises(InvalidArgumentError, match="no data directory"):
        rebuild_directory(tmp_path / "missing", StoreConfig(), FakeClock())
    store = DiskStore(directory, CONFIG, FakeClock(), host="here")
    before = sorted(path for path in directory.rglob("*"))
    with pytest.raises(StoreLockedError):
        rebuild_directory(directory, StoreConfig(), FakeClock())
    assert sorted(path for path in directory.rglob("*")) == before
    store.abandon()
