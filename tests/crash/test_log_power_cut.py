"""Recovery from every state that a power cut can leave of the log.

No promised record is lost, and no record that was read changes.
"""

from pathlib import Path

import pytest

from litemq.clock import FakeClock
from litemq.errors import CorruptStoreError
from litemq.storage.config import StoreConfig
from litemq.storage.log.log_directory import LogDirectory
from support.logs import append, read_all
from support.power_cut import RecordingDisk, states_after

CONFIG = StoreConfig(segment_bytes=69_632, max_record_bytes=4096)


class History:
    """The records promised after each number of recorded disk operations."""

    def __init__(self, disk: RecordingDisk) -> None:
        self.disk = disk
        self.written: dict[int, bytes] = {}
        self.promises: list[tuple[int, frozenset[int]]] = []
        self._acked: frozenset[int] = frozenset()

    def append(self, directory: LogDirectory, bodies: list[bytes]) -> None:
        offsets = append(directory, bodies)
        self.written |= dict(zip(offsets, bodies, strict=True))
        directory.flusher.wait(directory.log.end, 10)
        self._acked |= frozenset(offsets)
        self.promises.append((len(self.disk.operations), self._acked))

    def promised_after(self, operations: int) -> frozenset[int]:
        return max((p for p in self.promises if p[0] <= operations), default=(0, frozenset()))[1]


def _record(folder: Path) -> History:
    """Open, append, roll over two segments, checkpoint, stop cleanly, open again, append."""
    disk = RecordingDisk()
    history = History(disk)
    directory = LogDirectory(folder, CONFIG, FakeClock(), disk=disk, host="one")
    history.append(directory, [b"first"])
    history.append(directory, [bytes([n]) * 1500 for n in range(30)])
    directory.checkpoint()
    history.append(directory, [bytes([n]) * 3000 for n in range(12)])
    history.append(directory, [b"x" * 3500] * 22)
    directory.close()
    again = LogDirectory(folder, CONFIG, FakeClock(), disk=disk, host="two")
    history.append(again, [b"after the restart", b"y" * 700])
    again.close()
    assert len(again.log.segments) >= 3
    return history


def test_every_power_cut(tmp_path: Path) -> None:
    history = _record(tmp_path / "recorded")
    operations = history.disk.operations
    states = 0
    for until in range(len(operations) + 1):
        for tree in states_after(operations[:until]):
            states += 1
            folder = tmp_path / f"state-{states}"
            tree.write_to(tmp_path / "recorded", folder)
            _check(folder, history, history.promised_after(until))
            _remove(folder)
    assert states > 200  # the exact number depends on the timing of flusher and writer


def _check(folder: Path, history: History, promised: frozenset[int]) -> None:
    directory = LogDirectory(folder, CONFIG, FakeClock(), host="after")
    found = read_all(directory.log.segments, directory.log.end)
    assert promised <= found.keys()
    for offset, stored in found.items():
        assert stored.record.body == history.written[offset]
    # New records are read back, and the truncated tail is not.
    (offset,) = append(directory, [b"new"])
    directory.flusher.wait(directory.log.end, 10)
    epoch = directory.epoch.number
    directory.close()
    again = LogDirectory(folder, CONFIG, FakeClock(), host="after")
    assert again.epoch.number > epoch
    bodies = {at: stored.record.body for at, stored in read_all(again.log.segments, again.log.end).items()}
    assert bodies == {at: stored.record.body for at, stored in found.items()} | {offset: b"new"}
    again.close()


def _remove(folder: Path) -> None:
    for path in sorted(folder.rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()
    folder.rmdir()


def test_the_enumeration_finds_a_missing_sync(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the sync before the promise, some state loses promised records."""
    monkeypatch.setattr(RecordingDisk, "fsync", lambda _self, _file: None)
    with pytest.raises(AssertionError):
        test_every_power_cut(tmp_path)


def test_the_enumeration_finds_a_missing_directory_sync(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(RecordingDisk, "sync_directory", lambda _self, _path: None)
    with pytest.raises((AssertionError, CorruptStoreError)):
        test_every_power_cut(tmp_path)
