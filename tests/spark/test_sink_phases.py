"""Two-phase write against real brokers: failed, repeated and late attempts."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

import litemq
from litemq.errors import ConnectionLostError, LiteMQError, NoRouteError
from litemq.proto.wire_pb2 import Attempt, DescribeSinkRequest, Opcode, SinkAnswer, Winner
from litemq.spark.brokers import BlockingCluster
from litemq.spark.write.commit import abort, commit, decided_plans
from litemq.spark.write.task_writer import write_rows
from support.processes import ServerProcess
from support.topic_rows import read_rows

Shares = dict[str, list[Winner]]


class Cluster:
    """Two brokers, one of which can be stopped for a while."""

    def __init__(self, url: str, brokers: dict[str, ServerProcess]) -> None:
        self.url = url
        self.brokers = brokers
        self.names = sorted(brokers)
        self.blocking = BlockingCluster(url)

    def create(self, topic: str, queues: int = 2) -> str:
        with litemq.Client(self.url) as mq:
            mq.admin.create_topic(topic, queues=queues)
        return topic

    def write(
        self, topic: str, query: str, batch: int, rows: list[str], *, partition: int = 0, attempt: int = 1
    ) -> Shares:
        """Write one attempt of a task, and return its winners."""
        batches = [pa.record_batch({"body": pa.array(rows[at : at + 2])}) for at in range(0, len(rows), 2)]
        said = Attempt(query=query, batch=batch, partition=partition, attempt=attempt)
        counts = write_rows(batches, topic, said, self.blocking)
        return {broker: [Winner(partition=partition, attempt=attempt, count=count)] for broker, count in counts.items()}

    def bodies(self, topic: str, expected: int) -> list[str]:
        return sorted(body.decode() for body in read_rows(self.url, topic, expected)["body"].to_pylist())

    def undecided(self, query: str) -> int:
        request = DescribeSinkRequest(query=query).SerializeToString()
        return sum(
            SinkAnswer.FromString(self.blocking.ask(name, Opcode.DESCRIBE_SINK, request)).undecided
            for name in self.names
        )


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    folder: Path = tmp_path_factory.mktemp("sink")
    with ServerProcess("nameserver", folder / "names.log", data_path=folder / "names") as names:
        made = {
            name: ServerProcess(
                "broker",
                folder / f"{name}.log",
                data_path=folder / name,
                nameserver=names.address,
                broker_name=name,
                file_size="16MiB",
            )
            for name in ("broker-a", "broker-b")
        }
        with made["broker-a"], made["broker-b"]:
            cluster = Cluster(f"litemq://{names.address}", made)
            yield cluster
            cluster.blocking.close()


def _rows(count: int, what: str = "row") -> list[str]:
    return [f"{what} {number:03d}" for number in range(count)]


def test_nothing_is_seen_before_the_decision_and_everything_behind_it(cluster: Cluster) -> None:
    topic = cluster.create("decided")
    shares = cluster.write(topic, "decided", 0, _rows(40))
    assert sorted(shares) == cluster.names  # chunks go over brokers first
    assert cluster.bodies(topic, 0) == []
    assert cluster.undecided("decided") == 40
    commit(cluster.blocking.ask, cluster.names, "decided", 0, shares, decided=False)
    assert cluster.bodies(topic, 40) == _rows(40)
    assert cluster.undecided("decided") == 0


def test_of_two_tries_one_counts(cluster: Cluster) -> None:
    """Tasks that failed halfway, ran twice, or had another row order."""
    topic = cluster.create("tries")
    cluster.write(topic, "tries", 0, _rows(20), partition=0, attempt=1)
    winners = cluster.write(topic, "tries", 0, _rows(40), partition=0, attempt=2)
    cluster.write(topic, "tries", 0, list(reversed(_rows(40))), partition=0, attempt=3)
    for broker, more in cluster.write(topic, "tries", 0, _rows(10, "other"), partition=1, attempt=1).items():
        winners.setdefault(broker, []).extend(more)
    commit(cluster.blocking.ask, cluster.names, "tries", 0, winners, decided=False)
    assert cluster.bodies(topic, 50) == sorted(_rows(40) + _rows(10, "other"))
    assert cluster.undecided("tries") == 0


def test_a_driver_that_dies_between_two_brokers(cluster: Cluster) -> None:
    topic = cluster.create("between")
    first = cluster.write(topic, "between", 7, _rows(40), attempt=1)
    committed: list[str] = []

    def dies(broker: str, opcode: int, header: bytes) -> bytes:
        if opcode == Opcode.COMMIT_SINK and committed:
            raise ConnectionLostError("the driver is no more")
        committed.append(broker)
        return cluster.blocking.ask(broker, opcode, header)

    with pytest.raises(ConnectionLostError):
        commit(dies, cluster.names, "between", 7, first, decided=False)
    assert committed == ["broker-a"]
    # An older task still writes where the batch is undecided, and other rows than its predecessor.
    with pytest.raises(LiteMQError, match="decided"):
        cluster.write(topic, "between", 7, list(reversed(_rows(40))), attempt=2)
    # Its successor sees that it is decided, and finishes what the first driver began.
    plans = decided_plans(cluster.blocking.ask, cluster.names, "between", 7)
    assert plans is not None
    commit(cluster.blocking.ask, cluster.names, "between", 7, {}, decided=True)
    assert cluster.bodies(topic, 40) == _rows(40)
    assert cluster.undecided("between") == 0
    commit(
        cluster.blocking.ask,
        cluster.names,
        "between",
        8,
        cluster.write(topic, "between", 8, _rows(4, "next")),
        decided=False,
    )
    assert cluster.bodies(topic, 44) == sorted(_rows(40) + _rows(4, "next"))


def test_an_aborted_batch_is_written_again(cluster: Cluster) -> None:
    topic = cluster.create("aborted")
    cluster.write(topic, "aborted", 0, _rows(20), attempt=1)
    abort(cluster.blocking.ask, cluster.names, "aborted", 0)
    assert cluster.undecided("aborted") == 0
    shares = cluster.write(topic, "aborted", 0, _rows(20), attempt=2)
    commit(cluster.blocking.ask, cluster.names, "aborted", 0, shares, decided=False)
    assert cluster.bodies(topic, 20) == _rows(20)


def test_a_broker_that_is_killed_while_a_task_writes(cluster: Cluster) -> None:
    topic = cluster.create("killed")
    rows = _rows(400)
    said = Attempt(query="killed", batch=0, partition=0, attempt=1)

    def batches() -> Iterator[pa.RecordBatch]:
        for at in range(0, len(rows), 4):
            if at == 200:
                cluster.brokers["broker-b"].kill()
                cluster.brokers["broker-b"].start()
            yield pa.record_batch({"body": pa.array(rows[at : at + 4])})

    counts = write_rows(batches(), topic, said, cluster.blocking)
    assert sum(counts.values()) == 400
    shares = {broker: [Winner(partition=0, attempt=1, count=count)] for broker, count in counts.items()}
    commit(cluster.blocking.ask, cluster.names, "killed", 0, shares, decided=False)
    assert cluster.bodies(topic, 400) == rows


def test_a_topic_that_is_not_there(cluster: Cluster) -> None:
    with pytest.raises(
        NoRouteError, match="no broker has topic 'missing': create it with `litemq topic create missing`"
    ):
        cluster.write("missing", "missing", 0, _rows(1))
