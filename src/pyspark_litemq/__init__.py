"""By this package Spark finds ``format("litemq")``: it looks for those whose name begins with ``pyspark_``."""

from litemq.spark.source import LiteMQDataSource as DefaultSource

__all__ = ["DefaultSource"]
