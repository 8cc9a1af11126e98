"""Segments: cold pages are released, and remain readable; zeros keep the space on the disk."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from litemq.storage.files.disk import DISK
from litemq.storage.log.segment import Segment
from support.damage import BadSector

SIZE = 4 << 20


def _resident(path: Path) -> int:
    """Return the resident bytes of a file's mapping in this process."""
    resident = 0
    is_it = False
    for line in Path("/proc/self/smaps").read_text().splitlines():
        if "-" in line.split()[0]:
            is_it = line.endswith(str(path))
        elif is_it and line.startswith("Rss:"):
            resident += int(line.split()[1]) * 1024
    return resident


@pytest.mark.skipif(sys.platform != "linux", reason="asks the kernel")
def test_cold_records_are_released_and_still_readable(tmp_path: Path) -> None:
    segment = Segment.create(DISK, tmp_path, 0, SIZE)
    data = bytes(range(256)) * (SIZE // 256)
    segment.write(data, 0)
    held = segment.mapped[100:200]
    assert bytes(segment.mapped) == data
    assert _resident(segment.file.path) == SIZE
    segment.cool(SIZE // 2)
    assert _resident(segment.file.path) <= SIZE // 2
    assert bytes(held) == data[100:200]
    assert bytes(segment.mapped[: SIZE // 2]) == data[: SIZE // 2]  # read again from the file
    segment.cool(SIZE // 2)  # nothing more is cold
    segment.cool(SIZE)
    assert "mapped" not in vars(segment)
    assert bytes(held) == data[100:200]
    assert bytes(segment.mapped[:10]) == data[:10]


def test_zeros_keep_the_space_of_a_segment(tmp_path: Path) -> None:
    segment = Segment.create(DISK, tmp_path, 0, SIZE)
    segment.write(b"kept" + bytes(5000) + b"torn" * 1000, 0)
    allocated = segment.file.path.stat().st_blocks
    segment.zero_from(4)
    assert segment.file.path.read_bytes() == b"kept".ljust(SIZE, b"\0")
    assert segment.file.path.stat().st_blocks >= allocated >= SIZE // 512


def test_zeros_restore_the_size_of_a_segment(tmp_path: Path) -> None:
    segment = Segment.create(DISK, tmp_path, 0, SIZE)
    segment.write(b"kept, torn", 0)
    for size in (8, SIZE + 100):
        segment.file.truncate(size)
        segment.zero_from(4)
        assert segment.file.path.read_bytes() == b"kept".ljust(SIZE, b"\0")


def test_sectors_that_the_disk_cannot_read_are_zeros(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    segment = Segment.create(DISK, tmp_path, 0, SIZE)
    data = bytes(range(1, 256)) * 100
    segment.write(data, 0)
    BadSector(segment.file.path, 5000).install(monkeypatch)
    assert segment.read(100, 4096) == data[100:4096]
    assert segment.read(100, 20_000) == data[100:4096] + bytes(4096) + data[8192:20_000]
    assert segment.read(0, 2 * SIZE) == data[:4096] + bytes(4096) + data[8192:] + bytes(SIZE - len(data))
    with pytest.raises(OSError, match="Input/output"):
        segment.read_exactly(100, 20_000)
