"""Columns in Spark's words: from Arrow's schema to Spark's, and back for those that a reader asks for."""

from __future__ import annotations

import pyarrow as pa
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema
from pyspark.sql.types import StructType

from litemq.errors import InvalidArgumentError
from litemq.spark.options import nearest
from litemq.spark.schema import MESSAGE_SCHEMA

__all__ = ["column_names", "requested_schema", "spark_schema"]


def spark_schema(schema: pa.Schema) -> StructType:
    """Arrow's schema as Spark has it."""
    return from_arrow_schema(schema, prefer_timestamp_ntz=False)


def requested_schema(requested: StructType, known: pa.Schema) -> pa.Schema:
    """The schema that a reader asked for, as Arrow has it exactly; raises where one of its columns is not there, or is of another type."""
    types = {field.name: field.dataType for field in spark_schema(known).fields}
    for field in requested.fields:
        if field.name not in types:
            raise InvalidArgumentError(f"no column {field.name!r}: choose from {', '.join(known.names)}.{nearest(field.name, known.names)}")
        if field.dataType != types[field.name]:
            raise InvalidArgumentError(
                f"column {field.name!r} is {types[field.name].simpleString()}, not {field.dataType.simpleString()}: cast it behind the read"
            )
    if not requested.fields:
        raise InvalidArgumentError("no columns: name at least one; without it there would be no rows to count")
    return to_arrow_schema(requested, timezone="UTC")


def column_names(schema: StructType) -> tuple[str, ...]:
    """The columns that a query's schema names. Raises where one is not ours, or has another type."""
    return tuple(requested_schema(schema, MESSAGE_SCHEMA).names)
