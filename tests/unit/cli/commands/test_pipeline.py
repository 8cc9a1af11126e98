"""``litemq pipeline``: errors before Spark starts, and commands without Spark."""

import importlib.util
import shutil
import signal
from pathlib import Path

import pytest
from typer.testing import CliRunner

from litemq.cli.commands.pipeline import _StopSignals, app
from litemq.errors import ConfigurationError, InvalidArgumentError, MissingExtraError, UnsupportedFeatureError
from litemq.spark.tables.opening import create_table
from support.archived import rows, written


def run(*arguments: str) -> str:
    result = CliRunner().invoke(app, arguments, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.output


def test_without_pyspark_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    with pytest.raises(MissingExtraError, match="spark"):
        run("run", "archive")


def test_without_java_it_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda _: None)
    monkeypatch.delenv("JAVA_HOME", raising=False)
    with pytest.raises(UnsupportedFeatureError, match="Java 17"):
        run("run", "archive")


def test_a_wrong_setting_is_refused_before_the_pipeline_starts(tmp_path: Path) -> None:
    file = tmp_path / "archive.toml"
    file.write_text('[table]\nformat = "iceberg"\n')
    with pytest.raises(ConfigurationError, match="choose delta or delta-spark or parquet"):
        run("run", "archive", "--config", str(file))


def test_vacuum_says_what_goes(tmp_path: Path) -> None:
    create_table(str(tmp_path), "parquet")
    written(str(tmp_path), rows("orders", 0, range(3)))
    assert run("run", "vacuum", "--table", str(tmp_path)) == "deleted 0 files\n"  # it may be about to be committed
    assert run("run", "vacuum", "--table", str(tmp_path), "--dry-run") == "would delete 0 files\n"


def test_no_table_and_no_status(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgumentError, match="no table yet"):
        run("run", "vacuum", "--table", str(tmp_path))
    with pytest.raises(InvalidArgumentError, match="no archive has run"):
        run("status", "--table", str(tmp_path))


def test_a_session_that_listens_to_ctrl_c_is_not_the_one_that_hears_it(capfd: pytest.CaptureFixture[str]) -> None:
    heard: list[str] = []
    before = signal.getsignal(signal.SIGINT)
    with _StopSignals() as stop:
        signal.signal(signal.SIGINT, lambda *_: heard.append("the session"))  # as a new session does
        stop.listen()
        assert not stop.requested()
        signal.raise_signal(signal.SIGINT)
        assert (stop.requested(), heard) == (True, [])
        assert signal.getsignal(signal.SIGINT) is before  # the next one ends it at once
        stop.listen()
        assert signal.getsignal(signal.SIGINT) is before
    assert signal.getsignal(signal.SIGINT) is before
    assert "stopping after this batch" in capfd.readouterr().err
