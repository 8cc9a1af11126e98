"""Queues: entries are the same from the cache, from files and before they are written."""

from pathlib import Path

import numpy as np
import pytest

from litemq.format.batches.stamp import QUEUE_ENTRY
from litemq.storage.files.disk import DISK
from litemq.storage.queues import queues as module
from litemq.storage.queues.queue_files import QueueFiles
from litemq.storage.queues.queues import Queues
from litemq.storage.state import QueueKey, State, Topic
from support.waiting import HANG_S


def _entries(first: int, count: int) -> np.ndarray:
    entries = np.zeros(count, QUEUE_ENTRY)
    entries["log_offset"] = np.arange(first, first + count) * 200
    entries["size"] = 200
    return entries


def _queues(folder: Path) -> tuple[Queues, QueueKey, State]:
    state = State()
    state.topics[16] = Topic(16, "orders", 1)
    (folder / "consumequeue").mkdir()
    return Queues(QueueFiles(DISK, folder / "consumequeue"), state), QueueKey(16, 0), state


def _grow(queues: Queues, key: QueueKey, state: State, first: int, count: int) -> None:
    queues.add(key, first, _entries(first, count))
    state.extend_queue(key, first + count)


def _in_memory(queues: Queues, key: QueueKey, count: int) -> list[int]:
    """Return the offsets below ``count`` whose entries are in memory; check their log offsets."""
    log_offsets = {offset: queues.log_offset_in_memory(key, offset) for offset in range(count)}
    assert all(log_offset in (None, offset * 200) for offset, log_offset in log_offsets.items())
    return [offset for offset, log_offset in log_offsets.items() if log_offset is not None]


def test_the_latest_entries_are_read_from_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_MAX_CACHED_PER_QUEUE", 10)
    queues, key, state = _queues(tmp_path)
    _grow(queues, key, state, 0, 8)
    queues.write_behind(8 * 200, HANG_S)
    assert _in_memory(queues, key, 8) == [*range(8)]
    _grow(queues, key, state, 8, 8)
    queues.write_behind(16 * 200, HANG_S)
    assert _in_memory(queues, key, 16) == [*range(6, 16)]
    _grow(queues, key, state, 16, 2)
    assert _in_memory(queues, key, 20) == [*range(6, 18)]
    for first in range(18):  # across files, cached and unwritten entries
        read = queues.read(key, first, 5, 18 * 200)
        assert (read["log_offset"] // 200).tolist() == list(range(first, min(18, first + 5)))
    read_files = []
    monkeypatch.setattr(queues._files, "read", lambda *arguments: read_files.append(arguments))
    queues.read(key, 6, 12, 18 * 200)
    assert not read_files


def test_the_least_recently_written_entries_are_evicted_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_MAX_CACHED", 10)
    queues, _, state = _queues(tmp_path)
    keys = [QueueKey(16, number) for number in range(4)]
    for key in keys:
        _grow(queues, key, state, 0, 4)
        queues.write_behind(1 << 40, HANG_S)
    assert [_in_memory(queues, key, 4) for key in keys] == [[], [], [0, 1, 2, 3], [0, 1, 2, 3]]


def test_a_queue_ends_after_its_last_confirmed_record(tmp_path: Path) -> None:
    queues, key, state = _queues(tmp_path)
    assert queues.end_below(key, 0) == 0
    _grow(queues, key, state, 0, 8)
    ends = [int(entry["log_offset"]) + int(entry["size"]) for entry in _entries(0, 8)]
    assert [queues.end_below(key, end) for end in ends] == [*range(1, 9)]
    assert queues.end_below(key, ends[3] - 1) == 3
    queues.write_behind(ends[4], HANG_S)
    assert queues.end_below(key, ends[5]) == 6
    queues.write_behind(ends[7], HANG_S)
    assert queues.end_below(key, ends[7]) == 8


def test_entries_held_by_a_reader_do_not_change(tmp_path: Path) -> None:
    queues, key, state = _queues(tmp_path)
    held = []
    for first in range(0, 300, 3):
        _grow(queues, key, state, first, 3)
        held.append((first, queues.read(key, max(0, first - 10), 13, 1 << 40)))
        if first % 90 == 0:
            queues.write_behind((first + 1) * 200, HANG_S)
    for first, entries in held:
        assert (entries["log_offset"] // 200).tolist() == list(range(max(0, first - 10), first + 3))
