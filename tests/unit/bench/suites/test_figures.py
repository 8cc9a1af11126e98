"""Figures of every suite, measured at a small scale."""

import pytest

from litemq.bench.suite import SUITES, load_notes, load_suite
from litemq.bench.suites import cluster
from litemq.bench.workloads import load
from support.waiting import HANG_S

# Figures of members that join and leave: their sessions last five seconds, in which a busy machine
# may not schedule them.
GROUP_FIGURES = ("unmoved_gap", "moved_resume")
# Counts of what a failover must not lose or repeat, and what may be below the resolution of the
# watch.
LOST = ("lost_", "duplicates")
# Rounds that differ from other ones in their settings only.
LIKE_OTHERS = ("failover_", "short_failover_", "etcd_failover_", "etcd_short_failover_", "stop_")
STEPS = ("_lease_over", "_elected", "_registered", "_first_ack")


# Spark's suite needs Java, a cluster and minutes.
@pytest.mark.parametrize("name", [name for name in SUITES if name != "spark"])
def test_every_suite_measures_something(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(load, "_MAX_WAIT_S", HANG_S)
    figures = load_suite(name, 0.001)
    assert len({figure.name for figure in figures}) == len(figures)
    for figure in figures:
        if figure.name in GROUP_FIGURES or figure.name.startswith(LIKE_OTHERS):
            continue
        value = figure.measure()
        if figure.name.startswith(LOST):
            assert value == 0, figure.name
        else:
            assert value > 0 or figure.name.endswith(STEPS) or figure.name.startswith("lag_"), figure.name


def test_without_etcd_its_figures_are_left_out_with_a_note(monkeypatch: pytest.MonkeyPatch) -> None:
    assert {name for name in SUITES if load_notes(name)} <= {"cluster"}
    names = [figure.name for figure in load_suite("cluster", 0.001)]
    monkeypatch.setattr(cluster, "why_no_etcd", lambda: "etcd is not installed")
    assert load_notes("cluster") == ["failovers with etcd as the cluster store: etcd is not installed"]
    assert [figure.name for figure in load_suite("cluster", 0.001)] == [
        name for name in names if not name.startswith("etcd_")
    ]


@pytest.mark.timing
def test_a_group_at_work_is_measured() -> None:
    figures = {figure.name: figure for figure in load_suite("delivery", 0.001)}
    for name in GROUP_FIGURES:
        assert figures[name].measure() > 0, name
