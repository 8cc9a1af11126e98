"""One bit of a log is flipped, below an offset, until it is repaired."""

from __future__ import annotations

import shutil
from pathlib import Path
from random import Random

from support.cluster_chaos.flips import flip_bit


def _log(folder: Path) -> Path:
    commitlog = folder / "commitlog"
    commitlog.mkdir(parents=True)
    for start in (8, 16):
        (commitlog / f"{start:020d}").write_bytes(bytes(8))
    return commitlog


def test_one_bit_below_the_offset_is_flipped(tmp_path: Path) -> None:
    for seed in range(20):
        commitlog = _log(tmp_path / str(seed))
        flip = flip_bit("a1", commitlog, 20, Random(seed))
        assert flip is not None
        data = b"".join((commitlog / f"{start:020d}").read_bytes() for start in (8, 16))
        assert int.from_bytes(data).bit_count() == 1
        at = 8 + next(number for number, byte in enumerate(data) if byte)
        assert at < 20
        assert str(flip) == f"a1 at {at}"


def test_a_flip_is_repaired_once_its_byte_is_right_or_gone(tmp_path: Path) -> None:
    commitlog = _log(tmp_path)
    flip = flip_bit("a1", commitlog, 20, Random(1))
    assert flip is not None
    assert not flip.is_repaired()
    for start in (8, 16):
        (commitlog / f"{start:020d}").write_bytes(bytes(8))
    assert flip.is_repaired()
    shutil.rmtree(commitlog)
    assert flip.is_repaired()


def test_a_log_without_the_offset_stays_as_it_is(tmp_path: Path) -> None:
    assert flip_bit("a1", tmp_path, 100, Random(1)) is None
    assert flip_bit("a1", tmp_path / "missing", 100, Random(1)) is None
    assert flip_bit("a1", _log(tmp_path), 8, Random(1)) is None
