"""Reading a data directory without a lock: confirmed records, topics, and damage by position."""

from pathlib import Path

import pytest

from litemq.errors import CorruptStoreError, InvalidArgumentError, StorageError
from litemq.storage.log.epochs import EpochFile
from litemq.storage.log.reader import read_log
from litemq.storage.offline.directory_reader import DirectoryReader
from litemq.storage.state import QueueKey
from litemq.types import Record
from support.stores import bytes_of, open_store, send

MANY = [Record("orders", b"x" * 1000, f"m-{n}") for n in range(200)]


def _count(reader: DirectoryReader) -> int:
    return sum(len(window.columns) for window in read_log(reader, reader.start, reader.confirmed))


def test_confirmed_records_are_read_beside_the_writer(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    send(store, MANY)
    store.checkpoint()
    before = bytes_of(tmp_path)
    reader = DirectoryReader(tmp_path)
    assert reader.confirmed == store.confirm_offset
    assert _count(reader) == len(MANY) + 1
    assert bytes_of(tmp_path) == before
    send(store, MANY)
    assert _count(reader) == len(MANY) + 1
    store.close()
    assert _count(DirectoryReader(tmp_path)) > 2 * len(MANY)


def test_a_new_directory_is_empty(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    reader = DirectoryReader(tmp_path)
    assert (reader.start, reader.confirmed, _count(reader)) == (0, 0, 0)
    assert list(reader.state().topics) == list(store.state.topics)
    store.close()


@pytest.mark.parametrize("how", ["without a snapshot", "with a snapshot", "with records after it", "after retention"])
def test_topics_and_start_offsets(tmp_path: Path, how: str) -> None:
    store = open_store(tmp_path)
    send(store, MANY)
    send(store, [Record("gone")])
    store.delete_topic("gone")
    if how != "without a snapshot":
        store.snapshot()
    if how == "with records after it":
        store.create_topic("late", 7)
    if how == "after retention":
        assert store.retain(max_bytes=100_000) > 0
    store.wait_confirmed(store.snapshot() if how == "after retention" else store._log.end)
    store.checkpoint()
    reader = DirectoryReader(tmp_path)
    state = reader.state()
    assert state.topics == store.state.topics
    for key in store.state.end_offsets:
        assert state.start_offsets.get(key, 0) == store.state.start_offsets[key]
    assert (reader.start > 0) == (state.start_offsets.get(QueueKey(16, 0), 0) > 0) == (how == "after retention")
    store.close()


def test_hosts_of_epochs(tmp_path: Path) -> None:
    for host in ("one", "two"):
        open_store(tmp_path, host=host).close()
    reader = DirectoryReader(tmp_path)
    assert [reader.host(epoch) for epoch in (1, 2)] == ["one", "two"]
    with pytest.raises(CorruptStoreError, match="no entry for epoch 3"):
        reader.host(3)


def _directory(path: Path) -> Path:
    store = open_store(path)
    send(store, MANY)
    store.close()
    return path


@pytest.mark.parametrize("name", ["checkpoint", "epochs"])
def test_missing_files_are_reported(tmp_path: Path, name: str) -> None:
    (_directory(tmp_path) / name).unlink()
    with pytest.raises(CorruptStoreError) as caught:
        DirectoryReader(tmp_path)
    assert (caught.value.path, caught.value.reason) == (str(tmp_path / name), "the file is missing")
    assert not (tmp_path / name).exists()


def test_without_a_valid_checkpoint_nothing_is_confirmed(tmp_path: Path) -> None:
    (_directory(tmp_path) / "checkpoint").write_bytes(bytes(8192))
    with pytest.raises(CorruptStoreError, match="neither slot is valid"):
        DirectoryReader(tmp_path)


def test_damaged_epochs_are_reported(tmp_path: Path) -> None:
    for _ in range(2):
        open_store(tmp_path).close()
    raw = bytearray((tmp_path / "epochs").read_bytes())
    assert len(raw) == 2 * EpochFile.ENTRY_BYTES
    raw[10] ^= 1
    (tmp_path / "epochs").write_bytes(raw)
    with pytest.raises(CorruptStoreError, match="checksum mismatch in an epoch"):
        DirectoryReader(tmp_path)


def test_a_missing_or_truncated_log_is_damage(tmp_path: Path) -> None:
    segments = sorted((_directory(tmp_path) / "commitlog").iterdir())
    last = segments[-1].read_bytes()
    segments[-1].write_bytes(last[:1000])
    with pytest.raises(CorruptStoreError) as caught:
        _count(DirectoryReader(tmp_path))
    assert caught.value.path == str(segments[-1])
    segments[-1].write_bytes(last)
    segments[1].rename(tmp_path / "aside")
    with pytest.raises(CorruptStoreError) as caught:
        _count(DirectoryReader(tmp_path))
    assert (caught.value.path, caught.value.offset) == (str(segments[0]), 69_632)
    for path in (tmp_path / "commitlog").iterdir():
        path.unlink()
    with pytest.raises(CorruptStoreError, match="the log is missing"):
        DirectoryReader(tmp_path)


def test_a_segment_dropped_during_a_read_is_reported(tmp_path: Path) -> None:
    first = min((_directory(tmp_path) / "commitlog").iterdir())
    reader = DirectoryReader(tmp_path)
    first.unlink()
    with pytest.raises(StorageError, match="retention removed"):
        _count(reader)


def test_a_log_without_its_beginning_needs_a_snapshot(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    send(store, MANY)
    store.checkpoint()
    min((tmp_path / "commitlog").iterdir()).unlink()
    with pytest.raises(CorruptStoreError, match="the checkpoint has no snapshot"):
        DirectoryReader(tmp_path).state()
    store.abandon()


def test_an_invalid_snapshot_is_reported(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    send(store, MANY)
    store._parts.files.projections = store._parts.files.projections._replace(
        snapshot=0
    )  # the record that creates the topic
    store.checkpoint()
    with pytest.raises(CorruptStoreError, match="expected the begin of a snapshot, found topic_created") as caught:
        DirectoryReader(tmp_path).state()
    assert caught.value.offset == 0
    begin = store.snapshot()
    store._parts.files.projections = store._parts.files.projections._replace(snapshot=begin)
    store.checkpoint()
    reader = DirectoryReader(tmp_path)
    reader._checkpoint = reader._checkpoint._replace(
        confirmed=begin + reader.segment_of(begin).read(begin, begin + 4)[3]
    )
    with pytest.raises(CorruptStoreError, match="ends inside the snapshot"):
        reader.state()
    store.close()


def test_a_missing_snapshot_is_reported(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    store.snapshot()
    send(store, MANY)
    store.checkpoint()
    (tmp_path / "commitlog" / f"{0:020d}").unlink()
    with pytest.raises(CorruptStoreError, match="the segment is missing") as caught:
        DirectoryReader(tmp_path).state()
    assert (caught.value.path, caught.value.offset) == (str(tmp_path / "commitlog"), 0)
    store.abandon()


@pytest.mark.parametrize("name", ["checkpoint", "commitlog/00000000000000000000"])
def test_an_unreadable_path_is_reported(tmp_path: Path, name: str) -> None:
    path = _directory(tmp_path) / name
    path.unlink()
    path.symlink_to(path)
    with pytest.raises(InvalidArgumentError, match=f"cannot read {path}: Too many levels"):
        _count(DirectoryReader(tmp_path))


def test_only_a_data_directory_is_read(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for path, reason in (
        (tmp_path, "not a data directory"),
        (tmp_path / "missing", "does not exist"),
        (tmp_path / "file", "is a file"),
    ):
        with pytest.raises(InvalidArgumentError, match=reason):
            DirectoryReader(path)
