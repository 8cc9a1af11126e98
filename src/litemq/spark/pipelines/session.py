"""The Spark session of a pipeline: the one that spark-submit made, or a new one here."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from pyspark.sql import SparkSession

from litemq.spark.pipelines.config import ArchiveConfig
from litemq.spark.tables.delta_spark import CONNECTOR_SETTINGS

__all__ = ["session_for"]

_SETTINGS: Final = {
    "spark.ui.enabled": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.python.unix.domain.socket.enabled": "true",
    # Progress is told by the archive itself.
    "spark.ui.showConsoleProgress": "false",
}


@contextmanager
def session_for(config: ArchiveConfig, name: str) -> Iterator[SparkSession]:
    """A session; it ends with the pipeline."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    logging.getLogger("py4j").setLevel(logging.WARNING)  # or every call from Java is a line in the archive's log
    builder = SparkSession.builder.appName(name)
    connector = CONNECTOR_SETTINGS if config.table_format == "delta-spark" else {}
    for key, value in {**_SETTINGS, **connector, **config.spark_settings}.items():
        builder = builder.config(key, value)
    if config.spark_master:
        builder = builder.master(config.spark_master)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    try:
        yield spark
    finally:
        spark.stop()
