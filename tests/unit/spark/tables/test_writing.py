"""Files of a task: one per topic and hour, sorted, with every row unchanged."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from litemq.spark.schema import MESSAGE_SCHEMA
from litemq.spark.tables import writing
from litemq.spark.tables.folder import TableFolder
from litemq.spark.tables.opening import create_table
from litemq.spark.tables.reading import queue_batches, queue_files, queue_row_groups
from support.archived import HOUR_MS, NOON_MS, rows, written


def read_back(location: Path, broker: str, queue_id: int, begin: int, end: int, topic: str = "orders") -> pa.Table:
    table = create_table(str(location), "parquet")
    found = [
        batch
        for file in queue_files(table, topic, broker, queue_id, begin, end)
        for batch in queue_batches(table.folder, file, broker, queue_id, begin, end)
    ]
    return pa.Table.from_batches(found, MESSAGE_SCHEMA)


def test_every_row_comes_back_as_it_was(tmp_path: Path) -> None:
    table = create_table(str(tmp_path), "parquet")
    first, second = rows("orders", 0, range(50)), rows("orders", 1, range(70, 90))
    table.append(written(str(tmp_path), first, second), "app", 0)
    assert read_back(tmp_path, "broker-a", 0, 0, 50) == first.select(MESSAGE_SCHEMA.names)
    assert read_back(tmp_path, "broker-a", 1, 0, 100) == second.select(MESSAGE_SCHEMA.names)
    assert read_back(tmp_path, "broker-a", 1, 75, 80)["queue_offset"].to_pylist() == list(range(75, 80))
    assert read_back(tmp_path, "broker-b", 1, 0, 100).num_rows == 0
    assert read_back(tmp_path, "broker-a", 0, 0, 50, "payments").num_rows == 0


def test_a_file_has_one_topic_and_one_hour(tmp_path: Path) -> None:
    files = written(
        str(tmp_path),
        rows("orders", 0, range(6), at_ms=NOON_MS - 2, step_ms=1),
        rows("orders", 1, range(6), at_ms=NOON_MS - 3, step_ms=1),
        rows("payments", 0, range(2)),
    )
    found = {(file.partition["topic"], file.partition["store_hour"]): file.rows for file in files}
    assert found == {("orders", "11"): 5, ("orders", "12"): 7, ("payments", "12"): 2}
    for file in files:
        keys = pq.read_table(
            tmp_path / file.path, columns=["broker", "queue_id", "queue_offset"], partitioning=None
        ).to_pylist()
        assert keys == sorted(keys, key=lambda row: (row["broker"], row["queue_id"], row["queue_offset"]))
        assert (
            Path(file.path)
            .parent.as_posix()
            .startswith(f"topic={file.partition['topic']}/store_date=2023-11-15/store_hour=")
        )


def test_midnight_begins_a_day(tmp_path: Path) -> None:
    midnight = NOON_MS + 12 * HOUR_MS
    files = written(str(tmp_path), rows("orders", 0, range(2), at_ms=midnight - 1))
    assert [(file.partition["store_date"], file.partition["store_hour"]) for file in files] == [
        ("2023-11-15", "23"),
        ("2023-11-16", "0"),
    ]


def test_few_files_are_open_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writing, "_OPEN_FILES", 3)
    files = written(
        str(tmp_path), *(rows("orders", queue, range(8), at_ms=NOON_MS, step_ms=HOUR_MS) for queue in range(2))
    )
    assert len(files) == 16
    assert sum(file.rows for file in files) == 16


def test_what_is_buffered_becomes_row_groups(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writing, "_ROW_GROUP_BYTES", 1)
    (file,) = written(str(tmp_path), *(rows("orders", queue, range(8)) for queue in range(4)))
    with pq.ParquetFile(tmp_path / file.path) as parquet:
        assert parquet.num_row_groups == 4
        assert queue_row_groups(parquet, "broker-a", 2, 0, 8) == [2]
        assert queue_row_groups(parquet, "broker-b", 2, 0, 8) == []
        assert queue_row_groups(parquet, "broker-a", 2, 8, 9) == []


def test_the_largest_is_flushed_when_all_are_too_much(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writing, "_BUFFERED_BYTES", 1)
    files = written(
        str(tmp_path), rows("orders", 0, range(4), step_ms=HOUR_MS), rows("orders", 1, range(4), step_ms=HOUR_MS)
    )
    for file in files:
        with pq.ParquetFile(tmp_path / file.path) as parquet:
            assert (parquet.num_row_groups, file.rows) == (2, 2)


def test_a_file_is_never_written_over(tmp_path: Path) -> None:
    folder = TableFolder(str(tmp_path))
    with folder.new_file("a/b.parquet") as stream:
        stream.write(b"1")
    with pytest.raises(FileExistsError), folder.new_file("a/b.parquet"):
        pass


@pytest.mark.parametrize("location", ["file:///data/la%20ke", "/data/la ke", "/data/la ke/"])
def test_a_local_folder(location: str) -> None:
    assert TableFolder(location).local == Path("/data/la ke")
