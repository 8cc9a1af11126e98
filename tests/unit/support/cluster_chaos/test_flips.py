"""One bit of a log is flipped, below an offset."""

from __future__ import annotations

from pathlib import Path
from random import Random

from support.cluster_chaos.flips import flip_bit


def test_one_bit_below_the_offset_is_flipped(tmp_path: Path) -> None:
    for seed in range(20):
        commitlog = tmp_path / f"a{seed}" / "data" / "commitlog"
        commitlog.mkdir(parents=True)
        for start in (8, 16):
            (commitlog / f"{start:020d}").write_bytes(bytes(8))
        said = flip_bit(commitlog, 20, Random(seed))
        data = b"".join((commitlog / f"{start:020d}").read_bytes() for start in (8, 16))
        assert int.from_bytes(data).bit_count() == 1
        at = 8 + next(number for number, byte in enumerate(data) if byte)
        assert at < 20
        assert said == f"a{seed} at {at}"


def test_an_empty_log_stays_as_it_is(tmp_path: Path) -> None:
    assert flip_bit(tmp_path, 100, Random(1)).startswith("nothing: ")
