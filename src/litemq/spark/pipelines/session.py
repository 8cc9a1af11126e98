"""The Spark session of a pipeline: the one that spark-submit made, or a new one here."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from pyspark.sql import SparkSession

from litemq.spark.pipelines.config import ArchiveConfig
from litemq.spark.session import new_session
from litemq.spark.tables.delta_spark import CONNECTOR_SETTINGS

__all__ = ["session_for"]

_SETTINGS: Final = {
    "spark.ui.enabled": "false",
    # The archive reports its progress itself.
    "spark.ui.showConsoleProgress": "false",
}


@contextmanager
def session_for(config: ArchiveConfig, name: str) -> Iterator[SparkSession]:
    """A session; it ends with the pipeline."""
    logging.getLogger("py4j").setLevel(logging.WARNING)  # or every call from Java is a line in the archive's log
    connector = CONNECTOR_SETTINGS if config.table_format == "delta-spark" else {}
    spark = new_session(name, {**_SETTINGS, **connector, **config.spark_settings}, master=config.spark_master)
    try:
        yield spark
    finally:
        spark.stop()
