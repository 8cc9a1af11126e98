"""Dead letters: the complete failed record, and the history of the failure."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from litemq.errors import InvalidArgumentError
from litemq.format.dead_letters import (
    UNDECODABLE,
    DeadLetterHistory,
    DeadSelection,
    dead_topic,
    encode_dead_letter,
    history_from_properties,
    original_record,
)
from litemq.format.limits import MAX_PROPERTIES_BYTES
from litemq.format.record import Stage
from litemq.format.record_decode import decode_record
from litemq.format.record_encode import encode_record
from litemq.types import DeadReason, Record, RecordKind, Stamp

ORIGINAL = Record("orders", b"body", "m-1", ("red",), ("o-1", "c-7"), {"a": "b"}, sharding_key="ann", priority=200)
STAMP = Stamp(4096, 7, 1_000, -1, 16, 3, 1, RecordKind.MESSAGE, 0)
HISTORY = DeadLetterHistory(
    DeadReason.MAX_RETRY,
    "timeout",
    "billing",
    "16/3/7",
    "worker-1",
    "ValueError: bad",
    "a stack",
    17,
    1_234,
    "0011aabbccdd",
)


def test_a_dead_letter_has_the_id_and_the_complete_original() -> None:
    original = encode_record(ORIGINAL, STAMP)
    dead_letter = decode_record(encode_dead_letter(original, HISTORY), stage=Stage.SENT).record
    assert (dead_letter.topic, dead_letter.message_id, dead_letter.tags, dead_letter.keys) == (
        "%DLQ%orders",
        "m-1",
        ("red",),
        ("o-1", "c-7"),
    )
    assert dead_letter.topic == dead_topic("orders")
    assert dead_letter.body == original
    assert original_record(dead_letter) == decode_record(original)
    assert history_from_properties(dead_letter.properties) == HISTORY
    assert dead_letter.properties["litemq-reason"] == "1"
    assert dead_letter.properties["litemq-dead-at"] == "1234"


words = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)


@given(
    st.builds(
        DeadLetterHistory,
        st.sampled_from(DeadReason),
        words,
        words,
        words,
        words,
        words,
        words,
        st.integers(0, 65535),
        st.integers(0, 2**50),
        words,
    )
)
def test_the_history_round_trips(history: DeadLetterHistory) -> None:
    assert history_from_properties(history.properties()) == history


def test_long_histories_are_cut() -> None:
    long = DeadLetterHistory(
        DeadReason.CONSUME_ERROR,
        "d" * 9_999,
        "g" * 127,
        "1/2/3",
        "c" * 9_999,
        "é" * 99_999,
        "first " + "€" * 99_999 + " last",
    )
    read = history_from_properties(
        decode_record(encode_dead_letter(encode_record(ORIGINAL, STAMP), long), stage=Stage.SENT).record.properties
    )
    assert (
        sum(len(name.encode()) + len(value.encode()) + 4 for name, value in long.properties().items())
        < MAX_PROPERTIES_BYTES
    )
    assert read.stack.endswith("€ last")
    assert not read.stack.startswith("first")
    assert read.error.startswith("éé")
    assert len(read.error.encode()) <= 2048


def test_an_invalid_history_is_empty() -> None:
    assert history_from_properties({}) == DeadLetterHistory(DeadReason.CONSUME_ERROR)
    assert history_from_properties(
        {"litemq-reason": "99", "litemq-count": "-4", "litemq-dead-at": "٣"}
    ) == DeadLetterHistory(DeadReason.CONSUME_ERROR)
    assert history_from_properties({"litemq-detail": UNDECODABLE}).is_undecodable
    assert not HISTORY.is_undecodable


def test_another_message_is_not_a_dead_letter() -> None:
    with pytest.raises(InvalidArgumentError, match=r"message m-1 of orders is not a dead letter"):
        original_record(ORIGINAL)


def test_a_refused_record_has_no_stamp() -> None:
    dead_letter = decode_record(
        encode_dead_letter(encode_record(ORIGINAL), DeadLetterHistory(DeadReason.QUEUE_FULL)), stage=Stage.SENT
    ).record
    assert original_record(dead_letter).stamp is None
    assert original_record(dead_letter).record == ORIGINAL


@pytest.mark.parametrize(
    ("selection", "is_meant"),
    [
        (DeadSelection(), True),
        (DeadSelection(message_ids=frozenset({"m-1", "m-2"})), True),
        (DeadSelection(message_ids=frozenset({"m-2"})), False),
        (DeadSelection(since=1_234, until=1_235), True),
        (DeadSelection(since=1_235), False),
        (DeadSelection(until=1_234), False),
        (DeadSelection(reasons=frozenset({DeadReason.MAX_RETRY, DeadReason.FILTERED})), True),
        (DeadSelection(reasons=frozenset({DeadReason.FILTERED})), False),
        (DeadSelection(group="billing", fingerprint="0011aabbccdd"), True),
        (DeadSelection(group="audit"), False),
        (DeadSelection(fingerprint="ffffffffffff"), False),
        (DeadSelection(undecodable=False), True),
        (DeadSelection(undecodable=True), False),
    ],
)
def test_all_criteria_must_match(selection: DeadSelection, is_meant: bool) -> None:
    assert selection.matches("m-1", HISTORY) is is_meant
