"""Baseline source ``litemq-struct-loop``: reads the same rows as ``litemq-log``."""

from pathlib import Path

from litemq.bench.baselines.struct_loop import StructLoopSource
from litemq.bench.workloads.spark_data import Rows, fill_topic, open_log
from litemq.spark.log.options import LogOptions
from litemq.spark.log.planning import plan_parts
from litemq.spark.log.reading import Damage, RowSelection, read_part
from litemq.spark.schema import MESSAGE_SCHEMA


def test_the_loop_and_the_columns_read_the_same_rows(tmp_path: Path) -> None:
    store = open_log(tmp_path)
    fill_topic(store, Rows("rows", 300, 512))
    store.close()
    source = StructLoopSource({"path": str(tmp_path), "parts": "100"})
    reader = source.reader(source.schema())
    looped = [
        dict(zip(MESSAGE_SCHEMA.names, row, strict=True)) for part in reader.partitions() for row in reader.read(part)
    ]

    names = (
        "message_id",
        "topic",
        "queue_id",
        "queue_offset",
        "tags",
        "keys",
        "body",
        "born_timestamp",
        "commitlog_offset",
        "size",
    )
    decoded = []
    for part in plan_parts(LogOptions((str(tmp_path),))):
        for batch in read_part(part, RowSelection(names)):
            assert not isinstance(batch, Damage)
            decoded += batch.to_pylist()
    assert len(looped) == 300
    assert [{name: row[name] for name in names} for row in looped] == decoded
