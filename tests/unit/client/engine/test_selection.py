"""Filters: the arguments of callers as brokers read them."""

from collections.abc import Sequence

import pytest

from litemq.client.engine.selection import EVERYTHING, Selection, make_selection
from litemq.errors import InvalidArgumentError


def test_tags_or_a_condition() -> None:
    assert make_selection((), "") == EVERYTHING
    assert make_selection("A || B", "") == make_selection(["A", "B"], "") == Selection("A || B")
    assert make_selection((), "price > 10") == Selection("price > 10", is_sql=True)


@pytest.mark.parametrize(
    ("tags", "where", "word"),
    [
        ("A", "price > 10", "use only where="),
        ((), "  ", "write a condition"),
        (["A", " "], "", "must not be empty"),
        (["A || B"], "", "contain"),
    ],
)
def test_an_invalid_filter_says_what_to_write(tags: str | Sequence[str], where: str, word: str) -> None:
    with pytest.raises(InvalidArgumentError, match=word):
        make_selection(tags, where)
