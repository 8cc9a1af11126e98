"""What a Spark session should have set to read and write messages well; and a session that has it."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from typing import Final

from pyspark.sql import SparkSession

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

    ``master`` empty: what Spark was told elsewhere, or all cores of this machine.
    """
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.appName(name)
    for key, value in {**RECOMMENDED, **settings}.items():
        builder = builder.config(key, value)
    if master:
        builder = builder.master(master)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    return session
