"""Which fault is next, and how long it lasts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from random import Random
from typing import Final

from support.cluster_chaos.faults import Faults

__all__ = ["Plan", "Round", "Timed", "schedule"]

_LONGEST_S: Final = 60.0
# A running broker follows a wall clock that is ahead after a minute: too long for short runs.
_FOLLOWED_AFTER_S: Final = 62.0
_LONG_S: Final = 20.0
_OVERLAPPING: Final = 0.3  # of the rounds


@dataclass(frozen=True)
class Plan:
    """For how long there are faults, and which: with ``only`` in their category and name."""

    seconds: float
    seed: int
    only: str = ""

    @property
    def longest_s(self) -> float:
        """How long a fault lasts at most, but for some wrong clocks."""
        return min(_LONGEST_S, max(5.0, self.seconds / 25))


@dataclass(frozen=True)
class Timed:
    """A fault, when it begins in its round, and how long it lasts (s)."""

    fault: str
    after: float
    lasts: float


@dataclass(frozen=True)
class Round:
    """One fault, or two of which the second begins before the first is healed; then a pause (s)."""

    faults: tuple[Timed, ...]
    pause: float

    def __str__(self) -> str:
        return " and ".join(each.fault for each in self.faults)


def schedule(faults: Faults, plan: Plan) -> Iterator[Round]:
    """Iterate over random rounds without end.

    The first rounds have one fault of each category. Then each of the other kinds comes once
    before any of them again.
    """
    chance = Random(plan.seed)
    names = [name for name, fault in faults.by_name.items() if plan.only in f"{fault.category}: {name}"]
    while True:
        for name in _one_of_each_category_first(chance.sample(names, len(names)), faults):
            timed = [Timed(name, 0.0, _duration(name, plan, chance))]
            others = [each for each in names if each != name and not faults.by_name[each].is_of_whole_group]
            if others and chance.random() < _OVERLAPPING:
                other = chance.choice(others)
                timed.append(Timed(other, timed[0].lasts * chance.uniform(0.2, 0.9), _duration(other, plan, chance)))
            yield Round(tuple(timed), chance.choice([0.0, 0.5, chance.uniform(1.0, plan.longest_s)]))


def _duration(name: str, plan: Plan, chance: Random) -> float:
    lasts = chance.uniform(1.0, plan.longest_s)
    return lasts + _FOLLOWED_AFTER_S if "an hour off" in name and plan.longest_s >= _LONG_S else lasts


def _one_of_each_category_first(names: Sequence[str], faults: Faults) -> list[str]:
    first = {faults.by_name[name].category: name for name in names}.values()
    return [*first, *(name for name in names if name not in first)]
