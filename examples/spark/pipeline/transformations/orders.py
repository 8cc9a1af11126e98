"""Two tables that Spark maintains: all orders of a topic, and the amount each customer spent."""

import os

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

URL = os.environ.get("LITEMQ_URL", "litemq://127.0.0.1:9876")


@dp.table
def orders() -> DataFrame:
    """All orders. Each run appends the orders that have arrived since the last run."""
    messages = (
        SparkSession.active()
        .readStream.format("litemq")
        .option("url", URL)
        .option("subscribe", "pipeline-orders")
        .option("startingOffsets", "earliest")
        .load()
    )
    order = f.from_json(f.col("body").cast("string"), "id long, customer string, amount long")
    return messages.select("broker", "queue_id", "queue_offset", "store_timestamp", order.alias("order"))


@dp.materialized_view
def spent() -> DataFrame:
    """The amount that each customer spent. Each run recomputes it."""
    rows = SparkSession.active().read.table("orders")
    return rows.groupBy("order.customer").agg(f.sum("order.amount").alias("spent"), f.count("*").alias("orders"))
