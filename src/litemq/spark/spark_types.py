"""Conversion between Arrow and Spark schemas."""

from __future__ import annotations

import pyarrow as pa
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema
from pyspark.sql.types import StructType

from litemq.errors import InvalidArgumentError
from litemq.spark.options import nearest
from litemq.spark.schema import MESSAGE_SCHEMA

__all__ = ["column_names", "requested_schema", "spark_schema"]


def spark_schema(schema: pa.Schema) -> StructType:
    """Convert an Arrow schema to a Spark schema."""
    return from_arrow_schema(schema, prefer_timestamp_ntz=False)


def requested_schema(requested: StructType, known: pa.Schema) -> pa.Schema:
    """Convert ``requested`` to an Arrow schema.

    Raise if a column is not in ``known`` or has another type.
    """
    types = {field.name: field.dataType for field in spark_schema(known).fields}
    for field in requested.fields:
        if field.name not in types:
            raise InvalidArgumentError(
                f"unknown column {field.name!r}: choose from {', '.join(known.names)}."
                f"{nearest(field.name, known.names)}"
            )
        if field.dataType != types[field.name]:
            raise InvalidArgumentError(
                f"column {field.name!r} is {types[field.name].simpleString()}, not {field.dataType.simpleString()}: "
                "cast it after reading"
            )
    if not requested.fields:
        raise InvalidArgumentError("no columns selected: select at least one, so that rows can be counted")
    return to_arrow_schema(requested, timezone="UTC")


def column_names(schema: StructType) -> tuple[str, ...]:
    """Return the columns of a query's schema. Raise if one is unknown or has another type."""
    return tuple(requested_schema(schema, MESSAGE_SCHEMA).names)
