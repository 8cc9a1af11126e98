"""Status of the archive."""

import json
from pathlib import Path

import pytest

from litemq.errors import InvalidArgumentError
from litemq.spark.pipelines.config import ArchiveConfig
from litemq.spark.pipelines.status import Status, read_status, status_rows


def test_a_batch_is_reported_as_a_line_and_in_the_status_file(tmp_path: Path) -> None:
    config = ArchiveConfig(table=str(tmp_path / "lake"))
    status = Status(config, "t-1")
    line = status.batch(7, rows=2_000_000, read_bytes=2_400_000_000, files=3, lost=0, seconds=10.0, lag=12)
    assert line == "batch 7: 2,000,000 rows in 3 files, 200,000 rows/s, 240 MB/s, 12 behind"
    found = read_status(config)
    assert (found["state"], found["batch_id"], found["rows_total"], found["lag"]) == ("running", 7, 2_000_000, 12)
    shown = dict(status_rows(found))
    assert shown["last batch"] == "7: 2,000,000 rows in 3 files"
    assert shown["behind"] == "12 messages"


def test_what_was_lost_is_counted_and_stays_counted(tmp_path: Path) -> None:
    config = ArchiveConfig(table=str(tmp_path / "lake"))
    assert "5 lost" in Status(config, "t-1").batch(0, rows=10, read_bytes=10, files=1, lost=5, seconds=1.0, lag=None)
    again = Status(config, "t-1")
    again.batch(1, rows=1, read_bytes=10, files=1, lost=0, seconds=1.0, lag=None)
    assert dict(status_rows(read_status(config)))["rows"] == "11, and 5 lost"
    assert Status(config, "another table").facts["rows_total"] == 0


def test_a_killed_archive_is_not_shown_as_running(tmp_path: Path) -> None:
    config = ArchiveConfig(table=str(tmp_path / "lake"))
    status = Status(config, "t-1")
    status.set_state("running")
    assert read_status(config)["state"] == "running"
    assert config.status_file is not None
    config.status_file.write_text(json.dumps({**status.facts, "pid": 2**22 + 1}))  # above what there can be
    assert "not running (it did not shut down)" in dict(status_rows(read_status(config)))["state"]


def test_no_archive_has_run(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgumentError, match="no archive has run with this checkpoint"):
        read_status(ArchiveConfig(table=str(tmp_path)))
