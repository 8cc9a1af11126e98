"""Data source ``litemq-log``: ``spark.read.format("litemq-log").load("/data/broker")``.

The rows are the messages that a consumer could read: those of user topics that are not deleted, up
to the checkpoint's confirmed offset. A broker may have the files open. Each task reads its byte
range itself; the driver only plans the ranges.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from litemq.errors import InvalidArgumentError
from litemq.spark.log.options import LogOptions
from litemq.spark.log.planning import plan_parts
from litemq.spark.log.reading import Damage, LogPart, RowSelection, read_part
from litemq.spark.schema import BROKER, MESSAGE_SCHEMA, chosen_schema
from litemq.spark.spark_types import requested_schema, spark_schema
from litemq.spark.task_process import freeze_once

__all__ = ["CORRUPT", "LogReader", "LogSource"]

# In permissive mode, damage becomes a row in which only this column and the broker are set.
CORRUPT: Final = "_corrupt"
_CORRUPT_FIELD: Final = pa.field(
    CORRUPT, pa.struct([("path", pa.string()), ("position", pa.int64()), ("size", pa.int64()), ("reason", pa.string())])
)


class LogSource(DataSource):
    """The data source ``litemq-log``."""

    @classmethod
    def name(cls) -> str:
        return "litemq-log"

    def schema(self) -> StructType:
        options = LogOptions.parse(self.options)
        columns = [name for name in options.columns if name != CORRUPT] if options.columns else MESSAGE_SCHEMA.names
        chosen = chosen_schema(columns)
        return spark_schema(chosen.append(_CORRUPT_FIELD) if options.permissive else chosen)

    def reader(self, schema: StructType) -> LogReader:
        return LogReader(LogOptions.parse(self.options), schema)


class LogReader(DataSourceReader):
    """A batch read: plans the parts, and reads the rows of each."""

    def __init__(self, options: LogOptions, schema: StructType) -> None:
        known = MESSAGE_SCHEMA.append(_CORRUPT_FIELD) if options.permissive else MESSAGE_SCHEMA
        self._schema = requested_schema(schema, known)
        if options.permissive and CORRUPT not in self._schema.names:
            raise InvalidArgumentError(
                f"mode permissive needs the column {CORRUPT}, or damaged records would be rows of nulls: "
                "select it, or choose mode failfast"
            )
        self._options = options
        self._selection = RowSelection(
            # At least one column is needed to count rows.
            names=tuple(name for name in self._schema.names if name not in (BROKER, CORRUPT)) or ("queue_offset",),
            topics=frozenset(options.topics) or None,
            include_system=options.include_system,
            after_ms=options.after_ms,
            before_ms=options.before_ms,
        )

    def partitions(self) -> list[InputPartition]:
        return [InputPartition(part) for part in plan_parts(self._options)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        freeze_once()
        part: LogPart | None = partition.value
        if part is None:
            return  # for an empty plan, Spark creates one empty partition
        for found in read_part(part, self._selection):
            if not isinstance(found, Damage):
                yield self._completed(found, part.broker)
            elif self._options.permissive:
                yield self._quarantined(found, part.broker)
            else:
                raise found.error()

    def _completed(self, batch: pa.RecordBatch, broker: str | None) -> pa.RecordBatch:
        """Add the columns that records do not have."""
        arrays = [
            _repeated(broker, batch.num_rows)
            if name == BROKER
            else pa.nulls(batch.num_rows, _CORRUPT_FIELD.type)
            if name == CORRUPT
            else batch.column(name)
            for name in self._schema.names
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema)

    def _quarantined(self, damage: Damage, broker: str | None) -> pa.RecordBatch:
        known = {BROKER: broker, CORRUPT: damage._asdict()}
        arrays = [pa.array([known.get(field.name)], field.type) for field in self._schema]
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema)


def _repeated(value: str | None, count: int) -> pa.Array:
    return pa.repeat(pa.scalar(value, pa.string()), count)
