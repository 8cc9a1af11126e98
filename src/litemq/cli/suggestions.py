"""Suggestions for misspelt topics and groups: the closest name, if the cluster answers quickly."""

from __future__ import annotations

import asyncio
import contextlib
import difflib
import re
from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING, Final

from litemq.errors import GroupNotFoundError, LiteMQError, PartialAnswerError, TopicNotFoundError

if TYPE_CHECKING:
    from litemq import AsyncClient

__all__ = ["closest", "names_of", "with_suggestion"]

_NAMES_S: Final = 1.0  # how long to wait for the names
_NAMED: Final = re.compile(r"\b(?:topic|group) '([^']+)'")


def closest(name: str, names: Iterable[str]) -> str:
    """Return ``; did you mean …?`` with the name nearest to ``name``, or nothing."""
    near = difflib.get_close_matches(name, names, n=1, cutoff=0.7)
    return f"; did you mean {near[0]!r}?" if near else ""


async def names_of(mq: AsyncClient, kind: str, within_s: float = _NAMES_S) -> Collection[str]:
    """Return the names of all topics or groups (``kind``) that brokers tell within ``within_s``."""
    try:
        async with asyncio.timeout(within_s):
            if kind == "topic":
                return await mq.admin.topics()
            return [one.group for one in await mq.admin.groups()]
    except PartialAnswerError as error:
        return list(error.answer) if kind == "topic" else [one.group for one in error.answer]


async def with_suggestion(mq: AsyncClient, error: TopicNotFoundError | GroupNotFoundError) -> LiteMQError:
    """Return ``error`` with the name that the user may have meant.

    The cluster has just answered that the name is unknown, so that it answers again.
    """
    kind = "topic" if isinstance(error, TopicNotFoundError) else "group"
    named = _NAMED.search(str(error))
    if named is None:
        return error
    with contextlib.suppress(LiteMQError, TimeoutError):
        return type(error)(f"{error}{closest(named[1], await names_of(mq, kind))}")
    return error
