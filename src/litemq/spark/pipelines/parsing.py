"""Parsed tables: JSON bodies as columns, and a table of bodies that failed to parse.

They are derived from the files that a batch adds to the message table, and committed before it,
each under the batch's number. So every message in the message table is also in its parsed table. A
repeated batch skips the tables that already have it.
"""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 (the usual name)
from pyspark.sql.types import StructType

from litemq.errors import InvalidArgumentError, LiteMQError
from litemq.format.compression import decompress
from litemq.spark.pipelines.config import UNPARSED, VARIANT, ArchiveConfig
from litemq.spark.tables.layout import TableFile, TableLayout
from litemq.spark.tables.opening import create_table
from litemq.spark.tables.table import Table
from litemq.types import BodyCodec

__all__ = ["ParsedTables", "plain_texts"]

_ROW: Final = "broker string, queue_id bigint, queue_offset bigint, message_id string, store_timestamp timestamp"
_ROW_NAMES: Final = [part.split()[0] for part in _ROW.split(", ")]
_SOURCE: Final = f"{_ROW}, body binary, flags int"
_TEXT: Final = f"{_ROW}, body binary, text string, reason string"
_UNPARSED: Final = f"topic string, {_ROW}, body binary, reason string"
_STATISTICS: Final = ("queue_offset", "store_timestamp")
_CORRUPT: Final = "_litemq_corrupt"
_ENCRYPTED: Final = 0b1000


