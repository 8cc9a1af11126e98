"""A disk whose power is cut loses what was not synced, and nothing else."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from support.hosts.disk import Disk, can_cut_power


def test_a_power_cut_loses_unsynced_bytes(tmp_path: Path) -> None:
    if reason := can_cut_power(tmp_path):
        pytest.skip(f"cannot cut power: {reason}")
    disk = Disk(tmp_path / "disk", is_own=True)
    try:
        folder = os.open(disk.path, os.O_RDONLY)
        file = os.open(disk.path / "file", os.O_CREAT | os.O_WRONLY)
        os.write(file, b"synced")
        os.fsync(file)
        os.fsync(folder)
        os.write(file, b", and not")
        (disk.path / "other").write_bytes(b"not synced")
        disk.cut_power()
        with pytest.raises(OSError, match="Input/output error"):
            os.fsync(file)
        os.close(file)
        os.close(folder)
        disk.restore_power()
        assert (disk.path / "file").read_bytes() == b"synced"
        assert not (disk.path / "other").exists()
        disk.wipe()
        assert list(disk.path.iterdir()) == []
    finally:
        disk.close()


def test_a_plain_directory_can_be_wiped(tmp_path: Path) -> None:
    disk = Disk(tmp_path / "disk", is_own=False)
    (disk.path / "data").mkdir()
    (disk.path / "data" / "file").touch()
    (disk.path / "file").touch()
    disk.wipe()
    assert list(disk.path.iterdir()) == []
    disk.close()
