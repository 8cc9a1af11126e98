"""``BucketFiles``: recovery after a crash, splitting days, and damage."""

from pathlib import Path

import numpy as np
import pytest

from litemq.errors import CorruptStoreError
from litemq.storage.files.disk import DISK
from litemq.storage.timers.bucket_files import BucketFiles
from litemq.storage.timers.entries import DAY_MINUTES, MINUTE_MS, encode_entries, live_timers

DAY_MS = DAY_MINUTES * MINUTE_MS


def _rows(*dues: int, first: int = 0) -> list[tuple[int, int, int, int]]:
    return [(due, first + 8 * number, first + 8 * number, 8) for number, due in enumerate(dues)]


def _names(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir())


def test_entries_are_by_day_and_then_by_minute(tmp_path: Path) -> None:
    files = BucketFiles(DISK, tmp_path)
    assert files.applied is None
    rows = _rows(5 * DAY_MS, 5 * DAY_MS + 61_000, 7 * DAY_MS)
    files.write(encode_entries(rows))
    assert files.first_minute(0) == 5 * DAY_MINUTES
    assert _names(tmp_path) == ["day-5.1", "day-7.2"]
    assert files.read(5 * DAY_MINUTES + 1).tolist() == encode_entries(rows[1:2]).tolist()
    assert files.read(5 * DAY_MINUTES + 2).size == 0
    files.seal(100)
    assert _names(tmp_path) == ["day-7.2", "manifest", "minute-7200.3", "minute-7201.4"]
    assert files.first_minute(5 * DAY_MINUTES + 1) == 5 * DAY_MINUTES + 1
    assert files.first_minute(5 * DAY_MINUTES + 2) == 7 * DAY_MINUTES
    assert files.first_minute(8 * DAY_MINUTES) is None
    late = _rows(5 * DAY_MS + 1, first=80)
    files.write(encode_entries(late))
    assert files.read(5 * DAY_MINUTES).tolist() == encode_entries(rows[:1] + late).tolist()
    assert (files.bucket_end(7 * DAY_MINUTES + 9), files.bucket_end(6 * DAY_MINUTES)) == (
        8 * DAY_MINUTES,
        6 * DAY_MINUTES + 1,
    )
    assert files.read_timers(7 * DAY_MINUTES + 9, np.array([8, 16])).tolist() == encode_entries(rows[2:]).tolist()
    assert files.read_timers(7 * DAY_MINUTES, np.array([0, 24])).size == 0
    assert files.read_timers(6 * DAY_MINUTES, np.array([16])).size == 0


def test_first_timers_of_an_unordered_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("litemq.storage.timers.bucket_files._CHUNK", 3)
    files = BucketFiles(DISK, tmp_path)
    rows = _rows(*(DAY_MS + due for due in (7, 3, 9, 3, 1, 8, 2)))
    files.write(encode_entries([*rows, (DAY_MS, 0, 80, 0)]))

    def dues(after: tuple[int, int], until: int, limit: int) -> tuple[list[int], bool]:
        first, are_more = files.first_timers(DAY_MINUTES, after, until, limit)
        return sorted((first["due"] - DAY_MS).tolist()), are_more

    assert dues((0, -1), 3 * DAY_MS, 3) == ([1, 2, 3], True)
    assert dues((0, -1), 3 * DAY_MS, 9) == ([1, 2, 3, 3, 7, 8, 9], False)
    assert dues((DAY_MS + 3, 8), DAY_MS + 9, 9) == ([3, 7, 8], False)
    assert dues((0, -1), DAY_MS, 9) == ([], False)


def test_only_sealed_entries_are_valid(tmp_path: Path) -> None:
    files = BucketFiles(DISK, tmp_path)
    files.write(encode_entries(_rows(DAY_MS, DAY_MS + 1)))
    files.seal(16)
    files.write(encode_entries(_rows(DAY_MS + 2, 3 * DAY_MS, first=16)))
    files.split_days(DAY_MINUTES)
    files.drop(DAY_MINUTES)
    again = BucketFiles(DISK, tmp_path)
    assert again.applied == 16
    assert _names(tmp_path) == ["day-1.1", "manifest"]
    assert again.read(DAY_MINUTES).tolist() == encode_entries(_rows(DAY_MS, DAY_MS + 1)).tolist()
    again.drop(DAY_MINUTES)
    again.seal(32)
    assert BucketFiles(DISK, tmp_path).first_minute(0) is None
    assert _names(tmp_path) == ["manifest"]


def test_a_dropped_minute_starts_over(tmp_path: Path) -> None:
    files = BucketFiles(DISK, tmp_path)
    files.split_days(0)
    files.write(encode_entries(_rows(5)))
    files.seal(8)
    files.drop(0)
    files.write(encode_entries(_rows(7, first=8)))
    assert files.read(0)["pending"].tolist() == [8]
    files.seal(16)
    assert BucketFiles(DISK, tmp_path).read(0)["pending"].tolist() == [8]


@pytest.mark.parametrize("victim", ["manifest", "day-1.1"])
def test_lost_or_damaged_files_are_detected(tmp_path: Path, victim: str, caplog: pytest.LogCaptureFixture) -> None:
    def made() -> None:
        files = BucketFiles(DISK, tmp_path)
        files.clear()
        files._next_number = 1
        files.write(encode_entries(_rows(DAY_MS, DAY_MS + 1)))
        files.seal(16)

    made()
    (tmp_path / victim).unlink()
    assert BucketFiles(DISK, tmp_path).applied is None
    made()
    raw = bytearray((tmp_path / victim).read_bytes())
    raw[20] ^= 1
    (tmp_path / victim).write_bytes(raw)
    files = BucketFiles(DISK, tmp_path)
    if files.applied is not None:
        with pytest.raises(CorruptStoreError):
            files.read(DAY_MINUTES)
    made()
    (tmp_path / victim).write_bytes(raw[:-1])
    assert BucketFiles(DISK, tmp_path).applied is None
    assert _names(tmp_path) == []
    assert "rebuilding the timers" in caplog.text


def test_the_last_entry_of_a_timer_counts() -> None:
    rows = [(50, 0, 0, 8), (40, 8, 8, 8), (50, 0, 24, 0), (50, 32, 32, 8), (40, 8, 40, 0), (40, 8, 48, 8)]
    assert live_timers(encode_entries(rows))["pending"].tolist() == [8, 32]
    assert live_timers(encode_entries([])).size == 0