class ParsedTables:
    """The parsed tables of an archive."""

    def __init__(self, spark: SparkSession, config: ArchiveConfig, app_id: str) -> None:
        self._spark = spark
        self._config = config
        self._app_id = app_id
        self._columns = {topic: _columns(spark, topic, text) for topic, text in config.parsed.items()}
        self._tables: dict[str, Table] = {}

    def parse(self, files: Iterable[TableFile], batch_id: int) -> None:
        """Parse the ``files`` of a batch that belong to configured topics, and commit the rows."""
        failed = []
        with contextlib.ExitStack() as stack:
            by_topic: dict[str, list[TableFile]] = {}
            for file in files:
                if file.partition["topic"] in self._columns:
                    by_topic.setdefault(file.partition["topic"], []).append(file)
            for topic, topic_files in sorted(by_topic.items()):
                parsed = self._parsed(topic, topic_files).persist()
                stack.callback(parsed.unpersist)
                rows = parsed.where("reason is null").select(*_ROW_NAMES, *self._result(topic))
                self._commit(self._table(topic, rows.schema), rows, batch_id)
                failed.append(
                    parsed.where("reason is not null").select(
                        F.lit(topic).alias("topic"), *_ROW_NAMES, "body", "reason"
                    )
                )
            if failed:
                unparsed = failed[0]
                for rows in failed[1:]:
                    unparsed = unparsed.union(rows)
                self._commit(self._table(UNPARSED, unparsed.schema), unparsed, batch_id)

    def _parsed(self, topic: str, files: Sequence[TableFile]) -> DataFrame:
        folder = self._config.table
        paths = [f"{folder.rstrip('/')}/{file.path}" for file in files]
        texts = self._spark.read.schema(_SOURCE).parquet(*paths).mapInArrow(plain_texts, _TEXT)
        columns = self._columns[topic]
        if columns is None:
            value = F.try_parse_json("text")
            wrong = F.when(value.isNull(), F.lit("not JSON"))
        else:
            with_corrupt = StructType([*columns.fields]).add(_CORRUPT, "string")
            value = F.from_json("text", with_corrupt, {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": _CORRUPT})
            wrong = F.when(value.isNull() | value[_CORRUPT].isNotNull(), F.lit("not JSON with these columns"))
        return texts.withColumn("value", value).withColumn("reason", F.coalesce("reason", wrong)).drop("text")

    def _result(self, topic: str) -> list[Any]:
        columns = self._columns[topic]
        if columns is None:
            return ["value"]
        return [F.col("value").getField(name).alias(name) for name in columns.names]

    def _table(self, name: str, schema: StructType) -> Table:
        if name not in self._tables:
            layout = TableLayout(
                pa.schema([(field, pa.null()) for field in schema.names]), (), _STATISTICS, schema.json()
            )
            self._tables[name] = create_table(self._config.parsed_table(name), self._config.table_format, layout)
        return self._tables[name]

    def _commit(self, table: Table, rows: DataFrame, batch_id: int) -> None:
        table.refresh()
        last = table.last_batch(self._app_id)
        if last is not None and last >= batch_id:
            return
        folder = f"batch-{batch_id}-{uuid.uuid4().hex}"
        codec = "uncompressed" if self._config.codec == "none" else self._config.codec
        rows.write.option("compression", codec).parquet(f"{table.folder.as_uri()}/{folder}")
        table.append(_written_files(table, folder), self._app_id, batch_id)


def _columns(spark: SparkSession, topic: str, text: str) -> StructType | None:
    """Parse a topic's columns; ``None`` for a variant."""
    if text.strip().lower() == VARIANT:
        return None
    try:
        found = spark.createDataFrame([], text).schema
    except PySparkException as error:
        raise InvalidArgumentError(
            f"parsed topic {topic!r}: invalid columns {text!r} ({str(error).splitlines()[0]}); "
            f"write {VARIANT}, or columns such as 'id bigint, amount double'"
        ) from None
    taken = [name for name in found.names if name in _ROW_NAMES]
    if taken:
        raise InvalidArgumentError(
            f"parsed topic {topic!r}: {', '.join(taken)} is a reserved column: choose another name"
        )
    return found


def _written_files(table: Table, folder: str) -> list[TableFile]:
    """Return the files that Spark wrote to ``folder``, with the statistics of their footers."""
    found = []
    for path in table.folder.files_in(folder):
        with table.folder.open_input(path) as source:
            size = source.size()
            metadata = pq.read_metadata(source)
        if metadata.num_rows:
            table.folder.sync(path)
            found.append(TableFile(path, size, metadata.num_rows, {}, *_bounds(metadata)))
    return found


def _bounds(metadata: pq.FileMetaData) -> tuple[dict[str, Any], dict[str, Any]]:
    minimums: dict[str, Any] = {}
    maximums: dict[str, Any] = {}
    for number in range(metadata.num_row_groups):
        group = metadata.row_group(number)
        for at in range(group.num_columns):
            column = group.column(at)
            if (
                column.path_in_schema not in _STATISTICS
                or column.statistics is None
                or not column.statistics.has_min_max
            ):
                continue
            low, high = _statistic(column.statistics.min), _statistic(column.statistics.max)
            minimums[column.path_in_schema] = min(minimums.get(column.path_in_schema, low), low)
            maximums[column.path_in_schema] = max(maximums.get(column.path_in_schema, high), high)
    return minimums, maximums


def _statistic(value: Any) -> Any:
    return value.isoformat(timespec="milliseconds").replace("+00:00", "Z") if hasattr(value, "isoformat") else value


def plain_texts(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Decompress and decode bodies to text, or give the reason why that failed."""
    for batch in batches:
        texts, reasons = [], []
        for body, flags in zip(batch["body"].to_pylist(), batch["flags"].to_pylist(), strict=True):
            text, reason = _plain_text(body, flags)
            texts.append(text)
            reasons.append(reason)
        columns = [
            *(batch[name] for name in (*_ROW_NAMES, "body")),
            pa.array(texts, pa.string()),
            pa.array(reasons, pa.string()),
        ]
        yield pa.RecordBatch.from_arrays(columns, names=[*_ROW_NAMES, "body", "text", "reason"])


def _plain_text(body: bytes, flags: int) -> tuple[str | None, str | None]:
    if flags & _ENCRYPTED:
        return None, "encrypted"
    try:
        return (decompress(body, BodyCodec(flags)) if flags else body).decode(), None
    except UnicodeDecodeError:
        return None, "not UTF-8"
    except LiteMQError as error:
        return None, str(error)
