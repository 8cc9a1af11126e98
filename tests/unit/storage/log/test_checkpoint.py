"""The checkpoint file: golden bytes, and one slot always stays valid."""

from pathlib import Path

from litemq.format.crc import crc32c
from litemq.storage.files.disk import DISK
from litemq.storage.log.checkpoint import Checkpoint, CheckpointFile, read_checkpoint

ONE = Checkpoint(1, 2, 3, 4, 5, 6, 7, 8, 9, 10)
TWO = Checkpoint(11, 12, 13, 14, 15, 16, 17, 18, 19, 20)


def test_golden_bytes(tmp_path: Path) -> None:
    CheckpointFile(DISK, tmp_path / "checkpoint").write(ONE)
    tail = b"".join(
        [
            (1).to_bytes(8, "big"),  # counter
            *(n.to_bytes(8, "big") for n in (1, 2, 3, 4, 5, 6)),  # flushed, confirmed, queues, index, timers, state
            (7).to_bytes(8, "big"),  # snapshot
            (8).to_bytes(4, "big"),  # epoch
            bytes(4),
            (9).to_bytes(8, "big"),  # store timestamp
            (10).to_bytes(8, "big"),  # written at
            bytes(32),
        ]
    )
    # The first write goes to the second slot: its counter is 1.
    assert (tmp_path / "checkpoint").read_bytes()[4096:] == b"LMQC" + crc32c(tail).to_bytes(4, "big") + tail


def test_the_latest_slot_is_used(tmp_path: Path) -> None:
    file = CheckpointFile(DISK, tmp_path / "checkpoint")
    assert file.latest is None
    file.write(ONE)
    file.write(TWO)
    again = CheckpointFile(DISK, tmp_path / "checkpoint")
    assert again.latest == TWO
    again.write(ONE)
    assert CheckpointFile(DISK, tmp_path / "checkpoint").latest == ONE


def test_a_flipped_bit_in_a_slot_leaves_the_other(tmp_path: Path) -> None:
    path = tmp_path / "checkpoint"
    file = CheckpointFile(DISK, path)
    file.write(ONE)
    file.write(TWO)
    whole = path.read_bytes()
    for bit in range(128 * 8):
        damaged = bytearray(whole)
        damaged[bit // 8] ^= 1 << bit % 8  # the second write went to the first slot
        path.write_bytes(damaged)
        again = CheckpointFile(DISK, path)
        assert again.latest == ONE
        assert again.damaged_slots == [0]


def test_without_a_valid_slot_there_is_no_checkpoint(tmp_path: Path) -> None:
    (tmp_path / "checkpoint").write_bytes(b"\x01" * 8192)
    file = CheckpointFile(DISK, tmp_path / "checkpoint")
    assert file.latest is None
    assert file.damaged_slots == [0, 1]


def test_read_checkpoint_finds_the_latest_valid_slot(tmp_path: Path) -> None:
    path = tmp_path / "checkpoint"
    file = CheckpointFile(DISK, path)
    assert read_checkpoint(path) is None
    file.write(ONE)
    assert read_checkpoint(path) == ONE
    file.write(TWO)
    assert read_checkpoint(path) == TWO
    path.write_bytes(bytes(128) + path.read_bytes()[128:])
    assert read_checkpoint(path) == ONE
