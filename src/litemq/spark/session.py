"""What a Spark session should have set to read and write messages well; and a session that has it."""

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
    # Tables are partitioned by the hour of storing, in UTC: so are the words in which a query asks for it.
    "spark.sql.session.timeZone": "UTC",
    # Rows come from Python by a socket that never leaves the machine: a task of nothing takes a quarter of the time that it takes over TCP.
    "spark.python.unix.domain.socket.enabled": "true",
    # Filters on topic, queue, offset and time leave out whole queues, and parts of them, before anything is read.
    "spark.sql.python.filterPushdown.enabled": "true",
}


def new_session(name: str, settings: Mapping[str, str], *, master: str = "") -> SparkSession:
    """A session with what is recommended and what is given, or the one that there is; its tasks run this Python.

    ``master`` empty: the master of Spark's own configuration, or all cores of this machine.
    """
    wanted = {"spark.app.name": name, **RECOMMENDED, **settings, **({"spark.master": master} if master else {})}
    if "PYSPARK_PYTHON" not in os.environ:
        os.environ["PYSPARK_PYTHON"] = worker_python(wanted.get("spark.master", ""))
    if SparkContext._gateway is None:  # noqa: SLF001  there is no other way to say how Java is started
        # In a process group of its own: a signal for the whole group, such as a terminal's or a supervisor's, is the driver's to hear. It
        # ends the batch, and then Java.
        conf = SparkConf().setAll(list(wanted.items()))
        gateway = launch_gateway(conf, {"process_group": 0})  # type: ignore[no-untyped-call]
        SparkContext._ensure_initialized(gateway=gateway)  # noqa: SLF001
    builder = SparkSession.builder
    for key, value in wanted.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    return session
