"""Package by which Spark finds ``format("litemq")``: Spark imports every ``pyspark_`` package."""

from litemq.spark.source import LiteMQDataSource as DefaultSource

__all__ = ["DefaultSource"]
