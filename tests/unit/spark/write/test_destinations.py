"""Destination queues: the client's choice for a key, or any queue."""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from litemq.client.engine.routes import BrokerAddress, Route, queue_for_key
from litemq.errors import InvalidArgumentError, NoRouteError
from litemq.spark.write.destinations import Queue, TopicQueues, portions
from litemq.types import Durability, priority_class

DISK = Durability.DISK
PLAIN = Route("orders", (BrokerAddress("a", "h", 1, 2, DISK), BrokerAddress("b", "h", 2, 3, DISK)))
PRIORITIES = Route(
    "orders", (BrokerAddress("a", "h", 1, 16, DISK, has_priorities=True), BrokerAddress("b", "h", 2, 4, DISK))
)


def _rows(**columns: Sequence[object]) -> pa.RecordBatch:
    types = {"ordering_key": pa.string(), "topic": pa.string(), "priority": pa.int32(), "body": pa.binary()}
    return pa.record_batch({name: pa.array(values, types[name]) for name, values in columns.items()})


def _all(rows: pa.RecordBatch, route: Route = PLAIN) -> list[tuple[Queue | None, int, list[bytes]]]:
    queues = TopicQueues(route)
    return [(p.queue, p.priority_class, p.rows["body"].to_pylist()) for p in portions(rows, "orders", lambda _: queues)]


def test_without_a_key_a_batch_stays_together() -> None:
    assert _all(_rows(body=[b"1", b"2"])) == [(None, 0, [b"1", b"2"])]
    assert _all(_rows(body=[b"1", b"2"], ordering_key=[None, ""])) == [(None, 0, [b"1", b"2"])]
    assert _all(_rows(body=[], ordering_key=[])) == []


@given(st.lists(st.text(max_size=6) | st.none(), min_size=1, max_size=40))
def test_a_key_goes_where_a_client_sends_it(keys: list[str | None]) -> None:
    bodies = [str(number).encode() for number in range(len(keys))]
    order: dict[bytes, Queue | None] = {}
    for queue, _, taken in _all(_rows(body=bodies, ordering_key=keys)):
        assert taken == sorted(taken, key=int)  # in the order of the batch
        order |= dict.fromkeys(taken, queue)
    places = PLAIN.queues
    for body, key in zip(bodies, keys, strict=True):
        place = order[body]
        assert (place and place[:2]) == (places[queue_for_key(key, len(places))] if key else None)


@given(st.lists(st.tuples(st.integers(0, 255) | st.none(), st.sampled_from(["", "k", "l"])), min_size=1, max_size=40))
def test_a_priority_has_queues_of_its_own(rows: list[tuple[int | None, str]]) -> None:
    bodies = [str(number).encode() for number in range(len(rows))]
    found = _all(_rows(body=bodies, priority=[r[0] for r in rows], ordering_key=[r[1] for r in rows]), PRIORITIES)
    classes = {body: (number, queue) for queue, number, taken in found for body in taken}
    for body, (priority, key) in zip(bodies, rows, strict=True):
        number, queue = classes[body]
        assert number == priority_class(128 if priority is None else priority)
        assert (queue is None) is (key == "")
        if queue is not None:
            assert queue.broker == "a"  # b has the topic without priorities
            assert queue.queue_id == number + 8 * queue_for_key(key, 2)


def test_turns_go_over_brokers_first_and_over_all_queues() -> None:
    queues = TopicQueues(PLAIN)
    taken = [queues.next(0)[:2] for _ in range(10)]
    assert sorted(taken[:5]) == sorted(PLAIN.queues)
    assert taken[:5] == taken[5:]
    silent = TopicQueues(Route("orders", (PLAIN.brokers[0]._replace(alive=False), PLAIN.brokers[1])))
    assert {silent.next(0).broker for _ in range(10)} == {"b"}
    all_silent = TopicQueues(Route("orders", tuple(place._replace(alive=False) for place in PLAIN.brokers)))
    assert {all_silent.next(0).broker for _ in range(10)} == {"a", "b"}
    of_class = TopicQueues(PRIORITIES)
    assert {of_class.next(3).queue_id for _ in range(10)} == {3, 11}


def test_topics_of_rows() -> None:
    rows = _rows(body=[b"1", b"2", b"3", b"4"], topic=["x", None, "y", "x"])
    asked = []

    def queues_of(topic: str) -> TopicQueues:
        asked.append(topic)
        return TopicQueues(PLAIN._replace(topic=topic))

    found = {p.to.topic: p.rows["body"].to_pylist() for p in portions(rows, "orders", queues_of)}
    assert found == {"x": [b"1", b"4"], "orders": [b"2"], "y": [b"3"]}
    assert sorted(asked) == ["orders", "x", "y"]
    with pytest.raises(InvalidArgumentError, match="topic is null in 1 rows"):
        list(portions(rows, "", queues_of))


def test_what_cannot_be_routed() -> None:
    with pytest.raises(InvalidArgumentError, match="priority=3: topic 'orders' has no priorities"):
        _all(_rows(body=[b"1", b"2"], priority=[128, 3]))
    with pytest.raises(InvalidArgumentError, match="priority of -1 … 256"):
        _all(_rows(body=[b"1", b"2"], priority=[-1, 256]), PRIORITIES)
    with pytest.raises(NoRouteError):
        TopicQueues(Route("orders", ()))
    assert TopicQueues(PLAIN).priority_classes(np.array([128, 128])).tolist() == [0, 0]
