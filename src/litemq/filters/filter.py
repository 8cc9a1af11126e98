"""Filters: which messages of a topic somebody wants, said in tags (``A || B``) or as a condition (``price > 10 AND tags = 'A'``).

Tags are looked for in the queue's entries first, by column: a record is read only where its entry's hash may be that of a wanted tag. The hash
only narrows the search, the record decides.
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
    """What is wanted. ``accepts`` decides on a record; ``candidates`` says, by queue entry, which records are worth a look."""

    __slots__ = ("_hashes", "accepts")

    def __init__(self, accepts: Callable[[RecordView], bool], tags: frozenset[str] | None) -> None:
        """``tags``: a record that is accepted has one of these; ``None``: it may have any, or none."""
        self.accepts = accepts
        self._hashes = None if tags is None else np.array(sorted(hash_tags([tag.encode()]) for tag in tags), np.uint32)

    @property
    def narrows(self) -> bool:
        """Whether entries alone can rule records out."""
        return self._hashes is not None

    def candidates(self, entries: npt.NDArray[np.void]) -> Marks:
        """Marks the queue entries whose records may be wanted; of all others it is certain that they are not."""
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
    """The filter that a request names; ``None`` where everything is wanted. Raises ``FilterSyntaxError`` with what is wrong."""
    if not text:
        if is_sql:
            raise FilterSyntaxError("an empty condition: write one, or leave the filter out")
        return None
    if len(text) > MAX_FILTER_CHARACTERS:
        raise FilterSyntaxError(f"a filter of {len(text)} characters: at most {MAX_FILTER_CHARACTERS} are allowed")
    return _parse(text, is_sql)


@lru_cache(_MAX_CACHED_FILTERS)
def _parse(text: str, is_sql: bool) -> Filter | None:
    if is_sql:
        # Its parser takes as long to load as all else of a broker, and few need it.
        from litemq.filters.sql import parse_condition

        holds, tags = parse_condition(text)
        return Filter(lambda record: holds(record) is True, tags)
    any_of = _parse_tags(text)
    if any_of is None:
        return None
    return Filter(lambda record: not any_of.isdisjoint(record.tags), any_of)


def _parse_tags(text: str) -> frozenset[str] | None:
    """The tags of ``A || B``; ``None`` for ``*``, which is any."""
    if text.strip() == "*":
        return None
    tags = [tag.strip() for tag in text.split("||")]
    if not all(tags) or "*" in tags:
        raise FilterSyntaxError(f"tags {text[:64]!r}: write them as 'A || B', or '*' for everything")
    if len(tags) > MAX_TAGS:
        raise FilterSyntaxError(f"a filter of {len(tags)} tags: at most {MAX_TAGS} are allowed")
    for tag in tags:
        try:
            size = len(tag.encode())
        except UnicodeEncodeError:
            raise FilterSyntaxError(f"tag {tag[:64]!r} cannot be written as UTF-8") from None
        if size > MAX_TAG_BYTES:
            raise FilterSyntaxError(f"tag {tag[:64]!r}… of {size} bytes: a tag has at most {MAX_TAG_BYTES}")
    return frozenset(tags)
