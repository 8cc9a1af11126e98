"""Where the logs of a follower and its master part, found by their epochs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

__all__ = ["EpochStart", "common_end"]


class EpochStart(NamedTuple):
    """An epoch, and the log offset of its first record."""

    number: int
    start_offset: int


def common_end(mine: Sequence[EpochStart], mine_end: int, other: Sequence[EpochStart], other_end: int) -> int:
    """Return the log offset up to which two logs are the same.

    Each epoch has one writer, who had everything before it: two logs with records of the same epoch
    are the same up to where the first of them leaves that epoch. An epoch without records says
    nothing, so neither list has one.
    """
    others = {epoch.number for epoch in other}
    for number, _ in reversed(mine):
        if number in others:
            return min(_end(number, mine, mine_end), _end(number, other, other_end))
    return 0


def _end(number: int, epochs: Sequence[EpochStart], log_end: int) -> int:
    """Return where a log leaves the epoch ``number``."""
    return min((start for later, start in epochs if later > number), default=log_end)
