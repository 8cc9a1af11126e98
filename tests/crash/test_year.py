"""A simulated year of timers in a minute: each is delivered once and on time, or was cancelled.

No timer is carried forward more often than needed. ``LITEMQ_YEAR_TIMERS`` sets the number of timers
in a year, ``LITEMQ_YEARS`` the number of years, each with its own seed.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

import pytest

from litemq.storage import retainer
from litemq.storage.timers.timer_store import TimerStore
from support.year import SimulatedYear

TIMERS: Final = int(os.environ.get("LITEMQ_YEAR_TIMERS", "500"))
YEARS: Final = int(os.environ.get("LITEMQ_YEARS", "2"))


@pytest.mark.parametrize("seed", range(YEARS))
def test_a_year(tmp_path: Path, seed: int) -> None:
    year = SimulatedYear(tmp_path / "store", seed, TIMERS)
    try:
        report = year.live()
    finally:
        year.close()
    print(f"\nyear {seed}: {report}")  # noqa: T201
    assert report.rewritten_bytes > 0
    assert len(report.happened) == len(year.EVENTS), "something never happened: the year is too short"


def _must_fail(directory: Path) -> str:
    year = SimulatedYear(directory / "store", 1, 300)
    try:
        with pytest.raises((AssertionError, KeyError)) as failure:
            year.live()
    finally:
        year.close()
    return str(failure.value)


def test_without_carrying_forward_timers_are_lost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retainer, "carry_timers", lambda *_: None)
    said = _must_fail(tmp_path)
    assert "should have come" in said or "should wait" in said


def test_a_cancellation_without_a_record_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(TimerStore, "_apply_ended", lambda *_: None)
    assert "was cancelled, and came" in _must_fail(tmp_path)
