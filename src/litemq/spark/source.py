"""Data source ``litemq``: topics as a table or a stream. Tasks read directly from the brokers.

Spark finds it through the package ``pyspark_litemq``, so ``spark.read.format("litemq")`` needs no
registration.
"""

from __future__ import annotations

from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader
from pyspark.sql.types import StructType

from litemq.spark.read.batch import BatchReader
from litemq.spark.read.options import parse_read_options
from litemq.spark.read.stream import StreamReader
from litemq.spark.schema import MESSAGE_SCHEMA, chosen_schema
from litemq.spark.spark_types import column_names, spark_schema
from litemq.spark.write.sink import WritableSource

__all__ = ["LiteMQDataSource"]


class LiteMQDataSource(WritableSource):
    """The data source ``litemq`` for batches and streams; writing is inherited."""

    @classmethod
    def name(cls) -> str:
        return "litemq"

    def schema(self) -> StructType:
        columns = parse_read_options(self.options, "either").columns
        return spark_schema(MESSAGE_SCHEMA if columns is None else chosen_schema(columns))

    def reader(self, schema: StructType) -> DataSourceReader:
        return BatchReader(parse_read_options(self.options, "batch"), column_names(schema))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802  Spark's name
        return StreamReader(parse_read_options(self.options, "stream"), column_names(schema))
