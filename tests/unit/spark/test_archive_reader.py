"""Archive reader: the original records, in order, each once, for any layout of files."""

from __future__ import annotations

import random
import subprocess
import sys
import tempfile
import tomllib
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from litemq.client.consuming.archive_reading import ArchivedRecords, ArchiveRequest
from litemq.client.engine.selection import Selection
from litemq.errors import ArchiveUnreadableError
from litemq.format.arrow.batches import decode_batches
from litemq.format.messages import decode_messages
from litemq.format.record_encode import encode_record
from litemq.spark.archive_reader import OffsetRange, TableArchive
from litemq.spark.schema import BROKER, MESSAGE_SCHEMA
from litemq.spark.tables.layout import TableFile
from litemq.spark.tables.opening import TableFormat, create_table
from litemq.types import Record, RecordKind
from support.archived import HOUR_MS, NOON_MS, rows, stored_records, written
from support.records import RECORDS, STAMPS

FORMATS = pytest.mark.parametrize("kind", ["delta", "parquet"])
TOPIC_ID = 9


def _wanted(begin: int = 0, end: int = 1 << 40, **more: Any) -> ArchiveRequest:
    wanted = ArchiveRequest("broker-a", 0, TOPIC_ID, begin, end, 1 << 20, Selection())
    return wanted._replace(**more)


def _offsets(portions: list[ArchivedRecords]) -> list[int]:
    return [message.queue_offset for portion in portions for message in decode_messages(portion.records)]


def _raw(portions: list[ArchivedRecords]) -> bytes:
    return b"".join(portion.records for portion in portions)


@FORMATS
def test_a_queue_comes_back_bit_for_bit(kind: TableFormat, tmp_path: Path) -> None:
    location = str(tmp_path / "lake")
    table = create_table(location, kind)
    expected = stored_records("orders", 0, range(300), step_ms=HOUR_MS // 60)
    whole = rows("orders", 0, range(300), step_ms=HOUR_MS // 60)
    for batch, (begin, end) in enumerate([(0, 40), (40, 41), (41, 300)]):
        others = rows("orders", 1, range(begin * 2, end * 3)), rows("orders", 0, range(500), broker="broker-b")
        table.append(written(location, whole.slice(begin, end - begin), *others), "app", batch)
    table.append(written(location, rows("others", 0, range(300))), "app", 9)
    archive = TableArchive(location, "orders")
    portions = list(archive.read(_wanted(max_bytes=10_000)))
    assert _raw(portions) == expected
    assert all(first.next == second.begin for first, second in pairwise(portions))
    assert (portions[0].begin, portions[-1].next) == (0, 300)
    assert max(len(portion.records) for portion in portions) <= 10_000
    part = list(archive.read(_wanted(33, 77)))
    assert _offsets(part) == list(range(33, 77))
    assert [len(decode_messages(portion.records)) for portion in archive.read(_wanted(7, 9, max_bytes=1))] == [1, 1]
    assert list(archive.read(_wanted(300))) == []
    assert list(archive.read(_wanted(broker="broker-c"))) == []


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(RECORDS, STAMPS), min_size=1, max_size=30), st.data())
def test_any_records_come_back_bit_for_bit(records: list[tuple[Record, Any]], data: st.DataObject) -> None:
    """Also if files hold several ranges, and if the ranges of two files interleave."""
    raw = [
        encode_record(
            record._replace(topic="orders"),
            stamp._replace(
                queue_offset=offset,
                queue_id=0,
                topic_id=TOPIC_ID,
                kind=RecordKind.MESSAGE,
                store_timestamp=NOON_MS + offset,
            ),
        )
        for offset, (record, stamp) in enumerate(records)
    ]
    batch = pa.Table.from_batches(decode_batches(b"".join(raw)))
    whole = batch.append_column(MESSAGE_SCHEMA.field(BROKER), pa.array(["broker-a"] * batch.num_rows))
    file_of = [data.draw(st.integers(0, 3)) for _ in raw]
    with tempfile.TemporaryDirectory() as made:
        table = create_table(made, "parquet")
        for number in set(file_of):
            table.append(written(made, whole.filter(pa.array([each == number for each in file_of]))), "app", number)
        archive = TableArchive(made, "orders")
        assert _raw(list(archive.read(_wanted()))) == b"".join(raw)


