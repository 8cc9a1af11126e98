"""Warnings of segments that were dropped because the disk fills up."""

from pathlib import Path

import pytest

from litemq.storage.retention.early_drops import EarlyDrops


def test_a_minute_has_one_warning(caplog: pytest.LogCaptureFixture) -> None:
    drops = EarlyDrops(Path("data"), 75)
    drops.log_if_due(0)
    assert caplog.messages == []
    drops.add(64, 1_000, 80)
    drops.log_if_due(0)
    drops.add(64, None, 81)
    drops.add(128, 2_000, 82)
    drops.add(256, 3_000, 83)
    drops.log_if_due(59)
    [first] = caplog.messages
    assert first == (
        "data: the disk was 80% full: dropped the oldest 64 bytes of the log before their retention, with messages "
        "since 1970-01-01 00:00:01 UTC. Free disk space, or lower storage.retention or storage.max_log_size; "
        "storage.disk_clean_percent is 75"
    )
    drops.log_if_due(60)
    drops.log_if_due(120)
    assert len(caplog.messages) == 2
    assert "the disk was 83% full: dropped the oldest 448 bytes" in caplog.messages[1]
    assert "since 1970-01-01 00:00:02 UTC" in caplog.messages[1]


def test_a_damaged_record_has_no_time(caplog: pytest.LogCaptureFixture) -> None:
    drops = EarlyDrops(Path("data"), 75)
    drops.add(64, None, 80)
    drops.log_if_due(0)
    assert "before their retention. Free" in caplog.text
