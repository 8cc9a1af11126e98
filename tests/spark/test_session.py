"""Spark and a cluster run on this machine."""

from pyspark.sql import SparkSession

import litemq
from support.servers import Servers


def test_a_session_counts(spark: SparkSession) -> None:
    assert spark.range(10).count() == 10


def test_a_cluster_takes_messages(servers: Servers) -> None:
    with litemq.Client(servers.url) as mq:
        mq.admin.create_topic("session", queues=2)
        assert mq.send("session", b"1").queue_offset >= 0
