"""Key index files: golden bytes, every key is found, and damage is detected."""

import struct
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from litemq.errors import CorruptStoreError, DiskFullError
from litemq.format import native
from litemq.storage.files.block_crcs import crc_path
from litemq.storage.files.disk import DISK
from litemq.storage.index.key_index import ActiveKeyIndex, SealedKeyIndex, link
from support.full_disk import FullDisk


def _active(path: Path, slots: int = 7, capacity: int = 100_000) -> ActiveKeyIndex:
    return ActiveKeyIndex(DISK, path, slots=slots, capacity=capacity)


def _add(index: ActiveKeyIndex, hashes: list[int], first_offset: int = 0, time: int = 1_700_000_000_000) -> None:
    count = len(hashes)
    offsets = np.arange(first_offset, first_offset + count)
    index.add(np.array(hashes, np.uint32), offsets, np.full(count, time))


def test_golden_bytes(tmp_path: Path) -> None:
    index = _active(tmp_path / "index", slots=3)
    _add(index, [4, 5], 100, 1_700_000_000_000)
    _add(index, [7], 300, 1_700_000_002_500)
    index.seal()
    assert (tmp_path / "index").read_bytes() == b"".join(
        [
            struct.pack(">qq", 1_700_000_000_000, 1_700_000_002_500),  # begin, end
            struct.pack(">qq", 100, 300),  # log offsets
            struct.pack(">II", 3, 3),  # slots, entries
            struct.pack(">III", 0, 3, 2),  # slot 1 leads to entry 3, slot 2 to entry 2
            struct.pack(">IqII", 4, 100, 0, 0),  # slot 1
            struct.pack(">IqII", 5, 101, 0, 0),  # slot 2
            struct.pack(">IqII", 7, 300, 2, 1),  # slot 1, two seconds later, entry 1 before it
        ]
    )


@pytest.mark.parametrize("is_native", [True, False])
def test_entries_that_the_disk_refused_leave_no_trace(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, is_native: bool
) -> None:
    monkeypatch.setattr(native, "enabled", is_native and native.enabled)
    disk = FullDisk()
    index = ActiveKeyIndex(disk, tmp_path / "1", slots=7, capacity=100)
    _add(index, [1, 8, 2])
    disk.is_full = True
    for _ in range(2):
        with pytest.raises(DiskFullError):
            _add(index, [1, 8, 1, 15, 3], 3)
        assert [index.find(key_hash) for key_hash in (1, 8, 2, 15, 3)] == [[0], [1], [2], [], []]
    disk.is_full = False
    _add(index, [1, 8, 1, 15, 3], 3)
    assert [index.find(key_hash) for key_hash in (1, 8, 2, 15, 3)] == [[5, 3, 0], [4, 1], [2], [6], [7]]


@settings(max_examples=60)
@given(st.lists(st.lists(st.integers(0, 2**32 - 1) | st.integers(0, 12), max_size=60), max_size=6))
def test_every_key_is_found_latest_first(tmp_path_factory: pytest.TempPathFactory, batches: list[list[int]]) -> None:
    path = tmp_path_factory.mktemp("index") / "1"
    index = _active(path)
    expected: dict[int, list[int]] = {}
    offset = 0
    for batch in batches:
        _add(index, batch, offset)
        for key_hash in batch:
            expected.setdefault(key_hash, []).insert(0, offset)
            offset += 1
    assert len(index) == offset
    for key_hash in [*expected, 3, 99]:
        assert index.find(key_hash) == expected.get(key_hash, [])
    sealed = index.seal()
    assert len(sealed) == offset
    for key_hash in [*expected, 3, 99]:
        assert sealed.find(key_hash) == expected.get(key_hash, [])


def test_after_a_stop_full_blocks_are_loaded(tmp_path: Path) -> None:
    path = tmp_path / "index"
    index = _active(path, slots=100)
    hashes = [n * 7919 % 2**32 for n in range(1000)]
    _add(index, hashes)
    again = _active(path, slots=100)
    # 440 bytes of header and slots and 20,000 of entries are four full blocks: 16,384 bytes.
    assert len(again) == (16_384 - 440) // 20
    assert again.last_log_offset == len(again) - 1
    assert again.find(hashes[5]) == [5]
    _add(again, hashes[len(again) :], len(again))
    assert [again.find(key_hash) for key_hash in hashes] == [[n] for n in range(1000)]
    assert again.free_entries == 100_000 - 1000


def test_damaged_blocks_of_an_active_file_are_not_loaded(tmp_path: Path) -> None:
    path = tmp_path / "index"
    _add(_active(path, slots=100), list(range(1000)))
    damaged = bytearray(path.read_bytes())
    damaged[5000] ^= 1
    path.write_bytes(damaged)
    assert len(_active(path, slots=100)) == (4096 - 440) // 20
    crc_path(path).write_bytes(b"")
    assert len(_active(path, slots=100)) == 0


def test_every_damaged_byte_of_a_sealed_file_is_detected(tmp_path: Path) -> None:
    path = tmp_path / "index"
    index = _active(path, slots=50)
    hashes = [n * 104_729 % 2**32 for n in range(300)]
    _add(index, hashes)
    index.seal()
    whole = path.read_bytes()
    for at in range(0, len(whole), 13):
        damaged = bytearray(whole)
        damaged[at] ^= 4
        path.write_bytes(damaged)
        with pytest.raises(CorruptStoreError) as caught:
            _find_all(SealedKeyIndex(DISK, path), hashes)
        assert caught.value.path == str(path)
        assert caught.value.offset == at // 4096 * 4096
    path.write_bytes(whole[:-20])
    with pytest.raises(CorruptStoreError):
        _find_all(SealedKeyIndex(DISK, path), hashes)


def _find_all(index: SealedKeyIndex, hashes: list[int]) -> None:
    for key_hash in hashes:
        index.find(key_hash)


BUILT = pytest.mark.skipif(not native.enabled, reason="the extension was not built, or LITEMQ_PURE is set")


@BUILT
@given(st.integers(1, 50), st.lists(st.lists(st.integers(0, 2**32 - 1) | st.integers(0, 60), max_size=70), max_size=4))
def test_entries_are_linked_as_numpy_links_them(slots: int, batches: list[list[int]]) -> None:
    quick, slow = np.zeros(slots, np.uint32), np.zeros(slots, np.uint32)
    number = 1
    for batch in batches:
        hashes = np.array(batch, np.uint32)
        previous = link(quick, hashes, number)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(native, "enabled", False)
            assert previous.tolist() == link(slow, hashes, number).tolist()
        number += len(batch)
    assert quick.tolist() == slow.tolist()


@BUILT
@pytest.mark.parametrize(
    ("slots", "first", "space"), [(0, 1, 2), (5, -1, 2), (5, 2**32 - 1, 2), (5, 2**63 - 1, 2), (5, 1, 1), (5, 1, 3)]
)
def test_entries_that_cannot_be_linked(slots: int, first: int, space: int) -> None:
    taken = np.zeros(slots, np.uint32)
    with pytest.raises(ValueError, match="slots"):
        native.loops.link(taken, np.zeros(2, np.uint32), first, np.empty(space, np.uint32))
    assert not taken.any()
    with pytest.raises((TypeError, BufferError, ValueError)):
        native.loops.link(np.zeros(5, np.int64), np.zeros(2, np.uint32), 1, np.empty(2, np.uint32))
