"""Figures of every suite, measured at a small scale."""

import pytest

from litemq.bench.suite import SUITES, load_suite
from litemq.bench.workloads import load
from support.waiting import HANG_S

# Figures of members that join and leave: their sessions last five seconds, in which a busy machine
# may not schedule them.
GROUP_FIGURES = ("unmoved_gap", "moved_resume")
# Counts of what a failover must not lose or repeat, and what may be below the resolution of the
# watch.
LOST = ("lost_", "duplicates")
STEPS = ("_lease_over", "_elected", "_registered", "_first_ack")


# Spark's suite needs Java, a cluster and minutes.
@pytest.mark.parametrize("name", [name for name in SUITES if name != "spark"])
def test_every_suite_measures_something(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(load, "_MAX_WAIT_S", HANG_S)
    figures = load_suite(name, 0.001)
    assert len({figure.name for figure in figures}) == len(figures)
    for figure in figures:
        if figure.name in GROUP_FIGURES:
            continue
        value = figure.measure()
        if figure.name.startswith(LOST):
            assert value == 0, figure.name
        else:
            assert value > 0 or figure.name.endswith(STEPS) or figure.name.startswith("lag_"), figure.name


@pytest.mark.timing
def test_a_group_at_work_is_measured() -> None:
    figures = {figure.name: figure for figure in load_suite("delivery", 0.001)}
    for name in GROUP_FIGURES:
        assert figures[name].measure() > 0, name
