"""Planning of reads: every message once, within the limits, and no silent loss."""

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from litemq.errors import CheckpointMismatchError, DataLossError, InvalidArgumentError, TopicNotFoundError
from litemq.spark.brokers import BrokerTopic, QueueBounds
from litemq.spark.fetch import QueueSpan
from litemq.spark.read.options import EARLIEST, LATEST, ReadOptions, Start
from litemq.spark.read.planning import (
    Offsets,
    admitted_offsets,
    batch_spans,
    chosen_queues,
    chosen_topics,
    edge_offsets,
    pack_tasks,
    resumed_offsets,
    spans_between,
)

PLACES = [BrokerTopic("a", "orders", 2), BrokerTopic("b", "orders", 1), BrokerTopic("a", "users", 1)]


def queue(
    number: int = 0,
    start_offset: int = 0,
    end_offset: int = 10,
    *,
    broker: str = "a",
    topic: str = "orders",
    identity: str = "16@1",
) -> QueueBounds:
    return QueueBounds(broker, topic, number, start_offset, end_offset, identity)


def options(**given: object) -> ReadOptions:
    return ReadOptions("litemq://here", **given)  # type: ignore[arg-type]


def never(_queue: QueueBounds, _ms: int) -> int:
    raise AssertionError("the plan needs no time")


# Which queues


def test_topics_by_name_and_by_pattern() -> None:
    assert chosen_topics(options(topics=("orders",)), PLACES) == PLACES[:2]
    assert chosen_topics(options(pattern=re.compile("us.*")), PLACES) == PLACES[2:]
    assert chosen_topics(options(pattern=re.compile("order")), PLACES) == []


def test_the_error_for_a_wrong_name_suggests_the_nearest() -> None:
    with pytest.raises(
        TopicNotFoundError,
        match=r"no broker has topic 'ordrs'. Did you mean 'orders'\? Create it .* existing topics: orders, users",
    ):
        chosen_topics(options(topics=("ordrs",)), PLACES)
    with pytest.raises(InvalidArgumentError, match="set includeSystem to true"):
        chosen_topics(options(topics=("%DLQ%orders",)), PLACES)


def test_queues_by_number_are_those_of_all_brokers() -> None:
    queues = [queue(0), queue(1), queue(0, broker="b")]
    assert chosen_queues(options(), queues) == queues
    assert chosen_queues(options(assigned={"orders": ("0",)}), queues) == [queues[0], queues[2]]
    assert chosen_queues(options(assigned={"orders": ("b/0", "b/0")}), queues) == [queues[2]]
    with pytest.raises(
        InvalidArgumentError, match="option assign: topic 'orders' has no queue '2'; its queues are a/0, a/1, b/0"
    ):
        chosen_queues(options(assigned={"orders": ("2",)}), queues)


# Where they begin and end


def test_edges() -> None:
    queues = [queue(0, 3, 10), queue(1, 0, 5)]
    assert edge_offsets(Start(EARLIEST), queues, never, "o") == {"orders/a/0": 3, "orders/a/1": 0}
    assert edge_offsets(Start(LATEST), queues, never, "o") == {"orders/a/0": 10, "orders/a/1": 5}
    assert edge_offsets(Start(EARLIEST, offsets={"orders": {"0": 7, "a/1": -1}}), queues, never, "o") == {
        "orders/a/0": 7,
        "orders/a/1": 5,
    }
    assert edge_offsets(Start(EARLIEST, time_ms=4), queues, lambda _queue, ms: ms, "o") == {
        "orders/a/0": 4,
        "orders/a/1": 4,
    }
    at_end = edge_offsets(Start(LATEST, times_ms={"orders": {"0": 99}}), queues, lambda _queue, ms: ms, "o")
    assert at_end == {"orders/a/0": 10, "orders/a/1": 5}, "nothing above what is confirmed"
    with pytest.raises(InvalidArgumentError, match="option o: topic 'users' has no queue '0'; its queues are none"):
        edge_offsets(Start(EARLIEST, offsets={"users": {"0": 7}}), queues, never, "o")


