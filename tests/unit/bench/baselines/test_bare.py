"""Baselines of the bare machine: plausible values, and no file left."""

import tempfile
from pathlib import Path

import pytest

from litemq.bench.baselines.bare import bare_sync_p99, plain_loop_ns


def test_the_disk_is_measured_and_left_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    assert bare_sync_p99(0.02) > 0
    assert list(tmp_path.iterdir()) == []


def test_a_turn_of_a_loop_takes_nanoseconds() -> None:
    assert 0 < plain_loop_ns() < 1e6
