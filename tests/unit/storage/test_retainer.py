"""Retention beside other writers: what arrives meanwhile is kept, and damage does not stop it."""

import logging
from pathlib import Path

import pytest

from litemq.clock import FakeClock
from litemq.errors import CorruptStoreError, DiskFullError
from litemq.format.record_encode import encode_record
from litemq.proto.control_pb2 import Control, TryFailed
from litemq.storage.disk_store import DiskStore
from litemq.storage.half_copier import HalfCopier
from litemq.storage.retainer import Retainer
from litemq.storage.state import QueueKey, retry_topic
from litemq.storage.state.transactions.halves import sink_transaction
from litemq.storage.store_parts import StoreParts
from litemq.types import Record
from support.filling_disk import FillingDisk
from support.quick_disk import QuickDisk
from support.stores import CONFIG, send_blank


def _open(directory: Path) -> DiskStore:
    return DiskStore(directory, CONFIG, FakeClock(), disk=QuickDisk(), host="here")


def _fill(store: DiskStore) -> None:
    for _ in range(6):
        send_blank(store, 10, 3000)


def _fail(store: DiskStore, predecessor: int) -> None:
    retry = store.system_topic(retry_topic("billing"))
    failed = TryFailed(
        group="billing", topic_id=16, predecessor=predecessor, due=5, count=1, retry_topic_id=retry.topic_id
    )
    store.append_control(Control(try_failed=failed))


def test_a_retry_that_arrives_while_retention_prepares_is_carried(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = _open(tmp_path)
    (first,) = send_blank(store, 1)
    _fill(store)
    copy_before = HalfCopier.copy_before
    cuts: list[int] = []

    def fail_then_copy(copier: HalfCopier, log_start: int) -> None:
        copy_before(copier, log_start)
        if not cuts:
            _fail(store, first)
        cuts.append(log_start)

    monkeypatch.setattr(HalfCopier, "copy_before", fail_then_copy)
    start = store.retain(max_bytes=100_000)
    assert store.kept_from == start > first
    ((predecessor, group, _),) = store.state.parts.tries
    assert (group, store.read_record(predecessor).record.message_id) == ("billing", "m-0")
    assert predecessor >= start
    store.close()


def test_a_batch_that_is_committed_while_retention_prepares_is_published(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = _open(tmp_path)
    topic = store.create_topic("orders", 1)
    name = sink_transaction("q", 0, 0, 0)
    halves = [encode_record(Record("orders", bytes(100), f"h-{number}", transaction_id=name)) for number in range(3)]
    store.append_halves(bytearray(b"".join(halves)), topic.topic_id, 0, name, 0)
    _fill(store)
    before = store.state.end_offsets[QueueKey(topic.topic_id, 0)]
    copy_before = HalfCopier.copy_before
    rounds: list[int] = []

    def copy_then_commit(copier: HalfCopier, log_start: int) -> None:
        copy_before(copier, log_start)
        if not rounds:
            store.commit_sink("q", 0, lambda _state: {(0, 0): name})
        rounds.append(log_start)

    monkeypatch.setattr(HalfCopier, "copy_before", copy_then_commit)
    assert store.retain(max_bytes=100_000) > 0
    assert len(rounds) == 2
    assert store.state.end_offsets[QueueKey(topic.topic_id, 0)] == before + 3
    store.close()


def test_a_damaged_record_that_waits_for_a_retry_does_not_stop_retention(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    store = _open(tmp_path)
    damaged, sound = send_blank(store, 2)
    for offset in (damaged, sound):
        _fail(store, offset)
    _fill(store)
    segment = tmp_path / "commitlog" / f"{0:020d}"
    data = bytearray(segment.read_bytes())
    data[sound - 5] ^= 1  # in the body of the first record
    segment.write_bytes(data)
    with caplog.at_level(logging.ERROR):
        first = store.retain(max_bytes=100_000)
    assert "whose records cannot be read: 1" in caplog.text
    assert [store.read_record(at).record.message_id for at, _, _ in store.state.parts.tries] == ["m-1"]
    _fill(store)
    assert store.retain(max_bytes=100_000) > first
    store.close()


def test_retention_of_a_replica_waits_for_the_repair_of_a_record(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = _open(tmp_path)
    offset, end = send_blank(store, 2)
    _fail(store, offset)
    _fill(store)
    segment = tmp_path / "commitlog" / f"{0:020d}"
    intact = segment.read_bytes()
    damaged = bytearray(intact)
    damaged[end - 5] ^= 1
    monkeypatch.setattr(StoreParts, "is_replica", True)
    segment.write_bytes(damaged)
    with pytest.raises(CorruptStoreError):
        store.retain(max_bytes=100_000)
    assert len(store.damage) == 1
    segment.write_bytes(intact)
    store.retain(max_bytes=100_000)
    store.wait_confirmed(store.log_end)
    assert [store.read_record(at).record.message_id for at, _, _ in store.state.parts.tries] == ["m-0"]
    assert min(at for at, _, _ in store.state.parts.tries) > offset, "a copy at the end of the log"
    store.close()


def test_a_retry_whose_record_an_earlier_version_lost_does_not_stop_retention(tmp_path: Path) -> None:
    store = _open(tmp_path)
    send_blank(store, 1)
    _fill(store)
    first = store.retain(max_bytes=100_000)
    _fail(store, 96)  # below the start of the log
    _fill(store)
    assert store.retain(max_bytes=100_000) > first
    assert list(store.state.parts.tries) == []
    store.close()


@pytest.mark.parametrize("is_first_of_segment", [False, True])
def test_a_damaged_header_does_not_stop_retention(tmp_path: Path, *, is_first_of_segment: bool) -> None:
    clock = FakeClock()
    store = DiskStore(tmp_path, CONFIG, clock, disk=QuickDisk(), host="here")
    for _ in range(8):
        send_blank(store, 10, 3000)
        clock.advance(60)
    # The last record of the first segment, or the first of the second, which tells the age.
    key = QueueKey(16, 0)
    log_offsets = store.read_entries(key, 0, 80)["log_offset"].tolist()
    first_in_second = next(number for number, offset in enumerate(log_offsets) if offset >= 69_632)
    damaged = first_in_second - (not is_first_of_segment)
    segment = tmp_path / "commitlog" / f"{69_632 * is_first_of_segment:020d}"
    with segment.open("r+b") as file:
        file.seek(log_offsets[damaged] % 69_632 + 20)
        file.write(b"\xff" * 24)
    assert store.retain(older_than_ms=clock.wall_ms() - 300_000) == 69_632
    assert store.state.start_offsets[key] == first_in_second
    assert store.retain(max_bytes=1) > 69_632
    store.close()


def test_the_disk_is_watched_although_retention_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    disk = FillingDisk(10 * 69_632)
    store = DiskStore(tmp_path, CONFIG, FakeClock(), disk=disk, host="here")
    _fill(store)

    def fail(*_arguments: object, **_named: object) -> int:
        raise CorruptStoreError("somewhere", 0, "damaged")

    monkeypatch.setattr(Retainer, "retain", fail)
    disk.folder, disk.others = tmp_path, 7 * 69_632
    store._maintenance.watch_disk()
    with pytest.raises(DiskFullError, match=r"messages are refused from .*: free disk space"):
        send_blank(store, 1)
    store.close()
