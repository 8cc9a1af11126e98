"""Opening a store: the state is the same after every kind of stop."""

import shutil
from collections.abc import Iterable
from pathlib import Path

import pytest

from litemq.proto.control_pb2 import Row
from litemq.storage import opening
from litemq.storage.state import QueueKey
from litemq.storage.state.persistence.database import StateDatabase
from litemq.types import Record
from support.stores import open_store, read_bodies, rows_of, send, send_bodies
from support.waiting import HANG_S


@pytest.mark.parametrize("how", ["close", "crash", "crash after a checkpoint", "crash after a snapshot"])
def test_the_state_is_the_same_after_any_stop(tmp_path: Path, how: str) -> None:
    store = open_store(tmp_path)
    for name in ("orders", "payments", "orders.returned"):
        store.create_topic(name, 3)
    send_bodies(store, "orders", [b"a"] * 7, 1)
    send_bodies(store, "payments", [b"b"] * 3)
    key = QueueKey(store.state.topic_ids["orders"], 1)
    store.commit_offsets("billing", [(key, 3), (QueueKey(store.state.topic_ids["payments"], 0), 1)])
    if how == "crash after a checkpoint":
        store.checkpoint()
    if how == "crash after a snapshot":
        store.snapshot()
        store.checkpoint()
    send_bodies(store, "orders", [b"c"] * 2, 1)
    store.commit_offsets("billing", [(key, 8)])
    store.delete_topic("payments")
    recreated = store.create_topic("payments", 2)
    appended = store.commit_offsets("audit", [(key, 1)])
    store.wait_confirmed(appended.end, HANG_S)
    if how == "close":
        store.snapshot()
    expected = list(store.state.rows())
    store.close() if how == "close" else store.abandon()
    again = open_store(tmp_path)
    rows = list(again.state.rows())
    if how == "close":
        # Closing wrote another snapshot; its records are entries of the control queue, too.
        rows, expected = ([row for row in some if row.queue.topic_id != 1] for some in (rows, expected))
    assert rows == expected
    assert again.state.group_offsets["billing", key] == 8
    assert recreated.topic_id > key.topic_id
    # A topic that is created again continues its offsets.
    assert send_bodies(again, "payments", [b"d"]).queue_offsets.tolist() == [3]
    assert read_bodies(again, "orders", 1) == [b"a"] * 7 + [b"c"] * 2
    again.close()


def test_the_database_is_used_or_rebuilt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = open_store(tmp_path / "one")
    send(store, [Record("orders", bytes(10))] * 5, queues=2)
    store.commit_offsets("billing", [(QueueKey(16, 0), 2)])
    store.checkpoint()
    old = tmp_path / "old.db"
    shutil.copy(tmp_path / "one" / "state.db", old)
    shutil.copy(tmp_path / "one" / "state.db-wal", tmp_path / "old.db-wal")
    send(store, [Record("orders", bytes(10))] * 3, 1)
    store.wait_confirmed(store.commit_offsets("audit", [(QueueKey(16, 1), 1)]).end)
    expected = rows_of(store)
    store.checkpoint()
    store.abandon()

    replaced: list[int] = []
    create = StateDatabase.create

    def counted(path: Path) -> StateDatabase:
        replaced.append(1)
        return create(path)

    monkeypatch.setattr(StateDatabase, "create", counted)
    for version in ("as it is", "old", "gone", "damaged", "of a longer log"):
        folder = tmp_path / "another"
        shutil.copytree(tmp_path / "one", folder)
        database = folder / "state.db"
        match version:
            case "old":
                shutil.copy(old, database)
                shutil.copy(tmp_path / "old.db-wal", folder / "state.db-wal")
            case "gone":
                database.unlink()
            case "damaged":
                database.write_bytes(database.read_bytes()[:-300] + bytes(300))
            case "of a longer log":
                opened = StateDatabase(database)
                opened.commit(1 << 40, [])
                opened.close()
        replaced.clear()
        again = open_store(folder)
        assert rows_of(again) == expected, version
        assert bool(replaced) == (version in {"gone", "damaged", "of a longer log"}), version
        again.abandon()
        shutil.rmtree(folder)


def test_a_long_replay_stores_the_state_on_its_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(opening, "_STATE_BATCH_BYTES", 1)  # after each window
    store = open_store(tmp_path)
    store.create_topic("orders", 1)
    for _ in range(60):
        send_bodies(store, "orders", [bytes(1000)] * 3)
    expected = rows_of(store)
    store.abandon()
    (tmp_path / "state.db").unlink()
    applied: list[int] = []
    commit = StateDatabase.commit

    def note(database: StateDatabase, offset: int, rows: Iterable[tuple[bytes, Row]]) -> None:
        applied.append(offset)
        if len(applied) == 3:
            raise KeyboardInterrupt  # the process ends while it opens the store
        commit(database, offset, rows)

    monkeypatch.setattr(StateDatabase, "commit", note)
    with pytest.raises(KeyboardInterrupt):
        open_store(tmp_path)
    assert 0 == applied[0] < applied[1] < applied[2]
    monkeypatch.setattr(StateDatabase, "commit", commit)
    again = open_store(tmp_path)
    assert rows_of(again) == expected
    again.close()
