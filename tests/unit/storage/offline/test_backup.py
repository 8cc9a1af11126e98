"""Backups: each one opens and verifies, later ones copy only what is new."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner

from litemq.cli.main import app
from litemq.clock import FakeClock
from litemq.errors import CorruptStoreError, InvalidArgumentError, StorageError, StoreLockedError
from litemq.storage.disk_store import DiskStore
from litemq.storage.files.lock import DirectoryLock
from litemq.storage.log.checkpoint import Checkpoint
from litemq.storage.offline import backup as backing_up
from litemq.storage.offline.backup import back_up
from litemq.storage.offline.backup_folder import BackupFolder
from litemq.storage.offline.restore import restore
from litemq.storage.offline.verify import verify_directory
from litemq.storage.state import QueueKey
from support.stores import CONFIG, open_store, read_bodies, rows_of, send_bodies


@pytest.fixture
def store(tmp_path: Path) -> DiskStore:
    made = open_store(tmp_path / "data")
    made.create_topic("orders", 1)
    return made


def _send(store: DiskStore, first: int, count: int) -> None:
    for number in range(first, first + count):
        send_bodies(store, "orders", [b"%d" % number * 500])
    store.checkpoint()


def _restored(target: Path, directory: Path, name: str | None = None) -> list[int]:
    """Restore a backup; return the numbers of its messages."""
    shutil.rmtree(directory, ignore_errors=True)
    _, rebuilt = restore(target, directory, FakeClock(), name=name)
    assert rebuilt.damage == []
    assert verify_directory(directory).findings == []
    store = open_store(directory)
    bodies = read_bodies(store, "orders", first=store.state.start_offsets.get(QueueKey(16, 0), 0))
    store.close()
    return [int(body[: len(body) // 500]) for body in bodies]


def test_a_backup_of_an_open_store_is_restored(store: DiskStore, tmp_path: Path) -> None:
    _send(store, 0, 100)
    store.commit_offsets("billing", [(QueueKey(16, 0), 7)])
    store.wait_confirmed(store.log_end)
    store.checkpoint()
    done = back_up(tmp_path / "data", tmp_path / "backups", FakeClock())
    assert done.damage == []
    assert done.copied_bytes == done.backup.flushed == store.confirm_offset
    rows = rows_of(store)
    store.close()
    assert _restored(tmp_path / "backups", tmp_path / "restored") == list(range(100))
    again = open_store(tmp_path / "restored")
    changed = [row for row in rows if row not in set(rows_of(again))]
    assert len(changed) == 1  # the end of the control queue: the restored store wrote snapshots
    assert again.state.group_offsets[("billing", QueueKey(16, 0))] == 7
    again.close()


def test_a_later_backup_copies_what_is_new_and_earlier_ones_stay(store: DiskStore, tmp_path: Path) -> None:
    target = tmp_path / "backups"
    names, copied = [], []
    for number in range(4):
        _send(store, 60 * number, 60)
        done = back_up(tmp_path / "data", target, FakeClock())
        names.append(done.backup.name)
        copied.append(done.copied_bytes)
    assert sum(copied) == store.confirm_offset
    assert back_up(tmp_path / "data", target, FakeClock()).copied_bytes == 0
    store.close()
    assert names == sorted(set(names))
    for number, name in enumerate(names, 1):
        assert _restored(target, tmp_path / "restored", name) == list(range(60 * number))


def test_a_log_that_took_another_course_gets_new_files(store: DiskStore, tmp_path: Path) -> None:
    target = tmp_path / "backups"
    _send(store, 0, 60)
    first = back_up(tmp_path / "data", target, FakeClock()).backup.name
    _send(store, 60, 60)
    second = back_up(tmp_path / "data", target, FakeClock()).backup.name
    store.close()
    _, rebuilt = restore(target, tmp_path / "other", FakeClock(), name=first)
    assert rebuilt.messages == 60
    other = open_store(tmp_path / "other")
    _send(other, 1000, 60)
    third = back_up(tmp_path / "other", target, FakeClock()).backup.name
    other.close()
    expected = {first: range(60), second: range(120), third: [*range(60), *range(1000, 1060)]}
    for name, numbers in expected.items():
        assert _restored(target, tmp_path / "restored", name) == list(numbers)


def test_backups_follow_retention(store: DiskStore, tmp_path: Path) -> None:
    target = tmp_path / "backups"
    _send(store, 0, 100)
    back_up(tmp_path / "data", target, FakeClock())
    store.retain(max_bytes=1)
    _send(store, 100, 20)
    done = back_up(tmp_path / "data", target, FakeClock(), keep=1)
    start = store.state.start_offsets[QueueKey(16, 0)]
    store.close()
    assert done.backup.log_start > 0
    assert _restored(target, tmp_path / "restored") == list(range(start, 120))
    assert {path.name for path in (target / "segments").iterdir()} == {each.file for each in done.backup.segments}
    assert len(list((target / "backups").iterdir())) == 1


def test_a_segment_that_retention_removes_meanwhile(
    store: DiskStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _send(store, 0, 100)
    latest = backing_up._latest_checkpoint
    calls: list[int] = []

    def read_then_retain(directory: Path) -> Checkpoint:
        checkpoint = latest(directory)
        if not calls:
            store.retain(max_bytes=1)
        calls.append(checkpoint.log_start)
        return checkpoint

    monkeypatch.setattr(backing_up, "_latest_checkpoint", read_then_retain)
    done = back_up(tmp_path / "data", tmp_path / "backups", FakeClock())
    assert calls[0] == 0 < calls[1] == done.backup.log_start
    monkeypatch.setattr(backing_up, "_latest_checkpoint", lambda directory: latest(directory)._replace(log_start=0))
    with pytest.raises(StorageError, match="faster than they were copied"):
        back_up(tmp_path / "data", tmp_path / "others", FakeClock())
    store.close()


def test_an_interrupted_backup_leaves_the_earlier_ones(
    store: DiskStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = tmp_path / "backups"
    _send(store, 0, 60)
    back_up(tmp_path / "data", target, FakeClock())
    _send(store, 60, 60)

    def stop(*_arguments: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(BackupFolder, "write", stop)
    with pytest.raises(KeyboardInterrupt):
        back_up(tmp_path / "data", target, FakeClock())
    monkeypatch.undo()
    assert _restored(target, tmp_path / "restored") == list(range(60))
    back_up(tmp_path / "data", target, FakeClock())
    assert _restored(target, tmp_path / "restored") == list(range(120))
    store.close()


def test_damage_is_reported(store: DiskStore, tmp_path: Path) -> None:
    _send(store, 0, 100)
    target = tmp_path / "backups"
    segment = tmp_path / "data" / "commitlog" / f"{0:020d}"
    with segment.open("r+b") as file:
        file.seek(5000)
        file.write(b"\xff\xff")
    result = CliRunner().invoke(app, ["store", "backup", str(tmp_path / "data"), str(target), "--format", "json"])
    assert result.exit_code == 1
    report = json.loads(result.stdout)
    assert len(report["damage"]) == 1
    assert report["copied_bytes"] == report["bytes"] == store.confirm_offset
    store.close()
    result = CliRunner().invoke(app, ["store", "restore", str(target), str(tmp_path / "restored")])
    assert result.exit_code == 1
    assert "of topic orders is lost" in result.stdout
    assert "99 messages" in result.stdout
    damaged = next((target / "segments").iterdir())
    with damaged.open("r+b") as file:
        file.seek(9000)
        file.write(b"\xff\xff")
    _, rebuilt = restore(target, tmp_path / "new", FakeClock())
    assert (len(rebuilt.damage), rebuilt.messages) == (2, 98)
    damaged.unlink()
    with pytest.raises(CorruptStoreError, match="the file is missing"):
        restore(target, tmp_path / "newer", FakeClock())
    assert not (tmp_path / "newer").exists()
    assert not (tmp_path / ".newer.restoring").exists()


def test_another_log_of_the_same_age_is_copied_anew(store: DiskStore, tmp_path: Path) -> None:
    target = tmp_path / "backups"
    _send(store, 0, 120)
    first = back_up(tmp_path / "data", target, FakeClock()).backup.name
    store.close()
    shutil.rmtree(tmp_path / "data")
    again = open_store(tmp_path / "data")  # same host, same epoch, and longer than the first
    again.create_topic("orders", 1)
    _send(again, 1000, 200)
    second = back_up(tmp_path / "data", target, FakeClock()).backup.name
    again.close()
    assert _restored(target, tmp_path / "restored", first) == list(range(120))
    assert _restored(target, tmp_path / "restored", second) == list(range(1000, 1200))


@pytest.mark.parametrize("more", [1, 60])
def test_a_restored_log_that_begins_its_epoch_where_the_other_did(store: DiskStore, tmp_path: Path, more: int) -> None:
    target = tmp_path / "backups"
    _send(store, 0, 60)
    first = back_up(tmp_path / "data", target, FakeClock()).backup.name
    store.abandon()  # as a killed broker does
    restore(target, tmp_path / "other", FakeClock(), name=first)
    store = open_store(tmp_path / "data")
    _send(store, 60, more)
    second = back_up(tmp_path / "data", target, FakeClock()).backup.name
    store.close()
    other = open_store(tmp_path / "other")
    _send(other, 1000, 60)
    third = back_up(tmp_path / "other", target, FakeClock()).backup.name
    other.close()
    expected = {first: range(60), second: range(60 + more), third: [*range(60), *range(1000, 1060)]}
    for name, numbers in expected.items():
        assert _restored(target, tmp_path / "restored", name) == list(numbers)


def test_a_folder_is_for_one_broker(tmp_path: Path) -> None:
    for name in ("alpha", "beta"):
        store = DiskStore(tmp_path / name, CONFIG, FakeClock(), broker_name=name)
        store.close()
    back_up(tmp_path / "alpha", tmp_path / "backups", FakeClock())
    with pytest.raises(InvalidArgumentError, match="has backups of broker 'alpha'"):
        back_up(tmp_path / "beta", tmp_path / "backups", FakeClock())


def _truncate(file: Path) -> None:
    with file.open("r+b") as opened:
        opened.truncate(3000)


def _flip(file: Path) -> None:
    with file.open("r+b") as opened:
        opened.seek(30_000)
        opened.write(b"\xff\xff")


@pytest.mark.parametrize("which", [0, -1])
@pytest.mark.parametrize("damage", [_truncate, _flip, Path.unlink])
def test_damaged_files_of_the_folder_are_copied_again(
    store: DiskStore, tmp_path: Path, damage: Callable[[Path], None], which: int
) -> None:
    target = tmp_path / "backups"
    _send(store, 0, 110)
    made = back_up(tmp_path / "data", target, FakeClock()).backup
    assert len(made.segments) > 1
    file = target / "segments" / made.segments[which].file
    damage(file)
    result = CliRunner().invoke(app, ["store", "verify", str(target)])
    assert result.exit_code == 1
    assert f"{file}: byte" in result.stdout
    _send(store, 110, 10)
    done = back_up(tmp_path / "data", target, FakeClock(), keep=1)
    store.close()
    assert [error.path for error in done.replaced] == [str(file)]
    assert _restored(target, tmp_path / "restored") == list(range(120))
    result = CliRunner().invoke(app, ["store", "verify", str(target)])
    assert (result.exit_code, result.stdout) == (0, "1 backup: no damage found\n")


def test_a_damaged_description_stops_no_other_backup(
    store: DiskStore, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    target = tmp_path / "backups"
    _send(store, 0, 60)
    first = back_up(tmp_path / "data", target, FakeClock()).backup
    (target / "backups" / f"{first.name}.json").write_text("{")
    result = CliRunner().invoke(app, ["store", "verify", str(target)])
    assert result.exit_code == 1
    second = back_up(tmp_path / "data", target, FakeClock(), keep=1).backup
    store.close()
    assert "delete its description" in caplog.text
    assert second.name > first.name
    assert {path.name for path in (target / "segments").iterdir()} > {each.file for each in second.segments}
    assert _restored(target, tmp_path / "restored") == list(range(60))


def test_files_of_others_stay(store: DiskStore, tmp_path: Path) -> None:
    target = tmp_path / "backups"
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "mine.txt").write_text("precious")
    _send(store, 0, 10)
    with pytest.raises(InvalidArgumentError, match="is not empty"):
        back_up(tmp_path / "data", tmp_path / "full", FakeClock())
    with pytest.raises(InvalidArgumentError, match="is a file"):
        back_up(tmp_path / "data", tmp_path / "full" / "mine.txt", FakeClock())
    back_up(tmp_path / "data", target, FakeClock())
    (target / "segments" / "mine.txt").write_text("precious")
    back_up(tmp_path / "data", target, FakeClock(), keep=1)
    store.close()
    assert (target / "segments" / "mine.txt").exists()


@pytest.mark.parametrize("content", [b"", bytes(64)])
def test_a_directory_without_epochs_is_refused(store: DiskStore, tmp_path: Path, content: bytes) -> None:
    store.checkpoint()
    (tmp_path / "data" / "epochs").write_bytes(content)
    with pytest.raises(CorruptStoreError, match="no valid epoch"):
        back_up(tmp_path / "data", tmp_path / "backups", FakeClock())
    store.close()


def test_wrong_arguments_are_refused(store: DiskStore, tmp_path: Path) -> None:
    data, target = tmp_path / "data", tmp_path / "backups"
    store.checkpoint()
    with pytest.raises(InvalidArgumentError, match="is inside"):
        back_up(data, data / "backups", FakeClock())
    with pytest.raises(InvalidArgumentError, match="does not exist"):
        back_up(tmp_path / "missing", target, FakeClock())
    with pytest.raises(InvalidArgumentError, match="not a folder of backups"):
        restore(target, tmp_path / "new", FakeClock())
    back_up(data, target, FakeClock())
    with pytest.raises(InvalidArgumentError, match="choose from"):
        restore(target, tmp_path / "new", FakeClock(), name="yesterday")
    with pytest.raises(InvalidArgumentError, match="not empty"):
        restore(target, data, FakeClock())
    with pytest.raises(InvalidArgumentError, match="inside the folder"):
        restore(target, target / "new", FakeClock())
    lock = DirectoryLock(target)
    with pytest.raises(StoreLockedError):
        back_up(data, target, FakeClock())
    lock.release()
    (tmp_path / "empty").mkdir()
    result = CliRunner().invoke(app, ["store", "restore", str(target), str(tmp_path / "empty")])
    assert (result.exit_code, result.exception) == (0, None)
    assert "restored" in result.stdout
    for content, error in (("{}", CorruptStoreError), ('{"version": 2}', StorageError)):
        (target / "backups" / "99999999T000000.000Z.json").write_text(content)
        with pytest.raises(error):
            restore(target, tmp_path / "new", FakeClock())
    store.close()
