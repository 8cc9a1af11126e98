"""Spark session with the recommended settings for reading and writing messages."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Final

from pyspark import SparkConf, SparkContext
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession

from litemq.spark.worker_python import worker_python

__all__ = ["RECOMMENDED", "new_session"]

RECOMMENDED: Final[Mapping[str, str]] = {
    # Tables are partitioned by the UTC hour of storing, so queries should use UTC times.
    "spark.sql.session.timeZone": "UTC",
    # With a Unix socket between Python and Java, an empty task takes a quarter of the time that it
    # takes with TCP.
    "spark.python.unix.domain.socket.enabled": "true",
    # Filters on topic, queue, offset and time skip queues and offset ranges before anything is
    # read.
    "spark.sql.python.filterPushdown.enabled": "true",
}


def new_session(name: str, settings: Mapping[str, str], *, master: str = "") -> SparkSession:
    """Return the active session, or create one with ``RECOMMENDED`` and ``settings``.

    Its tasks run this Python. If ``master`` is empty, Spark's own setting applies, or all cores of
    this machine.
    """
    wanted = {"spark.app.name": name, **RECOMMENDED, **settings, **({"spark.master": master} if master else {})}
    if "PYSPARK_PYTHON" not in os.environ:
        os.environ["PYSPARK_PYTHON"] = worker_python(wanted.get("spark.master", ""))
    if SparkContext._gateway is None:  # noqa: SLF001  there is no public way to set how Java is started
        # In its own process group, so that a signal for the group (from a terminal or a supervisor)
        # reaches only the driver. The driver finishes the batch, then stops Java.
        conf = SparkConf().setAll(list(wanted.items()))
        gateway = launch_gateway(conf, {"process_group": 0})  # type: ignore[no-untyped-call]
        SparkContext._ensure_initialized(gateway=gateway)  # noqa: SLF001
    builder = SparkSession.builder
    for key, value in wanted.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    return session
