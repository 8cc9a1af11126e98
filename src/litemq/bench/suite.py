"""Framework of the suites: figures, goals and measurements.

A figure is a function that measures once and returns a number. A run measures all figures of a
suite in turn, so that a slow minute of a shared machine affects all of them instead of one.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Final

__all__ = [
    "MIN_RUNS",
    "SUITES",
    "Figure",
    "Goal",
    "Measurement",
    "at_least",
    "at_most",
    "load_notes",
    "load_suite",
    "measure",
    "short",
]

MIN_RUNS: Final = 3

# Each module has a function ``figures(scale)``, and ``notes()`` if it may leave figures out.
SUITES: Final = {
    "broker": "litemq.bench.suites.broker",
    "cluster": "litemq.bench.suites.cluster",
    "delivery": "litemq.bench.suites.delivery",
    "format": "litemq.bench.suites.format",
    "names": "litemq.bench.suites.names",
    "peers": "litemq.bench.suites.peers",
    "spark": "litemq.bench.suites.spark",
    "store": "litemq.bench.suites.store",
    "time": "litemq.bench.suites.time",
}


@dataclass(frozen=True, slots=True)
class Goal:
    """The bound that a figure should meet."""

    bound: float
    upper: bool = False

    def is_met_by(self, value: float) -> bool:
        return value <= self.bound if self.upper else value >= self.bound

    def as_json(self) -> dict[str, float]:
        return {"at_most" if self.upper else "at_least": self.bound}

    def __str__(self) -> str:
        return f"{'≤' if self.upper else '≥'} {short(self.bound)}"


def at_least(bound: float) -> Goal:
    """Return a goal for a figure where more is better."""
    return Goal(bound)


def at_most(bound: float) -> Goal:
    """Return a goal for a figure where less is better."""
    return Goal(bound, upper=True)


@dataclass(frozen=True, slots=True)
class Figure:
    """One number that a suite measures."""

    name: str
    what: str
    unit: str
    measure: Callable[[], float]
    goal: Goal | None = None
    total: Callable[[Sequence[float]], float] = median  # of the values of all runs


@dataclass(frozen=True, slots=True)
class Measurement:
    """A figure with its value in each run."""

    figure: Figure
    runs: tuple[float, ...]

    @property
    def value(self) -> float:
        return self.figure.total(self.runs)

    @property
    def meets_goal(self) -> bool:
        return self.figure.goal is None or self.figure.goal.is_met_by(self.value)

    def as_json(self) -> dict[str, object]:
        goal = self.figure.goal
        return {
            "what": self.figure.what,
            "value": self.value,
            "unit": self.figure.unit,
            "goal": None if goal is None else goal.as_json(),
            "runs": list(self.runs),
        }


def measure(
    figures: Sequence[Figure], runs: int, *, after_run: Callable[[Figure], None] = lambda _figure: None
) -> list[Measurement]:
    """Measure every figure ``runs`` times."""
    values: dict[str, list[float]] = {figure.name: [] for figure in figures}
    for _ in range(runs):
        for figure in figures:
            values[figure.name].append(figure.measure())
            after_run(figure)
    return [Measurement(figure, tuple(values[figure.name])) for figure in figures]


def load_suite(name: str, scale: float) -> list[Figure]:
    """Import a suite and return its figures, with their data prepared."""
    module = importlib.import_module(SUITES[name])
    figures: list[Figure] = module.figures(scale)
    return figures


def load_notes(name: str) -> list[str]:
    """Return what a suite does not measure on this machine, with the reasons."""
    notes: Callable[[], list[str]] = getattr(importlib.import_module(SUITES[name]), "notes", list)
    return notes()


def short(value: float) -> str:
    """Format a number in a short form, such as 1.5M."""
    for factor, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= factor:
            return f"{value / factor:.3g}{letter}"
    return f"{value:.3g}"
