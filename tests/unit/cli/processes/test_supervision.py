"""Restarts of killed children: at once, or after pauses while they do not get ready."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from litemq.cli.processes import supervision
from litemq.cli.processes.supervision import _MAX_RESTARTS, Child, _Restarts, _stopping_order


def _child(*, is_ready: bool, was_killed: bool = True) -> Any:
    return SimpleNamespace(address=("h", 1) if is_ready else None, was_killed=lambda: was_killed)


def test_a_child_that_was_ready_starts_again_at_once() -> None:
    restarts = _Restarts([1])
    assert restarts.wait_s() is None
    for _ in range(2 * _MAX_RESTARTS):
        assert restarts.schedule(1, _child(is_ready=True))
        assert restarts.wait_s() == 0
        assert restarts.due() == [1]


def test_a_child_that_is_killed_again_before_it_is_ready_starts_after_a_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    restarts, now = _Restarts([1]), 100.0
    monkeypatch.setattr(supervision, "time", SimpleNamespace(monotonic=lambda: now))
    for _ in range(2):
        assert restarts.schedule(1, _child(is_ready=True))
        assert restarts.due() == [1]
        for _ in range(_MAX_RESTARTS):
            assert restarts.schedule(1, _child(is_ready=False))
            assert (restarts.due(), restarts.wait_s()) == ([], 1.0)
            now += 1
            assert restarts.due() == [1]
    assert not restarts.schedule(1, _child(is_ready=False))


def test_the_master_stops_after_its_followers_and_before_the_first_child() -> None:
    names = [SimpleNamespace(name=str(number), master_epoch=epoch) for number, epoch in enumerate((0, 2, 3, 0))]
    assert [each.name for each in _stopping_order(cast("list[Child]", names))] == ["3", "1", "2", "0"]
    alone = [SimpleNamespace(name=str(number), master_epoch=0) for number in range(3)]
    assert [each.name for each in _stopping_order(cast("list[Child]", alone))] == ["2", "1", "0"]


def test_other_children_do_not_start_again() -> None:
    assert not _Restarts([1]).schedule(0, _child(is_ready=True))
    assert not _Restarts([1]).schedule(1, _child(is_ready=False))  # it would fail again
    assert not _Restarts([1]).schedule(1, _child(is_ready=True, was_killed=False))
