"""A Delta table written by Spark's own connector, where the session has it: for those who want one writer for all their tables.

The table is the same, and so is how a batch is known: the connector's ``txnAppId`` and ``txnVersion`` are what delta-rs calls a transaction.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 (as everybody calls it)

from litemq.errors import UnsupportedFeatureError
from litemq.spark.tables.layout import KEY, MESSAGES

__all__ = ["CONNECTOR_SETTINGS", "append_with_connector", "check_connector"]

# What a session needs besides the connector's jar.
CONNECTOR_SETTINGS: Final = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
}


def check_connector(spark: SparkSession, location: str) -> None:
    """Raises where the session has no connector that works with it; tried out on the table."""
    try:
        spark.read.format("delta").load(location).limit(0).collect()
    except Exception as error:
        why = next((line for line in str(error).splitlines() if line.strip()), repr(error))
        raise UnsupportedFeatureError(
            f"the format delta-spark needs Spark's own Delta connector, and the session has none that works ({why}): set spark.jars.packages to "
            "io.delta:delta-spark_<Spark's version>_2.13:<its own version>, or choose the format delta, which needs none"
        ) from error


def append_with_connector(rows: DataFrame, location: str, app_id: str, batch_id: int) -> None:
    """Add a batch's rows, with the columns of a message; nothing is added where the batch is in the table already."""
    stored = F.col("store_timestamp")
    partitioned = rows.withColumn("store_date", F.to_date(stored)).withColumn("store_hour", F.hour(stored))
    (
        partitioned.select(*MESSAGES.schema.names)
        .sortWithinPartitions(*MESSAGES.partition_by, *KEY)
        .write.format("delta")
        .mode("append")
        .option("txnAppId", app_id)
        .option("txnVersion", batch_id)
        .save(location)
    )
