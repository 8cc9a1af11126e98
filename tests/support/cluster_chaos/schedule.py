"""Which fault is next, and how long it lasts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from random import Random
from typing import Final

from support.cluster_chaos.faults import Faults

__all__ = ["Plan", "Round", "schedule"]

_LONGEST_S: Final = 60.0
# A running broker follows a wall clock that is ahead after a minute: too long for short runs.
_FOLLOWED_AFTER_S: Final = 62.0
_LONG_S: Final = 20.0


@dataclass(frozen=True)
class Plan:
    """For how long there are faults, and which: those with ``only`` in their names."""

    seconds: float
    seed: int
    only: str = ""

    @property
    def longest_s(self) -> float:
        """How long a fault lasts at most, but for some wrong clocks."""
        return min(_LONGEST_S, max(5.0, self.seconds / 25))


@dataclass(frozen=True)
class Round:
    """A fault, how long it lasts, and the pause after it (s)."""

    fault: str
    lasts: float
    pause: float


def schedule(faults: Faults, plan: Plan) -> Iterator[Round]:
    """Iterate over random rounds without end.

    The first rounds have one fault of each category. Then each of the other kinds comes once
    before any of them again.
    """
    chance = Random(plan.seed)
    names = [name for name in faults.by_name if plan.only in name]
    while True:
        for name in _one_of_each_category_first(chance.sample(names, len(names)), faults):
            lasts = chance.uniform(1.0, plan.longest_s)
            if "an hour off" in name and plan.longest_s >= _LONG_S:
                lasts += _FOLLOWED_AFTER_S
            yield Round(name, lasts, chance.choice([0.0, 0.5, chance.uniform(1.0, plan.longest_s)]))


def _one_of_each_category_first(names: Sequence[str], faults: Faults) -> list[str]:
    first = {faults.by_name[name].category: name for name in names}.values()
    return [*first, *(name for name in names if name not in first)]
