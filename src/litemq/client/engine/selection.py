"""Message filters: the tags or the SQL condition that brokers evaluate for a reader."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from litemq.client.labels import strings
from litemq.errors import InvalidArgumentError

__all__ = ["EVERYTHING", "Selection", "make_selection"]


class Selection(NamedTuple):
    """A filter: tags as ``A || B``, or an SQL condition; empty text selects every message."""

    text: str = ""
    is_sql: bool = False


EVERYTHING: Final = Selection()


def make_selection(tags: str | Sequence[str], where: str) -> Selection:
    """Build the filter of ``tags="A || B"`` (or a list of tags) or ``where="price > 10"``."""
    if tags and where:
        raise InvalidArgumentError(
            "tags= and where= are both set: use only where=, as in \"tags = 'A' AND price > 10\""
        )
    if where:
        if not isinstance(where, str) or not where.strip():
            raise InvalidArgumentError(f"where={where!r}: write a condition, as in \"price > 10 AND region = 'eu'\"")
        return Selection(where, is_sql=True)
    if isinstance(tags, str):
        return Selection(tags)
    tags = strings(tags, "tags")
    if any("||" in tag or not tag.strip() for tag in tags):
        raise InvalidArgumentError(f"tags={list(tags)!r}: tags must not be empty or contain ||")
    return Selection(" || ".join(tags))
