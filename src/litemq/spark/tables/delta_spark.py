"""Delta table written by Spark's Delta connector, for users who want one writer for all tables.

The table is the same as with delta-rs. The connector's ``txnAppId`` and ``txnVersion`` are the
application and batch of a delta-rs transaction.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 (the usual name)

from litemq.errors import UnsupportedFeatureError
from litemq.spark.tables.layout import KEY, MESSAGES

__all__ = ["CONNECTOR_SETTINGS", "append_with_connector", "check_connector"]

# Session settings that the connector needs, in addition to its jar.
CONNECTOR_SETTINGS: Final = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
}


def check_connector(spark: SparkSession, location: str) -> None:
    """Raise if the session has no working connector, by reading the table at ``location``."""
    try:
        spark.read.format("delta").load(location).limit(0).collect()
    except Exception as error:
        why = next((line for line in str(error).splitlines() if line.strip()), repr(error))
        raise UnsupportedFeatureError(
            f"the format delta-spark needs Spark's Delta connector, which does not work in this session ({why}): "
            "set spark.jars.packages to io.delta:delta-spark_<Spark's version>_2.13:<its own version>, "
            "or choose the format delta, which needs none"
        ) from error


def append_with_connector(rows: DataFrame, location: str, app_id: str, batch_id: int) -> None:
    """Append the rows of a batch to the table.

    If the table already has the batch, nothing is added.
    """
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
