"""``StateDatabase``: committed rows are loaded again, and damage is detected."""

import shutil
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from litemq.errors import CorruptStoreError
from litemq.proto.control_pb2 import GroupOffset, ProducerRuns, Queue, Row, Topic
from litemq.storage.state.persistence.database import StateDatabase, StoredState
from litemq.storage.state.persistence.rows import row_key


def _rows(count: int, length: int = 7) -> list[tuple[bytes, Row]]:
    rows = [Row(topic=Topic(topic_id=16, name="orders", queues=count))]
    rows += [Row(queue=Queue(topic_id=16, queue_id=n, least=n, next=n + length)) for n in range(count)]
    rows += [Row(group_offset=GroupOffset(group=f"group-{n}", topic_id=16, queue_id=n, offset=n)) for n in range(count)]
    return [(row_key(row), row) for row in rows]


def _load(path: Path) -> StoredState | None:
    database = StateDatabase(path)
    try:
        return database.load()
    finally:
        database.close()


def _content(stored: StoredState | None) -> tuple[int, list[bytes]] | None:
    return (
        None
        if stored is None
        else (stored.applied, sorted(row.SerializeToString(deterministic=True) for row in stored.rows))
    )


def test_committed_rows_are_loaded_again(tmp_path: Path) -> None:
    database = StateDatabase(tmp_path / "state.db")
    assert database.load() is None
    database.commit(100, _rows(1200))
    database.commit(200, _rows(3, length=9))
    database.commit(300, [])
    expected = dict(_rows(1200)) | dict(_rows(3, length=9))
    stored = database.load()
    assert stored is not None
    assert stored.applied == 300
    assert {row_key(row): row for row in stored.rows} == expected
    database.close()
    assert _content(_load(tmp_path / "state.db")) == _content(stored)


@given(st.lists(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 1 << 40)), max_size=8), max_size=6))
def test_the_account_matches_the_rows(
    tmp_path_factory: pytest.TempPathFactory, commits: list[list[tuple[int, int]]]
) -> None:
    folder = tmp_path_factory.mktemp("state")
    database = StateDatabase(folder / "state.db")
    expected: dict[bytes, Row] = {}
    for number, commit in enumerate(commits):
        rows = {row_key(row): row for row in (Row(queue=Queue(topic_id=16, queue_id=q, next=n)) for q, n in commit)}
        database.commit(number, rows.items())
        expected |= rows
    stored = database.load()
    assert ({} if stored is None else {row_key(row): row for row in stored.rows}) == expected
    database.close()
    shutil.rmtree(folder)


def test_a_gone_row_is_deleted(tmp_path: Path) -> None:
    database = StateDatabase(tmp_path / "state.db")
    rows = [Row(producer_runs=ProducerRuns(producer_id=n, topic_id=16, first=0, lengths=[1])) for n in range(700)]
    database.commit(100, [(row_key(row), row) for row in rows])
    gone = [Row(producer_runs=ProducerRuns(producer_id=n, topic_id=16, first=0)) for n in range(10, 1000)]
    database.commit(200, [(row_key(row), row) for row in gone])
    stored = database.load()
    assert stored is not None
    assert list(stored.rows) == rows[:10]
    database.close()


def test_a_failed_commit_leaves_the_previous_one(tmp_path: Path) -> None:
    database = StateDatabase(tmp_path / "state.db")
    database.commit(100, _rows(2))
    before = _content(database.load())
    with pytest.raises(ValueError, match="unknown kind"):
        database.commit(200, ((row_key(row), row) for row in [Row(queue=Queue(topic_id=1, next=5)), Row()]))
    with pytest.raises(AttributeError):
        database.commit(200, [(b"q", None)])  # type: ignore[list-item]
    assert _content(database.load()) == before
    database.commit(200, [])
    database.close()


def test_every_flipped_byte_is_detected_or_harmless(tmp_path: Path) -> None:
    database = StateDatabase(tmp_path / "state.db")
    database.commit(100, _rows(8))
    database.commit(200, _rows(4, length=11))
    expected = _content(database.load())
    database.close()
    whole = (tmp_path / "state.db").read_bytes()
    noticed = 0
    flipped = tmp_path / "flipped" / "state.db"
    for position in range(len(whole)):
        flipped.parent.mkdir()
        data = bytearray(whole)
        data[position] ^= 1 << position % 8
        flipped.write_bytes(data)
        try:
            found = _content(_load(flipped))
        except CorruptStoreError:
            noticed += 1
        else:
            assert found in (expected, None), f"byte {position}"
        shutil.rmtree(flipped.parent)
    assert noticed > 500


def test_every_power_cut_leaves_an_earlier_commit(tmp_path: Path) -> None:
    """A commit is not synced: any prefix of the WAL may be on disk, with garbage after it."""
    database = StateDatabase(tmp_path / "state.db")
    versions: list[tuple[int, list[bytes]] | None] = [None]
    for number in range(1, 7):
        database.commit(number, _rows(number, length=number))
        versions.append(_content(database.load()))
    names = ("state.db", "state.db-wal")
    main, log = ((tmp_path / name).read_bytes() for name in names)
    database.close()
    seen = set()
    for cut in [*range(0, len(log), 97), len(log)]:
        for tail in (b"", bytes(len(log) - cut), log[::-1][: len(log) - cut]):
            directory = tmp_path / "cut"
            directory.mkdir()
            (directory / "state.db").write_bytes(main)
            (directory / "state.db-wal").write_bytes(log[:cut] + tail)
            found = _content(_load(directory / "state.db"))
            assert found in versions
            seen.add(versions.index(found))
            shutil.rmtree(directory)
    assert seen == set(range(7))


def test_a_file_that_is_no_database_is_corrupt(tmp_path: Path) -> None:
    (tmp_path / "state.db").write_bytes(b"not a database at all" * 100)
    with pytest.raises(CorruptStoreError, match="SQLite"):
        StateDatabase(tmp_path / "state.db")
    empty = StateDatabase.create(tmp_path / "state.db")
    assert empty.load() is None
    empty.close()
