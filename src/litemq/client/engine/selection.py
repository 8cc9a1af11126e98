"""Which messages of a topic somebody wants, as it is told to the brokers, who look for them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from litemq.errors import InvalidArgumentError

__all__ = ["EVERYTHING", "Selection", "selection_of"]


class Selection(NamedTuple):
    """A filter: tags as ``A || B``, or a condition in SQL; empty for everything."""

    text: str = ""
    is_sql: bool = False


EVERYTHING: Final = Selection()


def selection_of(tags: str | Sequence[str], where: str) -> Selection:
    """What a caller asks for with ``tags="A || B"`` (or a list of tags) or ``where="price > 10"``."""
    if tags and where:
        raise InvalidArgumentError("tags= and where= at once: choose where=, which can say it all, as in \"tags = 'A' AND price > 10\"")
    if where:
        if not isinstance(where, str) or not where.strip():
            raise InvalidArgumentError(f"where={where!r}: write a condition, as in \"price > 10 AND region = 'eu'\"")
        return Selection(where, is_sql=True)
    if isinstance(tags, str):
        return Selection(tags)
    if any("||" in tag or not tag.strip() for tag in tags):
        raise InvalidArgumentError(f"tags={list(tags)!r}: name whole tags, none of them empty or with ||")
    return Selection(" || ".join(tags))
