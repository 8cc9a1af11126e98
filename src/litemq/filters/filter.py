"""A filter by tags (``A || B``) or by a condition (``price > 10 AND tags = 'A'``).

The filter first compares the tag hashes in the queue entries, so that the broker reads only records
that may match. Hashes can collide: the record decides.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Final

import numpy as np
import numpy.typing as npt

from litemq.errors import FilterSyntaxError
from litemq.format.limits import MAX_TAG_BYTES, MAX_TAGS
from litemq.format.record import SEVERAL_TAGS
from litemq.format.record_encode import hash_tags
from litemq.format.record_view import RecordView

__all__ = ["MAX_FILTER_CHARACTERS", "Filter", "parse_filter"]

MAX_FILTER_CHARACTERS: Final = 4096
_MAX_CACHED_FILTERS: Final = 1024  # each pull carries its filter as text

Marks = npt.NDArray[np.bool_]


class Filter:
    """A compiled filter. ``candidates`` preselects queue entries, ``accepts`` decides."""

    __slots__ = ("_hashes", "accepts")

    def __init__(self, accepts: Callable[[RecordView], bool], tags: frozenset[str] | None) -> None:
        """Every accepted record has one of ``tags``; ``None``: tags do not decide."""
        self.accepts = accepts
        self._hashes = None if tags is None else np.array(sorted(hash_tags([tag.encode()]) for tag in tags), np.uint32)

    @property
    def narrows(self) -> bool:
        """Whether ``candidates`` can exclude records."""
        return self._hashes is not None

    def candidates(self, entries: npt.NDArray[np.void]) -> Marks:
        """Return a mask of the queue entries whose records may match."""
        hashes = self._hashes
        if hashes is None:
            return np.ones(entries.size, np.bool_)
        column = entries["tag_hash"].astype(np.uint32)
        marks: Marks = column == SEVERAL_TAGS
        if hashes.size == 1:
            marks |= column == hashes[0]
        elif hashes.size:
            marks |= np.isin(column, hashes)
        return marks


def parse_filter(text: str, *, is_sql: bool) -> Filter | None:
    """Parse a filter; ``None`` accepts everything. Raise ``FilterSyntaxError`` if it is invalid."""
    if not text:
        if is_sql:
            raise FilterSyntaxError("the condition is empty: write one, or omit the filter")
        return None
    if len(text) > MAX_FILTER_CHARACTERS:
        raise FilterSyntaxError(f"a filter of {len(text)} characters: use at most {MAX_FILTER_CHARACTERS}")
    return _parse(text, is_sql)


@lru_cache(_MAX_CACHED_FILTERS)
def _parse(text: str, is_sql: bool) -> Filter | None:
    if is_sql:
        # Import late: sqlglot takes as long to load as the rest of a broker; few filters need it.
        from litemq.filters.sql import parse_condition

        holds, tags = parse_condition(text)
        return Filter(lambda record: holds(record) is True, tags)
    any_of = _parse_tags(text)
    if any_of is None:
        return None
    return Filter(lambda record: not any_of.isdisjoint(record.tags), any_of)


def _parse_tags(text: str) -> frozenset[str] | None:
    """Parse ``A || B``; return ``None`` for ``*``."""
    if text.strip() == "*":
        return None
    tags = [tag.strip() for tag in text.split("||")]
    if not all(tags) or "*" in tags:
        raise FilterSyntaxError(f"tags {text[:64]!r}: write 'A || B', or '*' for all messages")
    if len(tags) > MAX_TAGS:
        raise FilterSyntaxError(f"a filter of {len(tags)} tags: use at most {MAX_TAGS}")
    for tag in tags:
        try:
            size = len(tag.encode())
        except UnicodeEncodeError:
            raise FilterSyntaxError(f"tag {tag[:64]!r} is not encodable as UTF-8") from None
        if size > MAX_TAG_BYTES:
            raise FilterSyntaxError(f"tag {tag[:64]!r}… of {size} bytes: use at most {MAX_TAG_BYTES}")
    return frozenset(tags)
