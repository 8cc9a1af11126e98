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
from litemq.storage.files.disk import DISK
from litemq.storage.log.checkpoint import CheckpointFile
from litemq.storage.offline.rebuild import rebuild_directory
from litemq.storage.offline.verify import verify_directory
from litemq.storage.state import QueueKey
from litemq.types import Record, RecordKind
from support.stores import read_bodies

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
    assert "skipped 1 damaged record\n" in result.stdout


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
    with pytest.raises(StorageError, match=rf"cannot be changed: .* with `--file-size {CONFIG.segment_bytes}` \("):
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


def _damage_record(directory: Path, kind: RecordKind, *, header: bool = False, last: bool = True) -> int:
    """Flip a bit in the body of the last or first record of a kind, or in its header."""
    segment = min((directory / "commitlog").glob("0*"))
    data, at, found = bytearray(segment.read_bytes()), 0, []
    while data[at : at + 4] != bytes(4):
        stored = decode_record(data, at)
        if stored.stamp is not None and stored.stamp.kind is kind:
            found.append((at, stored.size))
        at += stored.size
    at, size = found[-1 if last else 0]
    data[at + 20 if header else at + size - 9] ^= 1
    segment.write_bytes(data)
    return at


def _lose_state(directory: Path) -> None:
    """Remove ``state.db`` and the checkpoint's snapshot: an opening replays the whole log."""
    for path in directory.glob("state.db*"):
        path.unlink()
    checkpoints = CheckpointFile(DISK, directory / "checkpoint")
    assert checkpoints.latest is not None
    checkpoints.write(checkpoints.latest._replace(snapshot=-1, queues_applied=0))


@pytest.fixture
def crashed(tmp_path: Path) -> Path:
    """A store without a snapshot, stopped by a crash."""
    store = DiskStore(tmp_path / "data", CONFIG, FakeClock(), host="here")
    topic = store.create_topic("orders", 1)
    for number in range(30):
        store.append(bytearray(encode_record(Record("orders", b"body", f"m-{number}"))), topic.topic_id, 0)
    store.commit_offsets("billing", [(QueueKey(topic.topic_id, 0), 7)])
    store.wait_confirmed(store.log_end)
    store.checkpoint()
    store.abandon()
    return tmp_path / "data"


@pytest.mark.parametrize("is_rebuilt", [False, True])
@pytest.mark.parametrize("last", [False, True])
def test_a_damaged_message_is_a_hole_when_the_state_is_replayed(
    crashed: Path, caplog: pytest.LogCaptureFixture, *, is_rebuilt: bool, last: bool
) -> None:
    _damage_record(crashed, RecordKind.MESSAGE, last=last)
    _lose_state(crashed)
    if is_rebuilt:
        done = rebuild_directory(crashed, StoreConfig(), FakeClock())
        lost = f"message {29 if last else 0} of queue 0 of topic orders is lost"
        assert [error.reason for error in done.damage] == [f"producer-crc: {lost}"]
        assert done.messages == 29
    store = DiskStore(crashed, CONFIG, FakeClock(), host="here")
    key = QueueKey(16, 0)
    assert store.state.end_offsets[key] == 30
    with pytest.raises(CorruptStoreError):
        store.read_queue(key, 29 if last else 0, 1)
    assert store.append(bytearray(encode_record(Record("orders", b"new"))), 16, 0).queue_offsets.tolist() == [30]
    store.close()
    again = DiskStore(crashed, CONFIG, FakeClock(), host="here")
    with pytest.raises(CorruptStoreError, match=r"producer-crc|lost"):
        again.read_queue(key, 29 if last else 0, 1)
    again.close()
    assert "rebuilding the queues" not in caplog.text  # the hole is known, also after a restart


