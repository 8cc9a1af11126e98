"""Queue files: entries are read back, and damage is reported."""

from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from litemq.errors import CorruptStoreError, InvalidArgumentError
from litemq.format.batches.stamp import QUEUE_ENTRY
from litemq.storage.files.disk import DISK
from litemq.storage.queues.queue_files import QueueFiles


def _entries(first: int, count: int) -> npt.NDArray[np.void]:
    entries = np.empty(count, QUEUE_ENTRY)
    entries["log_offset"] = np.arange(first, first + count) * 1000
    entries["size"] = 200
    entries["tag_hash"] = 7
    entries["store_timestamp"] = 1_700_000_000_000 + np.arange(first, first + count)
    return entries


def _files(folder: Path, entries_per_file: int = 500) -> QueueFiles:
    return QueueFiles(DISK, folder, max_open=3, entries_per_file=entries_per_file)


@settings(max_examples=40)
@given(runs=st.lists(st.integers(1, 400), min_size=1, max_size=8), begin=st.integers(0, 1200), data=st.data())
def test_written_entries_are_read_back(
    tmp_path_factory: pytest.TempPathFactory, runs: list[int], begin: int, data: st.DataObject
) -> None:
    files = _files(tmp_path_factory.mktemp("queues"))
    at = begin
    for run in runs:
        files.write("orders", 0, at, _entries(at, run))
        at += run
    # Write some entries twice, as after a crash that reset the checkpoint.
    again = data.draw(st.integers(begin, at - 1))
    files.write("orders", 0, again, _entries(again, at - again))
    first = data.draw(st.integers(begin, at - 1))
    count = data.draw(st.integers(1, 1000))
    assert files.read("orders", 0, first, count, at).tobytes() == _entries(first, min(count, at - first)).tobytes()


def test_joined_arrays_are_written_big_endian(tmp_path: Path) -> None:
    files = _files(tmp_path)
    joined = np.concatenate([_entries(0, 3), _entries(3, 2)])
    assert joined.dtype != QUEUE_ENTRY
    files.write("orders", 0, 0, joined)
    assert files.read("orders", 0, 0, 5, 5).tobytes() == _entries(0, 5).tobytes()


def test_layout_on_disk(tmp_path: Path) -> None:
    files = _files(tmp_path)
    files.write("orders", 2, 0, _entries(0, 700))
    names = sorted(path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*") if path.is_file())
    assert names == [
        "orders/2/00000000000000000000",
        "orders/2/00000000000000000000.crc",
        "orders/2/00000000000000012000",
        "orders/2/00000000000000012000.crc",
    ]
    # 12,000 bytes are two full blocks and a last one, which counts as full because the file is;
    # 4,800 bytes are one full block.
    assert (tmp_path / names[1]).stat().st_size == 12
    assert (tmp_path / names[3]).stat().st_size == 4


def test_every_damaged_byte_of_a_full_block_is_detected(tmp_path: Path) -> None:
    files = _files(tmp_path)
    files.write("orders", 0, 0, _entries(0, 500))
    path = tmp_path / "orders" / "0" / "00000000000000000000"
    whole = path.read_bytes()
    for at in range(0, len(whole), 7):
        damaged = bytearray(whole)
        damaged[at] ^= 0x10
        path.write_bytes(damaged)
        with pytest.raises(CorruptStoreError) as caught:
            _files(tmp_path).read("orders", 0, 0, 500, 500)
        assert (caught.value.path, caught.value.offset) == (str(path), at // 4096 * 4096)
    path.write_bytes(whole)
    checksums = path.with_suffix(".crc")
    checksums.write_bytes(b"\0" + checksums.read_bytes()[1:])
    with pytest.raises(CorruptStoreError, match="block checksum mismatch"):
        _files(tmp_path).read("orders", 0, 0, 1, 500)


def test_missing_and_truncated_files_are_reported(tmp_path: Path) -> None:
    files = _files(tmp_path)
    files.write("orders", 0, 0, _entries(0, 300))
    with pytest.raises(CorruptStoreError, match="is missing"):
        files.read("orders", 1, 0, 10, 10)
    with pytest.raises(CorruptStoreError, match="the file ends here"):
        files.read("orders", 0, 290, 50, 400)
    (tmp_path / "orders" / "0" / "00000000000000000000.crc").unlink()
    with pytest.raises(CorruptStoreError, match="crc is damaged"):
        _files(tmp_path).read("orders", 0, 0, 10, 300)


@pytest.mark.parametrize("topic", ["../evil", "/tmp/evil", "", ".", "..", "a/b", "a\0b", "x" * 135])  # noqa: S108
def test_a_topic_name_cannot_escape_the_directory(tmp_path: Path, topic: str) -> None:
    with pytest.raises(InvalidArgumentError, match="not a valid queue name"):
        _files(tmp_path / "queues").write(topic, 0, 0, _entries(0, 1))
    with pytest.raises(InvalidArgumentError, match="not a valid queue name"):
        _files(tmp_path / "queues").write("orders", 0, -5, _entries(0, 1))
    assert list(tmp_path.iterdir()) == []


def test_few_files_stay_open(tmp_path: Path) -> None:
    files = _files(tmp_path)
    for queue in range(20):
        files.write("orders", queue, 0, _entries(0, 200))
    for queue in range(20):
        assert len(files.read("orders", queue, 0, 200, 200)) == 200
    assert len(files._files) <= 3


def test_files_before_the_start_offset_are_dropped(tmp_path: Path) -> None:
    files = _files(tmp_path)
    files.write("orders", 0, 0, _entries(0, 1600))
    files.drop_before("orders", 0, 1100)
    files.drop_before("orders", 9, 1100)
    left = sorted(path.name for path in (tmp_path / "orders" / "0").iterdir())
    assert left == ["00000000000000024000", "00000000000000024000.crc", "00000000000000036000"]
    assert len(files.read("orders", 0, 1000, 600, 1600)) == 600
