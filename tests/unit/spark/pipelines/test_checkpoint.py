"""A checkpoint and its table belong together."""

from pathlib import Path

import pytest

from litemq.errors import CheckpointMismatchError
from litemq.spark.pipelines.checkpoint import application_id
from litemq.spark.tables.folder import TableFolder
from litemq.spark.tables.opening import create_table
from support.archived import rows, written


def test_the_name_stays(tmp_path: Path) -> None:
    table, checkpoint = create_table(str(tmp_path / "lake"), "parquet"), TableFolder(str(tmp_path / "checkpoint"))
    name = application_id(checkpoint, table)
    table.append(written(str(tmp_path / "lake"), rows("orders", 0, range(3))), name, 0)
    assert application_id(checkpoint, table) == name


def test_another_table_is_refused(tmp_path: Path) -> None:
    checkpoint = TableFolder(str(tmp_path / "checkpoint"))
    application_id(checkpoint, create_table(str(tmp_path / "lake"), "parquet"))
    with pytest.raises(
        CheckpointMismatchError,
        match=r"is the checkpoint of another table, .*lake .*choose the checkpoint of this table",
    ):
        application_id(checkpoint, create_table(str(tmp_path / "other"), "parquet"))


def test_a_table_with_rows_and_a_new_checkpoint_are_refused(tmp_path: Path) -> None:
    table = create_table(str(tmp_path / "lake"), "parquet")
    table.append(written(str(tmp_path / "lake"), rows("orders", 0, range(3))), "app", 0)
    with pytest.raises(CheckpointMismatchError, match="already has rows"):
        application_id(TableFolder(str(tmp_path / "checkpoint")), table)


def test_the_checkpoint_of_something_else_is_refused(tmp_path: Path) -> None:
    (tmp_path / "checkpoint" / "offsets").mkdir(parents=True)
    (tmp_path / "checkpoint" / "offsets" / "0").write_text("v1")
    with pytest.raises(CheckpointMismatchError, match="of another query"):
        application_id(TableFolder(str(tmp_path / "checkpoint")), create_table(str(tmp_path / "lake"), "parquet"))
