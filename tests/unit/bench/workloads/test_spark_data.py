"""Rows of the Spark suite: their number, size and variety."""

from pathlib import Path

from litemq.bench.workloads.spark_data import Rows, fill_topic, open_log
from litemq.spark.log.options import LogOptions
from litemq.spark.log.planning import plan_parts
from litemq.spark.log.reading import Damage, RowSelection, read_part


def test_rows_as_they_are_said(tmp_path: Path) -> None:
    store = open_log(tmp_path)
    fill_topic(store, Rows("rows", 2500, 1024))
    store.close()
    rows = []
    for part in plan_parts(LogOptions((str(tmp_path),))):
        for found in read_part(part, RowSelection(("body", "queue_id", "size"))):
            assert not isinstance(found, Damage)
            rows += found.to_pylist()
    assert len(rows) == len({row["body"] for row in rows}) == 2500
    assert {row["queue_id"] for row in rows} == {0, 1, 2}
    assert 950 < sum(row["size"] for row in rows) / 2500 < 1100