def test_a_batch_says_what_is_not_there() -> None:
    queues = [queue(0, 3, 10)]
    assert batch_spans({"orders/a/0": 3}, {"orders/a/0": 8}, queues, fail_on_data_loss=True) == [
        QueueSpan("a", "orders", 0, 3, 8)
    ]
    assert batch_spans({"orders/a/0": 10}, {"orders/a/0": 10}, queues, fail_on_data_loss=True) == []
    for first, last in ((2, 8), (5, 11), (11, 11)):
        with pytest.raises(DataLossError, match=r"it has 3 … 10\. Request those"):
            batch_spans({"orders/a/0": first}, {"orders/a/0": last}, queues, fail_on_data_loss=True)
    assert batch_spans({"orders/a/0": 0}, {"orders/a/0": 50}, queues, fail_on_data_loss=False) == [
        QueueSpan("a", "orders", 0, 3, 10)
    ]


# A stream


def test_offsets_are_the_same_text_when_they_are_equal() -> None:
    one, other = Offsets({"b": 1, "a": 2}, {"y": "1", "x": "2"}), Offsets({"a": 2, "b": 1}, {"x": "2", "y": "1"})
    assert json.dumps(one.to_json()) == json.dumps(other.to_json())
    assert Offsets.from_json(json.loads(json.dumps(one.to_json()))) == one


@pytest.mark.parametrize(
    "stored", [{}, {"queues": 5, "topics": {}}, {"queues": {"a": "x"}, "topics": {}}, {"orders": {"0": 5}}]
)
def test_a_checkpoint_of_another_source_is_found_out(stored: dict[str, object]) -> None:
    with pytest.raises(CheckpointMismatchError, match="was not written by the litemq source"):
        Offsets.from_json(stored)


def test_a_stream_goes_on_where_it_was_and_new_queues_begin_at_their_beginning() -> None:
    start = Offsets({"orders/a/0": 5}, {"orders/a": "16@1"})
    now = resumed_offsets(start, [queue(0), queue(1, 2), queue(0, broker="b", identity="9@9")], fail_on_data_loss=True)
    assert now.queues == {"orders/a/0": 5, "orders/a/1": 2, "orders/b/0": 0}
    assert now.topics == {"orders/a": "16@1", "orders/b": "9@9"}


def test_a_topic_that_is_not_wanted_any_more_is_forgotten() -> None:
    start = Offsets({"users/a/0": 5, "orders/a/0": 1}, {"users/a": "17@1", "orders/a": "16@1"})
    assert resumed_offsets(start, [queue(0)], fail_on_data_loss=True).queues == {"orders/a/0": 1}


@pytest.mark.parametrize(
    ("at", "identity", "said"),
    [
        (
            1,
            "16@1",
            r"offsets 1 … 2 were lost .* deleted by retention\. To continue without them, set failOnDataLoss to false",
        ),
        (1, "16@0", r"offsets 1 … 2 were lost .* then recreated"),
    ],
)
def test_what_is_lost_is_said_or_left_out(at: int, identity: str, said: str) -> None:
    start = Offsets({"orders/a/0": at}, {"orders/a": identity})
    with pytest.raises(DataLossError, match=said):
        resumed_offsets(start, [queue(0, 3)], fail_on_data_loss=True)
    assert resumed_offsets(start, [queue(0, 3)], fail_on_data_loss=False).queues == {"orders/a/0": 3}


def test_queues_that_are_gone_are_a_loss() -> None:
    start = Offsets({"orders/a/0": 3, "orders/a/1": 3}, {"orders/a": "16@1"})
    with pytest.raises(DataLossError, match="orders/a/1: the query has read these queues before"):
        resumed_offsets(start, [queue(0)], fail_on_data_loss=True)
    assert resumed_offsets(start, [queue(0)], fail_on_data_loss=False).queues == {"orders/a/0": 3}


@pytest.mark.parametrize("fail_on_data_loss", [True, False])
@pytest.mark.parametrize(("at", "identity"), [(11, "16@1"), (11, "16@2"), (5, "16@2")])
def test_another_cluster_is_never_read_by_mistake(at: int, identity: str, fail_on_data_loss: bool) -> None:
    start = Offsets({"orders/a/0": at}, {"orders/a": identity})
    with pytest.raises(CheckpointMismatchError, match="it belongs to another cluster, or its broker has lost its data"):
        resumed_offsets(start, [queue(0, 3, 10)], fail_on_data_loss=fail_on_data_loss)


