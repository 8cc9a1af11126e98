"""The pause of ``StateWriter`` between commits, in proportion to their duration."""

from pathlib import Path

import pytest

from litemq.clock import FakeClock
from litemq.storage.files.disk import DISK
from litemq.storage.state.machine import State
from litemq.storage.state.persistence.state_writer import StateWriter


class _SlowWriter:
    """A writer whose database takes ``takes_s`` for a commit."""

    def __init__(self, directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.clock = FakeClock()
        self.takes_s = 0.0
        self.writer = StateWriter(DISK, directory, self.clock)
        self.writer.follow(State(), 0, rebuild=True)
        commit = self.writer._database.commit

        def slowly(applied: int, rows: object) -> None:
            commit(applied, rows)  # type: ignore[arg-type]
            self.clock.advance(self.takes_s)

        monkeypatch.setattr(self.writer._database, "commit", slowly)

    def commit_if_due(self, confirmed: int) -> int:
        self.writer.commit_if_due(confirmed)
        return self.writer.applied


@pytest.fixture
def slow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> _SlowWriter:
    return _SlowWriter(tmp_path, monkeypatch)


def test_a_fast_commit_has_no_pause(slow: _SlowWriter) -> None:
    assert [slow.commit_if_due(at) for at in (8, 16, 24)] == [8, 16, 24]


@pytest.mark.parametrize(
    ("takes_s", "too_early_s", "rest_s"),
    [
        pytest.param(0.1, 0.79, 0.02, id="eight times as long"),
        pytest.param(3, 4.9, 0.2, id="five seconds at most"),
    ],
)
def test_a_slow_commit_has_a_pause(slow: _SlowWriter, takes_s: float, too_early_s: float, rest_s: float) -> None:
    slow.takes_s = takes_s
    assert slow.commit_if_due(8) == 8
    slow.clock.advance(too_early_s)
    assert slow.commit_if_due(16) == 8
    slow.clock.advance(rest_s)
    assert slow.commit_if_due(24) == 24


def test_the_lag_is_limited(slow: _SlowWriter) -> None:
    slow.takes_s = 3
    assert slow.commit_if_due(8) == 8
    assert slow.commit_if_due(64 << 20) == 8
    assert slow.commit_if_due((64 << 20) + 8) == (64 << 20) + 8


def test_commit_ignores_the_pause(slow: _SlowWriter) -> None:
    slow.takes_s = 3
    slow.commit_if_due(8)
    slow.writer.commit(16)
    assert slow.writer.applied == 16
