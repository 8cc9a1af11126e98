"""Both table formats: a batch is committed once, despite repeated and concurrent commits."""

import os
import time
from pathlib import Path

import pyarrow as pa
import pytest

from litemq.errors import CheckpointMismatchError, InvalidArgumentError
from litemq.spark.tables.layout import MESSAGES
from litemq.spark.tables.opening import TableFormat, create_table, open_table
from litemq.spark.tables.table import Table
from support.archived import rows, written

DAY_S = 86_400


@pytest.fixture(params=["delta", "parquet"])
def kind(request: pytest.FixtureRequest) -> TableFormat:
    chosen: TableFormat = request.param
    return chosen


@pytest.fixture
def table(kind: TableFormat, tmp_path: Path) -> Table:
    return create_table(str(tmp_path / "lake"), kind)


def paths(table: Table) -> set[str]:
    return {file.path for file in open_table(table.folder.location).files()}


def test_a_batch_is_added_once(table: Table) -> None:
    files = written(table.folder.location, rows("orders", 0, range(10)))
    assert table.last_batch("app") is None
    assert table.append(files, "app", 0)
    again = written(table.folder.location, rows("orders", 0, range(10)))
    assert not table.append(again, "app", 0)
    assert paths(table) == {file.path for file in files}
    assert open_table(table.folder.location).last_batch("app") == 0


def test_an_older_batch_is_known_too_and_another_application_has_its_own(table: Table) -> None:
    location = table.folder.location
    assert table.append(written(location, rows("orders", 0, range(10))), "app", 7)
    assert not table.append(written(location, rows("orders", 0, range(5))), "app", 6)
    assert table.append(written(location, rows("orders", 1, range(5))), "other", 0)
    assert len(paths(table)) == 2


def test_an_empty_batch_counts_as_one(table: Table) -> None:
    assert table.append([], "app", 3)
    assert not table.append([], "app", 3)
    assert open_table(table.folder.location).last_batch("app") == 3


def test_one_who_was_away_does_not_add_what_another_has_added(table: Table) -> None:
    """A driver that was assumed dead commits a batch that its successor has already committed."""
    location = table.folder.location
    late = open_table(location)
    assert table.append(written(location, rows("orders", 0, range(10))), "app", 0)
    assert not late.append(written(location, rows("orders", 0, range(10))), "app", 0)
    assert len(paths(table)) == 1


def test_others_may_commit_in_between(table: Table) -> None:
    location = table.folder.location
    late = open_table(location)
    assert table.append(written(location, rows("orders", 0, range(10))), "app", 0)
    assert late.append(written(location, rows("orders", 1, range(10))), "other", 0)
    assert len(paths(table)) == 2


def test_an_application_that_must_be_alone_is_not_added_to_the_rows_of_another(table: Table) -> None:
    """Two archives with their own checkpoints begin with the same empty table."""
    location = table.folder.location
    late = open_table(location)
    assert table.append(written(location, rows("orders", 0, range(10))), "app", 0, alone=True)
    with pytest.raises(CheckpointMismatchError, match="another archive"):
        late.append(written(location, rows("orders", 0, range(10))), "other", 0, alone=True)
    assert table.append(written(location, rows("orders", 0, range(10, 20))), "app", 1, alone=True)
    assert len(paths(table)) == 2


def test_a_tables_files_have_the_statistics_that_were_written(table: Table) -> None:
    files = written(
        table.folder.location, rows("orders", 3, range(5, 10), broker="b"), rows("orders", 4, range(2), broker="b")
    )
    table.append(files, "app", 0)
    (found,) = open_table(table.folder.location).files()
    assert found == files[0]
    assert found.rows == 7
    assert dict(found.least) == {
        "broker": "b",
        "queue_id": 3,
        "queue_offset": 0,
        "store_timestamp": "2023-11-15T12:00:00.000Z",
    }
    assert dict(found.most) == {
        "broker": "b",
        "queue_id": 4,
        "queue_offset": 9,
        "store_timestamp": "2023-11-15T12:00:00.004Z",
    }
    assert dict(found.partition) == {"topic": "orders", "store_date": "2023-11-15", "store_hour": "12"}
    assert found.size == (Path(table.folder.location) / found.path).stat().st_size


def test_files_of_a_partition(table: Table) -> None:
    location = table.folder.location
    table.append(written(location, rows("orders", 0, range(3)), rows("payments", 0, range(3))), "app", 0)
    found = open_table(location).files({"topic": "orders", "store_hour": "12"})
    assert [file.partition["topic"] for file in found] == ["orders"]
    assert open_table(location).files({"topic": "nobody"}) == []


