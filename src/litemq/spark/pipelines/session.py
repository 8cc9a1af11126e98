"""Spark session of a pipeline: the one of spark-submit, or a new one."""

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
    """Provide the session of a pipeline, and stop it afterwards."""
    logging.getLogger("py4j").setLevel(logging.WARNING)  # it logs every call from Java
    connector = CONNECTOR_SETTINGS if config.table_format == "delta-spark" else {}
    spark = new_session(name, {**_SETTINGS, **connector, **config.spark_settings}, master=config.spark_master)
    try:
        yield spark
    finally:
        spark.stop()