@FORMATS
def test_what_the_table_lacks_is_passed_by_in_the_open(kind: TableFormat, tmp_path: Path) -> None:
    location = str(tmp_path / "lake")
    table = create_table(location, kind)
    table.append(written(location, rows("orders", 0, range(10, 20)), rows("orders", 1, range(40))), "app", 0)
    table.append(written(location, rows("orders", 0, range(25, 30))), "app", 1)
    portions = list(TableArchive(location, "orders").read(_wanted()))
    assert [(portion.begin, portion.next) for portion in portions] == [(10, 20), (25, 30)]


@FORMATS
def test_what_is_committed_while_it_is_read_is_found(kind: TableFormat, tmp_path: Path) -> None:
    location = str(tmp_path / "lake")
    table = create_table(location, kind)
    table.append(written(location, rows("orders", 0, range(10))), "app", 0)
    portions = TableArchive(location, "orders").read(_wanted())
    assert next(portions).next == 10
    table.append(written(location, rows("orders", 0, range(10, 20))), "app", 1)
    assert next(portions).next == 20


@FORMATS
def test_files_that_are_compacted_while_they_are_read(kind: TableFormat, tmp_path: Path) -> None:
    location = str(tmp_path / "lake")
    table = create_table(location, kind)
    for batch in range(3):
        table.append(written(location, rows("orders", 0, range(batch * 10, batch * 10 + 10))), "app", batch)
    portions = TableArchive(location, "orders").read(_wanted(max_bytes=1000))
    taken = [next(portions)]
    old = table.files({"topic": "orders"})
    assert table.replace(old, written(location, rows("orders", 0, range(30))))
    for file in old:
        (tmp_path / "lake" / file.path).unlink()
    taken += portions
    assert _offsets(taken) == list(range(30))


def test_it_takes_no_spark_and_is_what_the_package_names() -> None:
    """The distribution's entry point works without pyspark."""
    root = Path(__file__).parents[3]
    named = tomllib.loads((root / "pyproject.toml").read_text())["project"]["entry-points"]["litemq.archives"]["table"]
    module, _, name = named.partition(":")
    program = f"import sys; sys.modules['pyspark'] = None; import {module}; assert {module}.{name}"
    subprocess.run([sys.executable, "-c", program], check=True)


def test_a_deleted_topic_of_the_same_name_is_another(tmp_path: Path) -> None:
    location = str(tmp_path / "lake")
    table = create_table(location, "parquet")
    table.append(written(location, rows("orders", 0, range(10))), "app", 0)
    assert list(TableArchive(location, "orders").read(_wanted(topic_id=TOPIC_ID + 1))) == []


def test_filters_choose_as_brokers_do(tmp_path: Path) -> None:
    location = str(tmp_path / "lake")
    table = create_table(location, "parquet")
    table.append(written(location, rows("orders", 0, range(20))), "app", 0)
    archive = TableArchive(location, "orders")
    assert _offsets(list(archive.read(_wanted(selection=Selection("paid || other"))))) == list(range(20))
    (nothing,) = archive.read(_wanted(selection=Selection("other")))
    assert nothing == ArchivedRecords(0, 20, b"")
    (some,) = archive.read(_wanted(selection=Selection("region = 'eu' AND keys = 'k-7'", is_sql=True)))
    assert (some.begin, some.next, _offsets([some])) == (0, 20, [7])


