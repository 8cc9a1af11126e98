"""Commit of a batch: the same decision at all brokers, whenever a driver dies."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import count

import pytest
from hypothesis import given
from hypothesis import strategies as st

from litemq.errors import InvalidArgumentError, LiteMQError
from litemq.proto.wire_pb2 import (
    AbortSinkRequest,
    CommitSinkRequest,
    DescribeSinkRequest,
    Opcode,
    SinkAnswer,
    SinkShare,
    Winner,
)
from litemq.spark.write.commit import abort, commit, decided_plans

QUERY = "q"


class Died(Exception):  # noqa: N818  it is no error
    """The driver has died."""


class Broker:
    """A broker's handling of halves and decisions."""

    def __init__(self) -> None:
        self.halves: dict[tuple[int, int, int], list[str]] = {}  # batch, partition, attempt
        self.committed = -1
        self.plan = b""
        self.visible: list[str] = []

    def answer(self, opcode: int, header: bytes) -> bytes:
        if opcode == Opcode.COMMIT_SINK:
            self._commit(CommitSinkRequest.FromString(header))
        elif opcode == Opcode.ABORT_SINK:
            batch = AbortSinkRequest.FromString(header).batch
            self.halves = {key: rows for key, rows in self.halves.items() if key[0] != batch}
        else:
            assert DescribeSinkRequest.FromString(header).query == QUERY
        return SinkAnswer(committed_batch=self.committed, plan=self.plan).SerializeToString()

    def _commit(self, request: CommitSinkRequest) -> None:
        if request.batch > self.committed:
            for winner in request.winners:
                if len(self.halves.get((request.batch, winner.partition, winner.attempt), ())) < winner.count:
                    raise InvalidArgumentError("fewer halves than the winner says")
            for winner in request.winners:
                self.visible += self.halves[request.batch, winner.partition, winner.attempt]
            self.committed, self.plan = request.batch, request.plan
        self.halves = {key: rows for key, rows in self.halves.items() if key[0] > self.committed}


class Cluster:
    """Brokers, and a driver that may die before or after any request."""

    def __init__(self, names: str, deaths: Iterator[int]) -> None:
        self.brokers = {name: Broker() for name in names}
        self._deaths = deaths
        self._left = next(deaths)

    def ask(self, broker: str, opcode: int, header: bytes) -> bytes:
        self._may_die()
        answer = self.brokers[broker].answer(opcode, header)
        self._may_die()
        return answer

    def _may_die(self) -> None:
        self._left -= 1
        if self._left == 0:
            self._left = next(self._deaths)
            raise Died


def _run(cluster: Cluster, batch: int, rows: list[list[str]], spread: Iterator[int], attempts: Iterator[int]) -> None:
    """Run a driver and its tasks, one per partition; each row goes to a random broker."""
    names = sorted(cluster.brokers)
    shares: dict[str, list[Winner]] = {}
    decided = False
    for partition, of_task in enumerate(rows):
        if decided_plans(cluster.ask, names, QUERY, batch) is not None:
            decided = True
            continue
        attempt = next(attempts)
        sent: dict[str, list[str]] = {}
        for row in of_task:
            sent.setdefault(names[next(spread) % len(names)], []).append(row)
        for broker, there in sent.items():
            cluster.brokers[broker].halves[batch, partition, attempt] = there
            shares.setdefault(broker, []).append(Winner(partition=partition, attempt=attempt, count=len(there)))
    commit(cluster.ask, names, QUERY, batch, shares, decided=decided)


@given(
    names=st.sampled_from(["a", "ab", "abc"]),
    deaths=st.lists(st.integers(1, 14), max_size=8),
    spread=st.lists(st.integers(0, 5), min_size=1, max_size=24),
    partitions=st.integers(1, 3),
)
def test_each_row_is_there_once_wherever_a_driver_dies(
    names: str, deaths: list[int], spread: list[int], partitions: int
) -> None:
    cluster = Cluster(names, iter([*deaths, 10_000]))
    chance = (spread[number % len(spread)] + number // 7 for number in count())
    attempts = count()
    for batch in range(3):
        rows = [[f"{batch}/{partition}/{number}" for number in range(4)] for partition in range(partitions)]
        while True:
            try:
                _run(cluster, batch, rows, chance, attempts)
            except Died:
                continue
            break
    seen = Counter(row for broker in cluster.brokers.values() for row in broker.visible)
    assert seen == Counter(f"{b}/{p}/{n}" for b in range(3) for p in range(partitions) for n in range(4))


def test_one_broker_needs_no_plan() -> None:
    cluster = Cluster("a", iter([10_000]))
    cluster.brokers["a"].halves[7, 0, 1] = ["row"]
    commit(cluster.ask, ["a"], QUERY, 7, {"a": [Winner(partition=0, attempt=1, count=1)]}, decided=False)
    assert (cluster.brokers["a"].visible, cluster.brokers["a"].plan) == (["row"], b"")


def test_a_faster_drivers_decision_is_followed() -> None:
    """Two concurrent drivers of one query: only the winners of the first decision count."""
    cluster = Cluster("ab", iter([3, 10_000]))  # the first dies when the first broker has decided
    a, b = cluster.brokers["a"], cluster.brokers["b"]
    for attempt in (1, 2):
        a.halves[0, 0, attempt] = [f"x{attempt}"]
        b.halves[0, 0, attempt] = [f"y{attempt}"]
    shares = [{name: [Winner(partition=0, attempt=attempt, count=1)] for name in "ab"} for attempt in (1, 2)]
    with pytest.raises(Died):
        commit(cluster.ask, ["a", "b"], QUERY, 0, shares[0], decided=False)
    assert (a.visible, b.visible) == (["x1"], [])
    commit(cluster.ask, ["a", "b"], QUERY, 0, shares[1], decided=False)
    assert (a.visible, b.visible) == (["x1"], ["y1"])
    assert not b.halves


def test_a_batch_before_the_last_one_decided_changes_nothing() -> None:
    cluster = Cluster("ab", iter([10_000]))
    cluster.brokers["a"].committed = 5
    cluster.brokers["a"].plan = SinkShare(broker="b").SerializeToString()
    assert decided_plans(cluster.ask, ["a", "b"], QUERY, 4) == []
    assert decided_plans(cluster.ask, ["a", "b"], QUERY, 6) is None
    commit(cluster.ask, ["a", "b"], QUERY, 4, {"b": [Winner(partition=0, attempt=1, count=1)]}, decided=False)
    assert cluster.brokers["b"].committed == -1


def test_halves_that_are_gone_stop_the_decision() -> None:
    cluster = Cluster("a", iter([10_000]))
    with pytest.raises(LiteMQError, match="fewer halves"):
        commit(cluster.ask, ["a"], QUERY, 0, {"a": [Winner(partition=0, attempt=1, count=1)]}, decided=False)
    assert cluster.brokers["a"].committed == -1


def test_an_abort_reaches_every_broker() -> None:
    cluster = Cluster("ab", iter([10_000]))
    for broker in cluster.brokers.values():
        broker.halves = {(0, 0, 1): ["x"], (1, 0, 1): ["y"]}
    abort(cluster.ask, ["a", "b"], QUERY, 0)
    assert [list(broker.halves) for broker in cluster.brokers.values()] == [[(1, 0, 1)]] * 2