def test_files_are_replaced_once(table: Table) -> None:
    location = table.folder.location
    for batch in range(3):
        table.append(written(location, rows("orders", 0, range(batch * 10, batch * 10 + 10))), "app", batch)
    old = table.files()
    late = open_table(location)
    new = written(location, rows("orders", 0, range(30)))
    assert table.replace(old, new)
    assert not late.replace(old, written(location, rows("orders", 0, range(30))))
    assert paths(table) == {file.path for file in new}
    assert open_table(location).last_batch("app") == 2


def test_appending_goes_on_while_files_are_replaced(table: Table) -> None:
    location = table.folder.location
    table.append(written(location, rows("orders", 0, range(10))), "app", 0)
    old = table.files()
    open_table(location).append(written(location, rows("orders", 0, range(10, 20))), "app", 1)
    assert table.replace(old, written(location, rows("orders", 0, range(10))))
    assert sum(file.rows for file in open_table(location).files()) == 20


def test_vacuum_takes_what_no_version_names_any_more(table: Table) -> None:
    location = table.folder.location
    table.append(written(location, rows("orders", 0, range(10))), "app", 0)
    old = table.files()
    new = written(location, rows("orders", 0, range(10)))
    table.replace(old, new)
    left_over = written(location, rows("orders", 0, range(10)))
    assert table.vacuum(DAY_S, dry_run=False) == []  # a reader may still use them, or a writer commit them
    two_days_ago = time.time() - 2 * DAY_S
    os.utime(Path(location) / left_over[0].path, (two_days_ago, two_days_ago))
    os.utime(Path(location) / old[0].path, (two_days_ago, two_days_ago))  # written long ago, but replaced just now
    assert [Path(path).name for path in table.vacuum(DAY_S, dry_run=True)] == [Path(left_over[0].path).name]
    assert [Path(path).name for path in table.vacuum(DAY_S, dry_run=False)] == [Path(left_over[0].path).name]
    assert not (Path(location) / left_over[0].path).exists()
    table.vacuum(0, dry_run=False)
    assert not (Path(location) / old[0].path).exists()
    assert (Path(location) / new[0].path).exists()


def test_many_versions_are_read_as_one(kind: TableFormat, tmp_path: Path) -> None:
    table = create_table(str(tmp_path / "lake"), kind)
    files = written(
        table.folder.location, *(rows("orders", 0, range(n, n + 1), at_ms=n * 3_600_000) for n in range(20))
    )
    for batch in range(120):
        assert table.append(files[batch : batch + 1], "app", batch)
    table.replace(files[:2], [])
    fresh = open_table(table.folder.location)
    assert sorted(fresh.files(), key=lambda one: one.path) == sorted(files[2:], key=lambda one: one.path)
    assert fresh.last_batch("app") == 119
    table.vacuum(0, dry_run=False)
    assert len(open_table(table.folder.location).files()) == 18
    assert open_table(table.folder.location).last_batch("app") == 119


def test_a_table_that_is_there_is_opened_and_stays_the_same(table: Table, kind: TableFormat) -> None:
    assert create_table(table.folder.location, kind).identity() == table.identity()
    assert open_table(table.folder.location).identity() == table.identity()


def test_a_table_of_another_kind_is_refused(table: Table, kind: TableFormat) -> None:
    with pytest.raises(InvalidArgumentError, match="already exists; choose another location"):
        create_table(table.folder.location, "parquet" if kind == "delta" else "delta")


def test_no_table(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgumentError, match="no table yet"):
        open_table(str(tmp_path))


def test_other_columns_are_refused(tmp_path: Path, kind: TableFormat) -> None:
    from litemq.spark.tables.layout import TableLayout

    create_table(str(tmp_path), kind, TableLayout(pa.schema([("a", pa.int64()), ("topic", pa.string())]), ("topic",)))
    with pytest.raises(InvalidArgumentError, match=r"another layout|other columns"):
        create_table(str(tmp_path), kind, MESSAGES)


def test_a_plain_table_needs_a_local_folder() -> None:
    with pytest.raises(InvalidArgumentError, match="choose the format delta"):
        create_table("s3://bucket/lake", "parquet")


def test_a_missing_manifest_is_noticed(tmp_path: Path) -> None:
    table = create_table(str(tmp_path), "parquet")
    for batch in range(3):
        table.append([], "app", batch)
    (tmp_path / "_batches" / f"{1:020d}.json").unlink()
    with pytest.raises(InvalidArgumentError, match="version 1 is missing"):
        open_table(str(tmp_path))
