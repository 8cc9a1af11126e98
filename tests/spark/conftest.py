"""Fixtures of the Spark tests: a Spark session and a cluster.

All tests carry the mark ``spark``.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from support.processes import ServerProcess
from support.servers import Servers

_HERE = Path(__file__).parent


_LONG = (
    "test_exactly_once.py",
    "test_standalone.py",
    "test_examples.py",
)  # minutes each: started first, so that the run does not wait for them at the end


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if _HERE in item.path.parents:
            item.add_marker(pytest.mark.spark)
    items.sort(key=lambda item: item.path.parent != _HERE or item.path.name not in _LONG)


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """Share one session, since starting one takes as long as many tests."""
    os.environ["PYSPARK_PYTHON"] = sys.executable
    # What a test gives to Spark's workers is found there by its name.
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(_HERE.parent), os.environ.get("PYTHONPATH", "")]))
    folder = tmp_path_factory.mktemp("spark")
    session = (
        SparkSession.builder.master("local[2]")
        .appName("litemq tests")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.memory", "2g")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.warehouse.dir", str(folder / "warehouse"))
        .config("spark.local.dir", str(folder / "local"))
        .config("spark.driver.extraJavaOptions", f"-Dderby.system.home={folder}")
        .config("spark.python.unix.domain.socket.enabled", "true")
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("ERROR")
    yield session
    session.stop()


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Servers]:
    """Run one cluster per module; each test uses its own topics."""
    folder = tmp_path_factory.mktemp("servers")
    data = folder / "broker"
    with (
        ServerProcess("nameserver", folder / "names.log", data_path=folder / "names") as names,
        ServerProcess(
            "broker",
            folder / "broker.log",
            data_path=data,
            nameserver=names.address,
            broker_name="broker-a",
            file_size="64MiB",
        ) as broker,
    ):
        yield Servers(names, broker, data)
