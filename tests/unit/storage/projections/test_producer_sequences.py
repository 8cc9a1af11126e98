"""Producer sequences survive every kind of stop, and never include unconfirmed records."""

import shutil
from pathlib import Path

import pytest

from litemq.clock import FakeClock
from litemq.errors import StoreFailedError
from litemq.format.record_encode import encode_record
from litemq.storage.config import StoreConfig
from litemq.storage.disk_store import DiskStore
from litemq.storage.files.disk import DISK, Disk, OpenFile
from litemq.storage.offline.rebuild import rebuild_directory
from litemq.storage.offline.verify import verify_directory
from litemq.storage.state import State
from litemq.storage.state.persistence.database import StateDatabase
from litemq.storage.store import Appended
from litemq.types import Record
from support.waiting import HANG_S

BY_HAND = StoreConfig(
    segment_bytes=1 << 20, max_record_bytes=65536, index_slots=100, index_entries=1000, checkpoint_interval_ms=0
)
HOUR_S = 3600


def _open(folder: Path, clock: FakeClock, disk: Disk = DISK) -> DiskStore:
    return DiskStore(folder, BY_HAND, clock, disk=disk, host="here")


def _send(store: DiskStore, producer_id: int, sequences: range, queue: int = 0, topic: str = "orders") -> Appended:
    facts = store.create_topic(topic, 4)
    records = [Record(topic, bytes(10), producer_id=producer_id, sequence=n) for n in sequences]
    return store.append(bytearray(b"".join(map(encode_record, records))), facts.topic_id, queue)


def _rows(store: DiskStore) -> list[bytes]:
    return [row.SerializeToString(deterministic=True) for row in store.state.rows()]


def _sequences(state: State) -> list[bytes]:
    return [row.SerializeToString(deterministic=True) for row in state.producers.rows()]


def _work(store: DiskStore, clock: FakeClock, rounds: range) -> None:
    """Write many runs; fill and drop pages, expire pairs, delete and re-create a topic."""
    for number in rounds:
        for n in range(15 * number, 15 * number + 15):
            clock.advance(0.001)
            _send(store, 1, range(n, n + 1))
            _send(store, 2, range(2 * n, 2 * n + 2), n % 2)  # every other batch leaves a gap
        _send(store, 3, range(number, number + 1), 2)
        if number % 20 == 7:
            _send(store, 100 + number, range(3), 2)
            _send(store, 100 + number, range(3), 0, "returned")
            clock.advance(60 * HOUR_S)
        if number % 20 == 15:
            store.delete_topic("returned")
    store.wait_confirmed(_send(store, 99, range(rounds.stop, rounds.stop + 1), 3).end)


def test_sequences_are_the_same_after_any_stop(tmp_path: Path) -> None:
    clock = FakeClock()
    store = _open(tmp_path / "one", clock)
    _work(store, clock, range(40))
    store.checkpoint()
    for name in ("state.db", "state.db-wal"):
        shutil.copy(tmp_path / "one" / name, tmp_path / name)
    _work(store, clock, range(40, 80))
    store.snapshot()
    store.checkpoint()
    _work(store, clock, range(80, 120))
    store.checkpoint()
    _work(store, clock, range(120, 130))
    expected, known = _rows(store), _sequences(store.state)
    assert len(store.state.producers) > 3
    assert len(known) > 17  # a pair with all its pages
    store.abandon()
    for version in ("as it is", "old", "gone", "all but the log is gone", "damaged"):
        folder = tmp_path / "another"
        shutil.copytree(tmp_path / "one", folder)
        database = folder / "state.db"
        match version:
            case "old":
                for name in ("state.db", "state.db-wal"):
                    shutil.copy(tmp_path / name, folder / name)
            case "gone":
                database.unlink()
            case "all but the log is gone":
                database.unlink()
                (folder / "checkpoint").unlink()
            case "damaged":
                database.write_bytes(database.read_bytes()[:-300] + bytes(300))
        again = _open(folder, clock)
        assert _rows(again) == expected, version
        # The replay updated the database: loading the database alone gives the same state.
        again.checkpoint()
        again.abandon()
        assert _stored(folder) == known, version
        assert verify_directory(folder).findings == []
        rebuild_directory(folder, BY_HAND, clock)
        assert verify_directory(folder).findings == []
        assert _stored(folder) == known
        shutil.rmtree(folder)


def _stored(folder: Path) -> list[bytes]:
    database = StateDatabase(folder / "state.db")
    stored = database.load()
    database.close()
    assert stored is not None
    return _sequences(State.from_rows(stored.rows))


class StuckDisk(Disk):
    """A disk that, once stuck, syncs nothing of the log."""

    stuck = False

    def fsync(self, file: OpenFile) -> None:
        if self.stuck and file.path.parent.name == "commitlog":
            raise OSError(5, "Input/output error")
        super().fsync(file)


def test_the_database_never_includes_unconfirmed_records(tmp_path: Path) -> None:
    clock = FakeClock()
    store = _open(tmp_path / "one", clock)
    store.wait_confirmed(_send(store, 7, range(100)).end)
    confirmed = store.confirm_offset
    known = _sequences(store.state)
    # Nothing is confirmed from here on: the database is committed as of the last confirmed offset.
    clock.advance(0.001)
    _send(store, 7, range(100, 150))
    _send(store, 8, range(5))
    store._parts.state_writer.commit(confirmed)
    assert store._parts.state_writer.applied == confirmed
    assert store.state.producers.expected((7, 16, 0)) == 150
    store.abandon()
    assert _stored(tmp_path / "one") == known


def test_lost_records_are_not_in_the_sequences(tmp_path: Path) -> None:
    clock, disk = FakeClock(), StuckDisk()
    store = _open(tmp_path / "one", clock, disk)
    store.wait_confirmed(_send(store, 7, range(100)).end)
    store.checkpoint()
    disk.stuck = True
    lost = _send(store, 7, range(100, 150))
    with pytest.raises(StoreFailedError):
        store.wait_confirmed(lost.end, HANG_S)
    store.abandon()
    # A power cut: unsynced bytes are lost.
    segment = min((tmp_path / "one" / "commitlog").glob("0*"))
    with segment.open("r+b") as file:
        file.seek(int(lost.log_offsets[0]))
        file.write(bytes(lost.end - int(lost.log_offsets[0])))
    again = _open(tmp_path / "one", clock)
    assert again.state.producers.expected((7, 16, 0)) == 100
    assert again.state.producers.receipt((7, 16, 0), 100) is None
    assert _send(again, 7, range(100, 101)).queue_offsets.tolist() == [100]
    again.close()
