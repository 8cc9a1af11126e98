"""Assignment: which member of a group owns which queue.

Pure functions that move as few queues as possible.

Each broker assigns its own queues alone. If they do not divide evenly, a hash of broker and member
decides who gets one more, so that members with fewer queues on one broker have more on another.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from enum import StrEnum
from hashlib import blake2b
from typing import Final, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

__all__ = ["Candidate", "Strategy", "assign"]

Q = TypeVar("Q", bound=Hashable)
Words = npt.NDArray[np.uint64]

_MIX: Final = (np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB))


class Strategy(StrEnum):
    """How queues are assigned."""

    AVERAGE = "average"  # all members have the same number, or one more
    CONSISTENT_HASH = "consistent_hash"  # by a hash of queue and member, independent of earlier assignments
    SAME_ZONE = "same_zone"  # evenly among the members in the broker's zone; if there are none, among all


class Candidate(NamedTuple):
    """A member that gets queues."""

    member: str
    zone: str = ""


def assign(
    strategy: Strategy,
    queues: Sequence[Q],
    members: Sequence[Candidate],
    current: Mapping[Q, str],
    *,
    broker: str = "",
    zone: str = "",
) -> dict[Q, str]:
    """Return the member of each queue; empty without ``members``.

    Owners in ``current`` keep their queues if possible.
    """
    if not members or not queues:
        return {}
    if strategy is Strategy.CONSISTENT_HASH:
        return _by_hash(queues, [each.member for each in members], broker)
    if strategy is Strategy.SAME_ZONE:
        near = [each for each in members if each.zone == zone]
        members = near or members
    return _evenly(queues, [each.member for each in members], current, broker)


def _evenly(queues: Sequence[Q], members: Sequence[str], current: Mapping[Q, str], broker: str) -> dict[Q, str]:
    held: dict[str, list[Q]] = {member: [] for member in members}
    loose: list[Q] = []
    for queue in queues:
        held.get(current.get(queue, ""), loose).append(queue)
    share, more = divmod(len(queues), len(members))
    # Members with the most queues get the extra ones, so that few queues move.
    order = sorted(members, key=lambda member: (-len(held[member]), _number(f"{broker}\0{member}")))
    given: dict[Q, str] = {}
    free: list[str] = []
    for index, member in enumerate(order):
        count = share + (index < more)
        mine = held[member]
        given.update(dict.fromkeys(mine[:count], member))
        loose += mine[count:]
        free += [member] * (count - len(mine))
    given.update(zip(loose, free, strict=True))
    return given


def _by_hash(queues: Sequence[Q], members: Sequence[str], broker: str) -> dict[Q, str]:
    """Return for each queue the member with the greatest hash of both: a member that joins or
    leaves moves only its own.
    """
    names = sorted(members)
    ours = np.array([_number(f"{broker}\0{queue!r}") for queue in queues], dtype=np.uint64)
    theirs = np.array([_number(name) for name in names], dtype=np.uint64)
    best = np.zeros(len(ours), dtype=np.intp)
    highest = np.zeros(len(ours), dtype=np.uint64)
    for index, word in enumerate(theirs):
        score = _mixed(ours ^ word)
        higher = score > highest
        best[higher], highest[higher] = index, score[higher]
    return {queue: names[index] for queue, index in zip(queues, best.tolist(), strict=True)}


def _number(text: str) -> int:
    return int.from_bytes(blake2b(text.encode(), digest_size=8).digest())


def _mixed(words: Words) -> Words:
    """Mix each word, so that every output bit depends on all input bits."""
    words = (words ^ (words >> np.uint64(30))) * _MIX[0]
    words = (words ^ (words >> np.uint64(27))) * _MIX[1]
    return words ^ (words >> np.uint64(31))