def test_a_recreated_topic_continues_where_it_was_read_to_its_end() -> None:
    start = Offsets({"orders/a/0": 3}, {"orders/a": "16@1"})
    assert resumed_offsets(start, [queue(0, 3, 10, identity="17@5")], fail_on_data_loss=True).topics == {
        "orders/a": "17@5"
    }


def test_a_new_queue_is_read_from_the_next_batch_on() -> None:
    now = Offsets({"orders/a/0": 5, "orders/a/1": 2}, {})
    end = admitted_offsets(now, {"orders/a/0": 5}, {"orders/a/0": 9, "orders/a/1": 9}, None)
    assert end.queues == {"orders/a/0": 9, "orders/a/1": 2}
    assert spans_between(Offsets({"orders/a/0": 5}, {}), end) == [QueueSpan("a", "orders", 0, 5, 9)]


@given(
    st.dictionaries(
        st.sampled_from([f"t/b/{i}" for i in range(6)]), st.tuples(st.integers(0, 50), st.integers(0, 50)), min_size=1
    ),
    st.integers(1, 120),
)
def test_no_more_than_allowed_and_in_the_end_everything(queues: dict[str, tuple[int, int]], limit: int) -> None:
    latest = {name: at + more for name, (at, more) in queues.items()}
    now = Offsets({name: at for name, (at, _) in queues.items()}, {})
    for _ in range(sum(more for _, more in queues.values()) + 1):
        end = admitted_offsets(now, now.queues, latest, limit)
        rows = sum(span.end - span.begin for span in spans_between(now, end))
        left = sum(latest[name] - at for name, at in now.queues.items())
        assert rows == min(limit, left)
        now = end
    assert now.queues == latest


# Tasks

_SPANS = st.lists(
    st.builds(
        lambda b, t, q, first, n: QueueSpan(b, t, q, first, first + n),
        st.sampled_from("ab"),
        st.sampled_from(["t", "u"]),
        st.integers(0, 3),
        st.integers(0, 9),
        st.integers(1, 9000),
    ),
    unique_by=lambda span: span[:3],
)


@given(_SPANS, st.integers(1, 9) | st.none(), st.integers(1, 5000) | st.none(), st.integers(1, 4000))
def test_tasks_have_every_message_once(
    spans: list[QueueSpan], min_tasks: int | None, limit: int | None, row_bytes: int
) -> None:
    limit = None if limit is None else max(limit, 50)
    parts = pack_tasks(
        spans,
        lambda topic: row_bytes * (1 + (topic == "u")),
        min_tasks=min_tasks,
        max_records=limit,
        partition_bytes=1 << 20,
    )
    pieces = sorted(piece for part in parts for piece in part)
    joined: list[QueueSpan] = []
    for piece in pieces:
        if joined and joined[-1][:3] == piece[:3]:
            assert joined[-1].end == piece.begin
            joined[-1] = joined[-1]._replace(end=piece.end)
        else:
            joined.append(piece)
    assert joined == sorted(spans)
    assert all(piece.begin < piece.end for piece in pieces)
    rows = sum(span.end - span.begin for span in spans)
    if min_tasks is not None and rows:
        assert len(parts) >= min(min_tasks, rows) * 0.5
    if limit is not None:
        assert all(sum(piece.end - piece.begin for piece in part) <= limit for part in parts)


def test_few_messages_are_one_task_and_many_are_of_one_size() -> None:
    few = [QueueSpan("a", "t", number, 0, 100) for number in range(4)]
    assert len(pack_tasks(few, lambda _: 1e9)) == 1
    many = [QueueSpan(broker, "t", number, 0, 100_000) for number in range(4) for broker in "ab"]
    parts = pack_tasks(many, lambda _: 1024.0)
    assert len(parts) == 13
    rows = [sum(piece.end - piece.begin for piece in part) for part in parts]
    assert max(rows) - min(rows) <= 1
    assert len(pack_tasks(few, lambda _: 1.0, min_tasks=8)) == 8
