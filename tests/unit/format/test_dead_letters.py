"""A dead letter holds the record that died whole, and its story beside it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from litemq.errors import InvalidArgumentError
from litemq.format.dead_letters import UNDECODABLE, DeadSelection, Story, dead_topic, encode_dead_letter, original_of, story_of
from litemq.format.limits import MAX_PROPERTIES_BYTES
from litemq.format.record import Stage
from litemq.format.record_decode import decode_record
from litemq.format.record_encode import encode_record
from litemq.types import DeadReason, Record, RecordKind, Stamp

ORIGINAL = Record("orders", b"body", "m-1", ("red",), ("o-1", "c-7"), {"a": "b"}, sharding_key="ann", priority=200)
STAMP = Stamp(4096, 7, 1_000, -1, 16, 3, 1, RecordKind.MESSAGE, 0)
STORY = Story(DeadReason.MAX_RETRY, "timeout", "billing", "16/3/7", "worker-1", "ValueError: bad", "a stack", 17, 1_234, "0011aabbccdd")


def test_it_is_found_by_what_died_and_holds_it_whole() -> None:
    original = encode_record(ORIGINAL, STAMP)
    letter = decode_record(encode_dead_letter(original, STORY), stage=Stage.SENT).record
    assert (letter.topic, letter.message_id, letter.tags, letter.keys) == ("%DLQ%orders", "m-1", ("red",), ("o-1", "c-7"))
    assert letter.topic == dead_topic("orders")
    assert letter.body == original
    assert original_of(letter) == decode_record(original)
    assert story_of(letter.properties) == STORY
    assert letter.properties["litemq-reason"] == "1"
    assert letter.properties["litemq-dead-at"] == "1234"


words = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)


@given(
    st.builds(
        Story, st.sampled_from(DeadReason), words, words, words, words, words, words, st.integers(0, 65535), st.integers(0, 2**50), words
    )
)
def test_what_is_written_is_read(story: Story) -> None:
    assert story_of(story.properties()) == story


def test_whatever_is_told_fits() -> None:
    long = Story(DeadReason.CONSUME_ERROR, "d" * 9_999, "g" * 127, "1/2/3", "c" * 9_999, "é" * 99_999, "first " + "€" * 99_999 + " last")
    read = story_of(decode_record(encode_dead_letter(encode_record(ORIGINAL, STAMP), long), stage=Stage.SENT).record.properties)
    assert sum(len(name.encode()) + len(value.encode()) + 4 for name, value in long.properties().items()) < MAX_PROPERTIES_BYTES
    assert read.stack.endswith("€ last")
    assert not read.stack.startswith("first")
    assert read.error.startswith("éé")
    assert len(read.error.encode()) <= 2048


def test_a_story_that_makes_no_sense_is_empty() -> None:
    assert story_of({}) == Story(DeadReason.CONSUME_ERROR)
    assert story_of({"litemq-reason": "99", "litemq-count": "-4", "litemq-dead-at": "٣"}) == Story(DeadReason.CONSUME_ERROR)
    assert story_of({"litemq-detail": UNDECODABLE}).is_undecodable
    assert not STORY.is_undecodable


def test_what_is_no_dead_letter_says_so() -> None:
    with pytest.raises(InvalidArgumentError, match=r"message m-1 of orders is no dead letter"):
        original_of(ORIGINAL)


def test_what_was_refused_at_once_was_never_stamped() -> None:
    letter = decode_record(encode_dead_letter(encode_record(ORIGINAL), Story(DeadReason.QUEUE_FULL)), stage=Stage.SENT).record
    assert original_of(letter).stamp is None
    assert original_of(letter).record == ORIGINAL


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
def test_all_that_is_said_must_fit(selection: DeadSelection, is_meant: bool) -> None:
    assert selection.matches("m-1", STORY) is is_meant
