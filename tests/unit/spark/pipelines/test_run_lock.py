"""A second archive with the same checkpoint is rejected while the first one runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from litemq.errors import InvalidArgumentError
from litemq.spark.pipelines.config import ArchiveConfig
from litemq.spark.pipelines.run_lock import hold_run_lock


def test_a_second_one_is_refused_while_the_first_runs(tmp_path: Path) -> None:
    config = ArchiveConfig(table=str(tmp_path / "table"))
    with hold_run_lock(config), pytest.raises(InvalidArgumentError, match="is already running"), hold_run_lock(config):
        pass
    with hold_run_lock(config):
        pass


def test_another_table_is_another_archive(tmp_path: Path) -> None:
    with (
        hold_run_lock(ArchiveConfig(table=str(tmp_path / "one"))),
        hold_run_lock(ArchiveConfig(table=str(tmp_path / "other"))),
    ):
        pass


def test_a_checkpoint_elsewhere_is_not_looked_at() -> None:
    config = ArchiveConfig(table="s3://bucket/table")
    with hold_run_lock(config), hold_run_lock(config):
        pass
