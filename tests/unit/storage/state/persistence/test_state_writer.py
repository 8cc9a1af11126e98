"""How often ``state.db`` is brought up to date: the more it takes, the less often."""

from pathlib import Path

import pytest

from litemq.clock import FakeClock
from litemq.storage.files.disk import DISK
from litemq.storage.state.machine import State
from litemq.storage.state.persistence.state_writer import StateKeeper


class _Kept:
    """A keeper whose database takes its time, and how far it was brought."""

    def __init__(self, directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.clock = FakeClock()
        self.takes_s = 0.0
        self.keeper = StateKeeper(DISK, directory, self.clock)
        self.keeper.follow(State(), 0, anew=True)
        commit = self.keeper._database.commit

        def slowly(applied: int, rows: object) -> None:
            commit(applied, rows)  # type: ignore[arg-type]
            self.clock.advance(self.takes_s)

        monkeypatch.setattr(self.keeper._database, "commit", slowly)

    def bring_to(self, confirmed: int) -> int:
        self.keeper.commit_in_time(confirmed)
        return self.keeper.applied


@pytest.fixture
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> _Kept:
    return _Kept(tmp_path, monkeypatch)


def test_what_takes_no_time_is_done_each_time(kept: _Kept) -> None:
    assert [kept.bring_to(at) for at in (8, 16, 24)] == [8, 16, 24]


@pytest.mark.parametrize(
    ("takes_s", "too_early_s", "rest_s"),
    [
        pytest.param(0.1, 0.79, 0.02, id="eight times as long"),
        pytest.param(3, 4.9, 0.2, id="five seconds at most"),
    ],
)
def test_what_takes_long_is_done_again_after_a_pause(kept: _Kept, takes_s: float, too_early_s: float, rest_s: float) -> None:
    kept.takes_s = takes_s
    assert kept.bring_to(8) == 8
    kept.clock.advance(too_early_s)
    assert kept.bring_to(16) == 8
    kept.clock.advance(rest_s)
    assert kept.bring_to(24) == 24


def test_it_is_never_far_behind_the_log(kept: _Kept) -> None:
    kept.takes_s = 3
    assert kept.bring_to(8) == 8
    assert kept.bring_to(64 << 20) == 8
    assert kept.bring_to((64 << 20) + 8) == (64 << 20) + 8


def test_whoever_needs_it_now_has_it_now(kept: _Kept) -> None:
    kept.takes_s = 3
    kept.bring_to(8)
    kept.keeper.commit(16)
    assert kept.keeper.applied == 16
