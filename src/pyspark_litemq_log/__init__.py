"""Where Spark looks for ``format("litemq-log")``: nothing has to be registered."""

from litemq.spark.log.source import LogSource as DefaultSource

__all__ = ["DefaultSource"]