@pytest.mark.parametrize("header", [False, True])
def test_a_damaged_change_is_refused_unless_its_loss_is_accepted(crashed: Path, *, header: bool) -> None:
    at = _damage_record(crashed, RecordKind.CONTROL, header=header)  # the committed offset
    _lose_state(crashed)
    with pytest.raises(CorruptStoreError, match="litemq store rebuild"):
        DiskStore(crashed, CONFIG, FakeClock(), host="here")
    before = {path: path.read_bytes() for path in crashed.rglob("*") if path.is_file() and "state" not in path.name}
    refused = CliRunner().invoke(app, ["store", "rebuild", str(crashed)])
    assert refused.exit_code == 1
    assert f"byte {at}: " in refused.stderr
    assert "add --accept-loss" in str(refused.exception)
    unchanged = {path for path in before if path.exists() and path.read_bytes() == before[path]}
    assert set(before) - unchanged <= {crashed / "checkpoint", crashed / "epochs", crashed / "lock"}
    assert not (crashed / ".rebuild").exists()
    accepted = CliRunner().invoke(app, ["store", "rebuild", str(crashed), "--accept-loss", "--format", "json"])
    assert accepted.exit_code == 1
    assert [damage["offset"] for damage in json.loads(accepted.stdout)["damage"]] == [at]
    for _ in range(2):  # also when state.db is lost later
        store = DiskStore(crashed, CONFIG, FakeClock(), host="here")
        assert store.state.end_offsets[QueueKey(16, 0)] == 30
        assert store.state.group_offsets == {}
        store.close()
        for path in crashed.glob("state.db*"):
            path.unlink()


def test_a_topic_whose_creation_is_lost_is_restored_from_its_messages(crashed: Path) -> None:
    _damage_record(crashed, RecordKind.CONTROL, last=False)
    _lose_state(crashed)
    rebuild_directory(crashed, StoreConfig(), FakeClock(), accept_loss=True)
    store = DiskStore(crashed, CONFIG, FakeClock(), host="here")
    topic = store.state.topic("orders")
    assert topic is not None
    assert topic.queues == 1
    assert len(read_bodies(store, "orders")) == 30
    store.close()


def test_a_damaged_snapshot_is_replaced_by_an_earlier_one(directory: Path) -> None:
    for _ in range(2):
        store = DiskStore(directory, CONFIG, FakeClock(), host="here")
        store.close()  # each writes a snapshot
    for path in directory.glob("state.db*"):
        path.unlink()
    expected = _content_of_copy(directory)
    _damage_record(directory, RecordKind.CONTROL)  # the end of the latest snapshot
    with pytest.raises(CorruptStoreError, match="a change of topics"):  # it might be one
        _content(directory)
    rebuild_directory(directory, StoreConfig(), FakeClock(), accept_loss=True)
    assert _content(directory) == expected


def _content_of_copy(directory: Path) -> tuple[list[bytes], list[list[int]], list[str]]:
    copy = directory.parent / "copy"
    shutil.copytree(directory, copy)
    return _content(copy)


def test_the_old_files_serve_until_the_new_ones_are_complete(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = _content_of_copy(directory)

    def stop(*_arguments: object, **_named: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("litemq.storage.offline.rebuild._swap", stop)
    with pytest.raises(KeyboardInterrupt):
        rebuild_directory(directory, StoreConfig(), FakeClock())
    monkeypatch.undo()
    assert not (directory / ".rebuild").exists()
    assert _content(directory) == expected


@pytest.mark.parametrize("moved", range(1, 8))
def test_a_rebuild_that_is_killed_while_it_swaps(directory: Path, moved: int, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = _content_of_copy(directory)
    renames: list[Path] = []

    class Killed(BaseException):
        pass

    def rename(old: Path, new: Path) -> None:
        if len(renames) == moved:
            raise Killed
        renames.append(old)
        old.rename(new)

    monkeypatch.setattr(DISK, "rename", rename)
    with pytest.raises(Killed):
        rebuild_directory(directory, StoreConfig(), FakeClock())
    monkeypatch.undo()
    assert _content(directory) == expected
