"""``litemq bench suite``: a table for people, JSON for programs, and an exit code for CI."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from litemq import __version__
from litemq.bench.suite import Figure, at_least
from litemq.cli.commands import bench as bench_module
from litemq.cli.main import app
from litemq.errors import DiskFullError
from support.waiting import HANG_S, wait_until

RUNNER = CliRunner()


@pytest.fixture(autouse=True)
def _two_figures(monkeypatch: pytest.MonkeyPatch) -> None:
    figures = [
        Figure("fast", "meets its goal", "x/s", lambda: 3_000_000.0, at_least(2e6)),
        Figure("slow", "misses it", "x/s", lambda: 5.0, at_least(6)),
    ]
    monkeypatch.setattr(bench_module, "load_suite", lambda _name, _scale: figures)


def test_json_is_one_object() -> None:
    result = RUNNER.invoke(app, ["bench", "suite", "format", "--format", "json"])
    assert result.exit_code == 0
    assert json.loads(result.stdout) == {
        "suite": "format",
        "version": __version__,
        "scale": 1.0,
        "figures": {
            "fast": {
                "what": "meets its goal",
                "value": 3e6,
                "unit": "x/s",
                "goal": {"at_least": 2e6},
                "runs": [3e6] * 3,
            },
            "slow": {"what": "misses it", "value": 5, "unit": "x/s", "goal": {"at_least": 6}, "runs": [5] * 3},
        },
    }


def test_the_environment_sets_flags_too() -> None:
    result = RUNNER.invoke(
        app, ["bench", "suite", "format"], env={"LITEMQ_FORMAT": "json", "LITEMQ_BENCH_SUITE_RUNS": "4"}
    )
    assert len(json.loads(result.stdout)["figures"]["slow"]["runs"]) == 4


def test_figures_that_are_left_out_are_named_on_standard_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench_module, "load_notes", lambda _name: ["with etcd: pip install 'litemq[etcd]'"])
    result = RUNNER.invoke(app, ["bench", "suite", "format", "--format", "json"])
    assert result.stderr.split("\n")[-2:] == ["not measured: with etcd: pip install 'litemq[etcd]'", ""]
    assert set(json.loads(result.stdout)["figures"]) == {"fast", "slow"}


def test_check_exits_with_1_and_names_what_was_missed() -> None:
    result = RUNNER.invoke(app, ["bench", "suite", "format", "--check"])
    assert result.exit_code == 1
    assert "missed slow" in result.stderr


def test_without_check_a_missed_goal_is_only_shown() -> None:
    result = RUNNER.invoke(app, ["bench", "suite", "format"])
    assert result.exit_code == 0
    for word in ("fast", "3M", "≥ 2M", "met", "slow", "missed"):
        assert word in result.stdout
    assert "not for publication" not in result.stdout


def test_a_smaller_scale_is_not_for_publication() -> None:
    result = RUNNER.invoke(app, ["bench", "suite", "format", "--scale", "0.5"])
    assert "not for publication" in result.stdout
    assert "missed" not in result.stdout
    assert RUNNER.invoke(app, ["bench", "suite", "format", "--scale", "0.5", "--check"]).exit_code == 2


def test_a_full_disk_is_refused_before_anything_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("litemq.storage.files.disk.Disk.free_bytes", lambda _disk, _path: 5 << 30)
    result = RUNNER.invoke(app, ["bench", "suite", "store", "--scale", "0.5"])
    assert isinstance(result.exception, DiskFullError)
    assert "has 5.0 GiB free, and the suite needs 10.0 GiB" in str(result.exception)
    assert "TMPDIR" in str(result.exception)
    assert RUNNER.invoke(app, ["bench", "suite", "store", "--scale", "0.05"]).exit_code == 0
    assert RUNNER.invoke(app, ["bench", "suite", "format"]).exit_code == 0  # writes nothing


def test_sigterm_leaves_nothing_behind(tmp_path: Path) -> None:
    def has_begun() -> bool:
        assert running.poll() is None
        return any("commitlog" in folders for _, folders, _ in os.walk(tmp_path))  # folders go while one looks

    # It does not come to an end by itself.
    command = [sys.executable, "-m", "litemq", "bench", "suite", "store", "--scale", "0.001", "--runs", "1000000"]
    with subprocess.Popen(command, env={**os.environ, "TMPDIR": str(tmp_path)}, stderr=subprocess.DEVNULL) as running:
        try:
            wait_until(has_begun)
            running.terminate()
            assert running.wait(HANG_S) == 128 + signal.SIGTERM
        finally:
            running.kill()
    assert list(tmp_path.iterdir()) == []