def test_what_has_expired_is_left_out_for_those_who_ask(tmp_path: Path) -> None:
    location = str(tmp_path / "lake")
    table = create_table(location, "parquet")
    table.append(written(location, rows("orders", 0, range(20), step_ms=1000)), "app", 0)
    archive = TableArchive(location, "orders")
    (some,) = archive.read(_wanted(alive_at=NOON_MS + 15_000, ttl_ms=5_000))
    assert (some.expired, some.next, _offsets([some])) == (11, 20, list(range(11, 20)))
    (everything,) = archive.read(_wanted(ttl_ms=5_000))
    assert everything.expired == 0
    (unlimited,) = archive.read(_wanted(alive_at=NOON_MS + 15_000))
    assert unlimited.expired == 0


def test_what_cannot_be_read_is_said_and_not_passed_by(tmp_path: Path) -> None:
    with pytest.raises(ArchiveUnreadableError, match="no table yet"):
        next(TableArchive(str(tmp_path / "nothing"), "orders").read(_wanted()))
    location = str(tmp_path / "lake")
    table = create_table(location, "parquet")
    (file,) = written(location, rows("orders", 0, range(10)))
    table.append([file], "app", 0)
    path = tmp_path / "lake" / file.path
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(ArchiveUnreadableError, match="cannot read the archive"):
        next(TableArchive(location, "orders").read(_wanted()))
    path.unlink()
    with pytest.raises(ArchiveUnreadableError, match="FileNotFoundError"):
        next(TableArchive(location, "orders").read(_wanted()))


def test_a_file_that_is_not_sorted_is_refused(tmp_path: Path) -> None:
    location = str(tmp_path / "lake")
    table = create_table(location, "parquet")
    (file,) = written(location, rows("orders", 0, range(10)))
    path = tmp_path / "lake" / file.path
    there = pq.read_table(path, partitioning=None)
    pq.write_table(there.take(pa.array(list(reversed(range(10))))), path)
    table.append([TableFile(file.path, path.stat().st_size, 10, file.partition)], "app", 0)
    with pytest.raises(ArchiveUnreadableError, match="not sorted"):
        next(TableArchive(location, "orders").read(_wanted()))


def test_each_file_is_looked_into_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Regardless of the number of files, and of other queues that begin earlier."""
    location = str(tmp_path / "lake")
    table = create_table(location, "parquet")
    order = [7, 3, 0, 9, 1, 8, 2, 6, 5, 4]
    for batch, number in enumerate(order):
        parts = rows("orders", 0, range(number * 5, number * 5 + 5)), rows("orders", 1, range(batch % 4, 100))
        table.append(written(location, *parts), "app", batch)
    looked: list[str] = []
    look = TableArchive._read_offset_ranges

    def noted(archive: TableArchive, file: TableFile, wanted: ArchiveRequest) -> list[OffsetRange]:
        looked.append(file.path)
        return look(archive, file, wanted)

    monkeypatch.setattr(TableArchive, "_read_offset_ranges", noted)
    assert _offsets(list(TableArchive(location, "orders").read(_wanted()))) == list(range(50))
    assert len(looked) == len(set(looked)) == len(order)


@pytest.mark.parametrize(("size", "limit"), [(10, 4096), (100_000, 64)])
def test_large_rows_are_decoded_a_few_at_a_time(
    size: int, limit: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    location = str(tmp_path / "lake")
    table = create_table(location, "parquet")
    raw = stored_records("orders", 0, range(100), body=random.Random(1).randbytes(size))
    batch = pa.Table.from_batches(decode_batches(raw))
    table.append(
        written(location, batch.append_column(MESSAGE_SCHEMA.field(BROKER), pa.array(["broker-a"] * 100))), "app", 0
    )
    asked: list[int] = []
    iter_batches = pq.ParquetFile.iter_batches

    def noted(file: pq.ParquetFile, rows: int, **options: Any) -> Any:
        asked.append(rows)
        return iter_batches(file, rows, **options)

    monkeypatch.setattr(pq.ParquetFile, "iter_batches", noted)
    assert _raw(list(TableArchive(location, "orders").read(_wanted()))) == raw
    assert 16 <= asked[-1] <= limit
