"""Filters: preselection by queue entries, and the decision by the record."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from litemq.errors import FilterSyntaxError
from litemq.filters.filter import MAX_FILTER_CHARACTERS, Filter, parse_filter
from litemq.format.batches.stamp import QUEUE_ENTRY
from litemq.format.record_encode import encode_record, hash_tags
from litemq.format.record_view import RecordView
from litemq.types import Record

STRING_LIST = st.sampled_from(["A", "B", "C", "订单"])


def _entries(tags: list[tuple[str, ...]]) -> np.ndarray:
    entries = np.zeros(len(tags), QUEUE_ENTRY)
    entries["tag_hash"] = [hash_tags([tag.encode() for tag in each]) for each in tags]
    return entries


def _view(tags: tuple[str, ...], **properties: str) -> RecordView:
    return RecordView(encode_record(Record("orders", tags=tags, properties=properties)))


def _filter(text: str, *, is_sql: bool = False) -> Filter:
    found = parse_filter(text, is_sql=is_sql)
    assert found is not None
    return found


@given(
    st.lists(st.lists(STRING_LIST, max_size=3).map(tuple), max_size=20), st.sets(STRING_LIST, min_size=1), st.booleans()
)
def test_a_candidate_is_every_record_that_is_accepted(
    tags: list[tuple[str, ...]], wanted: set[str], is_sql: bool
) -> None:
    text = " OR ".join(f"tags = '{tag}'" for tag in sorted(wanted)) if is_sql else " || ".join(wanted)
    chosen = _filter(text, is_sql=is_sql)
    marks = chosen.candidates(_entries(tags)).tolist()
    for each, mark in zip(tags, marks, strict=True):
        accepted = chosen.accepts(_view(each))
        assert accepted == bool(wanted & set(each))
        assert mark or not accepted
        if len(each) < 2:
            assert mark == accepted  # of one tag, or none, the entry says it all


def test_the_record_decides_if_hashes_collide() -> None:
    """Another tag with the same hash is a candidate, and is not accepted."""
    wanted = _filter("A")
    assert wanted.candidates(_entries([("A",)])).all()
    assert not wanted.accepts(_view(("B",)))


@pytest.mark.parametrize(
    ("text", "narrows"),
    [
        ("tags = 'A' AND n > 5", True),
        ("n > 5 AND tags IN ('A', 'B')", True),
        ("tags = 'A' OR tags = 'B'", True),
        ("tags = 'A' OR n > 5", False),
        ("NOT tags = 'A'", False),
        ("tags <> 'A'", False),
        ("keys = 'A'", False),
        ("tags LIKE 'A%'", False),
    ],
)
def test_conditions_use_the_tag_hashes_of_entries_if_that_is_safe(text: str, narrows: bool) -> None:
    marks = _filter(text, is_sql=True).candidates(_entries([("A",), ("C",), (), ("A", "C")])).tolist()
    assert marks == [True, not narrows, not narrows, True]


@pytest.mark.parametrize("text", ["", "*", " * "])
def test_a_filter_that_accepts_everything_is_none(text: str) -> None:
    assert parse_filter(text, is_sql=False) is None


@pytest.mark.parametrize(
    "text",
    ["A ||", "|| A", "A || || B", "A || *", " ", "||".join("ABC" * 30), "x" * 256, "x" * (MAX_FILTER_CHARACTERS + 1)],
)
def test_invalid_tags_are_refused(text: str) -> None:
    with pytest.raises(FilterSyntaxError):
        parse_filter(text, is_sql=False)


def test_a_filter_is_parsed_once() -> None:
    assert parse_filter("n > 1", is_sql=True) is parse_filter("n > 1", is_sql=True)


def test_unknown_is_rejected() -> None:
    chosen = _filter("n > 1", is_sql=True)
    assert chosen.accepts(_view((), n="2"))
    assert not chosen.accepts(_view((), n="two"))
    assert not chosen.accepts(_view(()))
