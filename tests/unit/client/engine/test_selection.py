"""Selections: what callers say, as brokers read it."""

from collections.abc import Sequence

import pytest

from litemq.client.engine.selection import EVERYTHING, Selection, selection_of
from litemq.errors import InvalidArgumentError


def test_tags_or_a_condition() -> None:
    assert selection_of((), "") == EVERYTHING
    assert selection_of("A || B", "") == selection_of(["A", "B"], "") == Selection("A || B")
    assert selection_of((), "price > 10") == Selection("price > 10", is_sql=True)


@pytest.mark.parametrize(
    ("tags", "where", "word"),
    [("A", "price > 10", "choose where="), ((), "  ", "write a condition"), (["A", " "], "", "whole tags"), (["A || B"], "", "whole tags")],
)
def test_a_contradiction_says_what_to_write(tags: str | Sequence[str], where: str, word: str) -> None:
    with pytest.raises(InvalidArgumentError, match=word):
        selection_of(tags, where)
