"""The epochs file: durable and rising; a torn last entry is ignored."""

from pathlib import Path

import pytest

from litemq.errors import CorruptStoreError
from litemq.format.crc import crc32c
from litemq.storage.files.disk import DISK
from litemq.storage.log.epochs import Epoch, EpochFile, read_epochs


def test_golden_bytes(tmp_path: Path) -> None:
    EpochFile(DISK, tmp_path / "epochs").begin(4096, "host-1", at_least=7)
    tail = (7).to_bytes(4, "big") + (4096).to_bytes(8, "big") + (6).to_bytes(2, "big") + b"host-1".ljust(46, b"\0")
    assert (tmp_path / "epochs").read_bytes() == crc32c(tail).to_bytes(4, "big") + tail


def test_epochs_rise(tmp_path: Path) -> None:
    file = EpochFile(DISK, tmp_path / "epochs")
    assert file.latest is None
    assert file.begin(0, "a").number == 1
    assert file.begin(10, "b", at_least=5).number == 5
    again = EpochFile(DISK, tmp_path / "epochs")
    assert again.entries == [Epoch(1, 0, "a"), Epoch(5, 10, "b")]
    assert again.begin(20, "主机" * 20, at_least=2).number == 6
    assert EpochFile(DISK, tmp_path / "epochs").latest == again.latest


def test_a_torn_last_entry_is_truncated(tmp_path: Path) -> None:
    path = tmp_path / "epochs"
    file = EpochFile(DISK, path)
    file.begin(0, "a")
    file.begin(1, "b")
    whole = path.read_bytes()
    for length in range(65, 128):
        path.write_bytes(whole[:length])
        assert EpochFile(DISK, path).entries == [Epoch(1, 0, "a")]
        assert path.read_bytes() == whole[:64]


def test_damage_before_the_last_entry_is_reported(tmp_path: Path) -> None:
    path = tmp_path / "epochs"
    file = EpochFile(DISK, path)
    for n in range(3):
        file.begin(n, "a")
    damaged = bytearray(path.read_bytes())
    damaged[70] ^= 1
    path.write_bytes(damaged)
    with pytest.raises(CorruptStoreError) as caught:
        EpochFile(DISK, path)
    assert (caught.value.path, caught.value.offset) == (str(path), 64)


def test_read_epochs_changes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "epochs"
    file = EpochFile(DISK, path)
    file.begin(0, "a")
    file.begin(1, "b")
    assert read_epochs(path) == [Epoch(1, 0, "a"), Epoch(2, 1, "b")]
    torn = path.read_bytes()[:100]
    path.write_bytes(torn)
    assert read_epochs(path) == [Epoch(1, 0, "a")]
    assert path.read_bytes() == torn
