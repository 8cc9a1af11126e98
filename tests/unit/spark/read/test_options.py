"""Options of the source, named as in Spark's Kafka source, and their conflicts."""

from typing import Literal

import pytest

from litemq.errors import InvalidArgumentError
from litemq.spark.read.options import EARLIEST, LATEST, ReadOptions, Start, parse_read_options

Kind = Literal["batch", "stream", "either"]


def parse(kind: Kind = "batch", **options: str) -> ReadOptions:
    return parse_read_options({"url": "litemq://here", "subscribe": "orders", **options}, kind)


def test_the_least_that_must_be_said() -> None:
    assert parse() == ReadOptions("litemq://here", ("orders",))
    assert parse("stream").start == Start(LATEST)


def test_a_stream_may_begin_with_what_comes_next_and_a_batch_not() -> None:
    assert parse("stream", startingOffsets="earliest").start.default == EARLIEST
    with pytest.raises(InvalidArgumentError, match="there is nothing after the latest"):
        parse(startingOffsets="latest")
    with pytest.raises(InvalidArgumentError, match="there is nothing before the earliest"):
        parse(endingOffsets="earliest")


def test_offsets_and_times_of_queues() -> None:
    options = parse(
        startingOffsets='{"orders": {"0": 5, "broker-a/1": -2}}',
        endingOffsetsByTimestamp='{"orders": {"0": "1970-01-01T00:00:01Z"}}',
    )
    assert options.start.offsets == {"orders": {"0": 5, "broker-a/1": -2}}
    assert options.end.times_ms == {"orders": {"0": 1000}}


def test_a_time_for_all_comes_first_then_times_then_offsets() -> None:
    offsets, times = '{"orders": {"0": 5}}', '{"orders": {"0": 7}}'
    assert parse(startingOffsets=offsets, startingOffsetsByTimestamp=times, startingTimestamp="9").start == Start(
        EARLIEST, time_ms=9
    )
    assert parse(startingOffsets=offsets, startingOffsetsByTimestamp=times).start == Start(
        EARLIEST, times_ms={"orders": {"0": 7}}
    )


def test_queues_can_be_named_by_number_and_broker() -> None:
    options = parse_read_options({"url": "u", "assign": '{"orders": [0, "broker-a/1"]}'}, "batch")
    assert options.assigned == {"orders": ("0", "broker-a/1")}


@pytest.mark.parametrize(
    ("kind", "options", "said"),
    [
        ("batch", {"subscribePattern": "o.*"}, "exactly one of subscribe, subscribePattern and assign: they exclude"),
        ("batch", {"maxOffsetsPerTrigger": "5"}, "maxOffsetsPerTrigger is for spark.readStream only"),
        ("batch", {"groupId": "a"}, "groupId is for spark.readStream only"),
        ("stream", {"endingOffsets": "latest"}, "a stream has no end"),
        ("stream", {"storedAfter": "5"}, "use startingTimestamp"),
        ("stream", {"groupId": "a", "groupIdPrefix": "b"}, "exclude each other"),
        ("batch", {"startingOffsets": '{"orders": {"0": -3}}'}, "invalid offset -3"),
        ("batch", {"startingOffsets": '{"orders": {"0": true}}'}, "invalid offset True"),
        ("batch", {"startingOffsets": '{"orders": 5}'}, "topic 'orders': write it like"),
        ("batch", {"startingOffsets": "early"}, "is not valid JSON"),
        ("batch", {"starting": "earliest"}, "no option 'starting'. Did you mean 'startingOffsets'"),
    ],
)
def test_what_makes_no_sense_is_refused(kind: Kind, options: dict[str, str], said: str) -> None:
    with pytest.raises(InvalidArgumentError) as caught:
        parse(kind, **options)
    assert said in str(caught.value)


def test_something_must_be_named() -> None:
    with pytest.raises(InvalidArgumentError, match=r'for example .option\("subscribe", "orders"\)'):
        parse_read_options({"url": "u"}, "batch")
    with pytest.raises(InvalidArgumentError, match="needs the option url"):
        parse_read_options({"subscribe": "orders"}, "batch")
    with pytest.raises(InvalidArgumentError, match="option assign, topic 'orders'"):
        parse_read_options({"url": "u", "assign": '{"orders": []}'}, "batch")


def test_reads_go_to_the_master_or_to_a_replica() -> None:
    assert parse().read_from == parse(readFrom="master").read_from == "master"
    assert parse(readFrom="Replica").read_from == "replica"
    with pytest.raises(InvalidArgumentError, match="option readFrom='follower': choose master or replica"):
        parse(readFrom="follower")
