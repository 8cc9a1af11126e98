"""Compaction: every row is kept, in order, and only past hours are changed."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from litemq.spark.pipelines import compaction
from litemq.spark.pipelines.compaction import GroupMerger, groups_to_merge
from litemq.spark.schema import MESSAGE_SCHEMA
from litemq.spark.tables.folder import TableFolder
from litemq.spark.tables.layout import TableFile, hour_partition
from litemq.spark.tables.opening import create_table
from litemq.spark.tables.reading import queue_batches, queue_files
from litemq.spark.tables.writing import Codec
from support.archived import NOON_MS, rows, written

MIB = 1 << 20
NOON = NOON_MS // 3_600_000


def small(path: str, size: int, hour: int = NOON, topic: str = "orders") -> TableFile:
    return TableFile(path, size, 1, hour_partition(topic, hour), {"store_timestamp": path}, {})


def test_hours_that_are_over_are_joined_and_the_current_one_is_not() -> None:
    files = [small("a", MIB), small("b", MIB), small("c", MIB, NOON + 1), small("d", MIB, NOON + 1)]
    groups = groups_to_merge(files, 16 * MIB, (NOON + 1) * 3600 + 5)
    assert [[file.path for file in group] for group in groups] == [["a", "b"]]


def test_the_hours_of_a_day_come_in_their_order_and_not_in_that_of_their_names() -> None:
    ten = NOON - 2
    files = [small("a", 1, ten - 1), small("b", 1, ten - 1), small("c", 1, ten), small("d", 1, ten)]
    assert len(groups_to_merge(files, 16 * MIB, ten * 3600)) == 1  # nine is before ten
    assert groups_to_merge(files, 16 * MIB, (ten - 1) * 3600) == []


def test_large_files_and_single_ones_stay() -> None:
    files = [small("a", 15 * MIB), small("b", MIB), small("c", MIB, topic="payments"), small("d", MIB, NOON - 1)]
    assert groups_to_merge(files, 16 * MIB, (NOON + 1) * 3600) == []


def test_a_group_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    files = [small(f"{number:02}", 10 * MIB) for number in range(20)]
    groups = groups_to_merge(files, 16 * MIB, (NOON + 1) * 3600)
    assert [len(group) for group in groups] == [6, 6, 6, 2]
    monkeypatch.setattr(compaction, "_GROUP_FILES", 4)
    assert [len(group) for group in groups_to_merge(files, 16 * MIB, (NOON + 1) * 3600)] == [4] * 5
    assert [file for group in groups for file in group] == files


@pytest.mark.parametrize("target_bytes", [None, 1])
def test_joined_files_have_every_row_once_in_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, target_bytes: int | None
) -> None:
    monkeypatch.setattr(compaction, "_ROWS_AT_ONCE", 7)
    table = create_table(str(tmp_path), "parquet")
    whole = {("a", 0): rows("orders", 0, range(60), broker="a"), ("a", 3): rows("orders", 3, range(60), broker="a")}
    whole["b", 0] = rows("orders", 0, range(60), broker="b")
    for batch, (begin, end) in enumerate([(40, 60), (0, 15), (15, 40)]):
        table.append(written(str(tmp_path), *(one.slice(begin, end - begin) for one in whole.values())), "app", batch)
    old = table.files()
    new = GroupMerger(TableFolder(str(tmp_path)), Codec(), target_bytes or 256 * MIB)(old)
    assert len(new) == 1 if target_bytes is None else len(new) > 1
    keys = pa.concat_tables(
        pq.read_table(tmp_path / file.path, columns=["broker", "queue_id", "queue_offset"], partitioning=None)
        for file in new
    )
    assert keys.to_pylist() == sorted(keys.to_pylist(), key=lambda row: tuple(row.values()))
    assert table.replace(old, new)
    for (broker, queue_id), expected in whole.items():
        found = [
            batch
            for file in queue_files(table, "orders", broker, queue_id, 0, 60)
            for batch in queue_batches(table.folder, file, broker, queue_id, 0, 60)
        ]
        assert pa.Table.from_batches(found, MESSAGE_SCHEMA) == expected.select(MESSAGE_SCHEMA.names)


def test_a_task_that_fails_takes_its_files_back(tmp_path: Path) -> None:
    files = written(str(tmp_path), rows("orders", 0, range(10)))
    missing = TableFile("topic=orders/none.parquet", 1, 1, files[0].partition)
    with pytest.raises(FileNotFoundError):
        GroupMerger(TableFolder(str(tmp_path)), Codec(), MIB)([*files, missing])
    assert [path.name for path in tmp_path.rglob("*.parquet")] == [Path(files[0].path).name]
