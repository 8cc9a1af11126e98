"""The commit log: allocation of offsets, full and broken disks, recovery from damage."""

import errno
import multiprocessing
import os
from pathlib import Path

import numpy as np
import pytest

from litemq.clock import FakeClock
from litemq.errors import (
    CorruptStoreError,
    DiskFullError,
    InvalidArgumentError,
    OffsetOutOfRangeError,
    StorageError,
    StoreFailedError,
    StoreLockedError,
)
from litemq.format.record_encode import encode_record
from litemq.storage.config import StoreConfig
from litemq.storage.files.disk import Disk, OpenFile
from litemq.storage.log.log_directory import LogDirectory
from litemq.types import Record, Stamp
from support.logs import append, read_all
from support.waiting import HANG_S

CONFIG = StoreConfig(segment_bytes=69_632, max_record_bytes=4096)


def _open(folder: Path, disk: Disk | None = None) -> LogDirectory:
    return LogDirectory(folder, CONFIG, FakeClock(), disk=disk or Disk(), host="here")


def _flush(directory: LogDirectory) -> None:
    directory.flusher.wait(directory.log.end, HANG_S)


def _bodies(directory: LogDirectory) -> list[bytes]:
    return [stored.record.body for stored in read_all(directory.log.segments, directory.log.end).values()]


def test_records_survive_a_restart(tmp_path: Path) -> None:
    bodies = [bytes([n]) * (n * 37) for n in range(100)]
    directory = _open(tmp_path)
    for at in range(0, 100, 7):
        append(directory, bodies[at : at + 7])
    directory.close()
    again = _open(tmp_path)
    assert _bodies(again) == bodies
    assert len(again.log.segments) > 2
    assert again.epoch.number == directory.epoch.number + 1
    again.close()


@pytest.mark.parametrize(
    "sizes", [[4096] * 40, [8] * 3, [69_632, 69_632, 8], [69_632 - 8, 8, 8], [69_632 - 8, 16], [40_000, 40_000, 40_000]]
)
def test_no_record_spans_two_segments(tmp_path: Path, sizes: list[int]) -> None:
    directory = _open(tmp_path)
    offsets = directory.log.allocate(np.array(sizes))
    expected, at = [], 0
    for size in sizes:
        left = CONFIG.segment_bytes - at % CONFIG.segment_bytes
        at += left if size > left else 0
        expected.append(at)
        at += size
    assert offsets.tolist() == expected
    directory.close()


def test_one_process_per_directory(tmp_path: Path) -> None:
    directory = _open(tmp_path)
    with pytest.raises(StoreLockedError, match=f"in use by process {os.getpid()}"):
        _open(tmp_path)
    directory.close()
    _open(tmp_path).close()


def test_readers_keep_dropped_segments(tmp_path: Path) -> None:
    directory = _open(tmp_path)
    for _ in range(5):
        append(directory, [b"x" * 3000] * 20)
    _flush(directory)
    log = directory.log
    first, held = log.segments[0], log.read(0, 3000)
    copy = bytes(held)
    log.drop_before(log.segments[2].start)
    assert not first.file.path.exists()
    assert log.start == log.segments[0].start == 2 * CONFIG.segment_bytes
    assert bytes(held) == copy
    assert first.read(0, 3000) == copy
    with pytest.raises(OffsetOutOfRangeError, match="the log has"):
        log.read(0, 8)
    log.drop_before(1 << 60)
    assert len(log.segments) == 1
    directory.close()
    again = _open(tmp_path)
    assert again.log.end == log.end
    again.close()


class _FailingDisk(Disk):
    """A disk with limited space that may fail to sync."""

    def __init__(self) -> None:
        self.space: int | None = None
        self.sync_error = 0
        self.write_error = 0

    def pwrite(self, file: OpenFile, data: memoryview, offset: int) -> int:
        if self.write_error:
            raise OSError(self.write_error, os.strerror(self.write_error))
        if self.space is None:
            return super().pwrite(file, data, offset)
        if self.space == 0:
            raise OSError(errno.ENOSPC, "No space left on device")
        written = super().pwrite(file, data[: self.space], offset)
        self.space -= written
        return written

    def fsync(self, file: OpenFile) -> None:
        if self.sync_error:
            raise OSError(self.sync_error, os.strerror(self.sync_error))
        super().fsync(file)


@pytest.mark.parametrize("space", [0, 100, 400, 900])
def test_a_full_disk_refuses_appends_until_there_is_space(tmp_path: Path, space: int) -> None:
    disk = _FailingDisk()
    directory = _open(tmp_path, disk)
    append(directory, [b"before"])
    end = directory.log.end
    disk.space = space
    with pytest.raises(DiskFullError):
        append(directory, [b"a" * 100, b"b" * 100, b"c" * 1000])
    assert directory.log.end == end
    # Some records of the failed batch reached the disk; none of them may ever be read.
    disk.space = None
    append(directory, [b"d" * 100])
    _flush(directory)
    os.truncate(tmp_path / "checkpoint", 0)
    directory.abandon()
    again = _open(tmp_path)
    assert _bodies(again) == [b"before", b"d" * 100]
    again.close()


def test_without_descriptors_the_log_remains_usable(tmp_path: Path) -> None:
    class NoDescriptors(Disk):
        left = True

        def open(self, path: Path, *, create: bool = False) -> OpenFile:
            if not self.left:
                raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
            return super().open(path, create=create)

    disk = NoDescriptors()
    directory = _open(tmp_path, disk)
    append(directory, [b"x" * 4000] * 16)
    disk.left = False
    with pytest.raises(StorageError, match="Too many open files"):
        append(directory, [b"y" * 4000] * 4)  # needs a new segment
    disk.left = True
    append(directory, [b"y" * 4000] * 4)
    _flush(directory)
    assert directory.log.failure is None
    assert len(_bodies(directory)) == 20
    directory.close()


def test_a_full_disk_at_the_end_of_a_segment(tmp_path: Path) -> None:
    disk = _FailingDisk()
    directory = _open(tmp_path, disk)
    append(directory, [b"x" * 4000] * 16)
    end, count = directory.log.end, len(directory.log.segments)
    disk.space = 5000
    with pytest.raises(DiskFullError):
        append(directory, [b"y" * 4000] * 4)
    assert (directory.log.end, len(directory.log.segments)) == (end, count)
    disk.space = None
    append(directory, [b"z" * 4000] * 4)
    _flush(directory)
    directory.close()
    again = _open(tmp_path)
    assert _bodies(again) == [b"x" * 4000] * 16 + [b"z" * 4000] * 4
    again.close()


def test_a_failed_sync_stops_writing_for_good(tmp_path: Path) -> None:
    disk = _FailingDisk()
    directory = _open(tmp_path, disk)
    append(directory, [b"safe"])
    _flush(directory)
    disk.sync_error = errno.EIO
    append(directory, [b"not safe"])
    with pytest.raises(StoreFailedError, match="fsync failed"):
        _flush(directory)
    disk.sync_error = 0  # the kernel would now report success for lost pages
    with pytest.raises(StoreFailedError, match="fsync failed"):
        append(directory, [b"never"])
    with pytest.raises(StoreFailedError):
        _flush(directory)
    directory.close()
    assert (tmp_path / "abort").exists()
    again = _open(tmp_path)
    assert _bodies(again)[0] == b"safe"
    again.close()


def test_a_failed_write_stops_writing_for_good(tmp_path: Path) -> None:
    disk = _FailingDisk()
    directory = _open(tmp_path, disk)
    disk.write_error = errno.EIO
    with pytest.raises(StoreFailedError, match="Input/output error"):
        append(directory, [b"x"])
    disk.write_error = 0
    with pytest.raises(StoreFailedError):
        append(directory, [b"y"])
    directory.close()


def test_a_stale_tail_is_never_read(tmp_path: Path) -> None:
    """After truncation, a shorter log leaves valid records of an older epoch after its end."""
    directory = _open(tmp_path)
    append(directory, [b"one" * 10, b"two" * 10, b"six" * 10])
    _flush(directory)
    directory.close()
    segment = next((tmp_path / "commitlog").iterdir())
    stale = segment.read_bytes()
    size = int.from_bytes(stale[:4], "big")
    other = tmp_path / "other"
    again = _open(other)
    again.close()
    again = _open(other)  # a later epoch
    append(again, [b"new" * 10])
    _flush(again)
    again.abandon()
    path = next((other / "commitlog").iterdir())
    path.write_bytes(path.read_bytes()[:size] + stale[size:])
    recovered = _open(other)
    assert _bodies(recovered) == [b"new" * 10]
    recovered.close()


def test_without_a_checkpoint_damage_before_intact_records_is_not_truncated(tmp_path: Path) -> None:
    directory = _open(tmp_path)
    append(directory, [b"one", b"two", b"three"])
    directory.close()
    segment = next((tmp_path / "commitlog").iterdir())
    data = bytearray(segment.read_bytes())
    data[200] ^= 1
    segment.write_bytes(data)
    (tmp_path / "checkpoint").unlink()
    before = segment.read_bytes()
    with pytest.raises(CorruptStoreError, match="intact records follow it") as caught:
        _open(tmp_path)
    assert caught.value.path == str(segment)
    assert segment.read_bytes() == before


def test_missing_parts_of_the_log_are_damage(tmp_path: Path) -> None:
    directory = _open(tmp_path)
    for _ in range(5):
        append(directory, [b"x" * 3000] * 20)
    directory.close()
    segments = sorted((tmp_path / "commitlog").iterdir())
    segments[1].rename(tmp_path / "aside")
    with pytest.raises(CorruptStoreError, match="the segment is missing"):
        _open(tmp_path)
    (tmp_path / "aside").rename(segments[1])
    os.truncate(segments[1], 100)
    with pytest.raises(CorruptStoreError, match="shorter than what was flushed"):
        _open(tmp_path)
    for segment in segments:
        segment.unlink()
    with pytest.raises(CorruptStoreError, match="the log is missing"):
        _open(tmp_path)


def test_a_smaller_record_limit_does_not_truncate_stored_records(tmp_path: Path) -> None:
    large = StoreConfig(segment_bytes=8 << 20, max_record_bytes=4 << 20)
    directory = LogDirectory(tmp_path, large, FakeClock())
    offsets = append(directory, [b"a", b"b" * (2 << 20), b"c"])
    _flush(directory)
    directory.abandon()
    again = LogDirectory(tmp_path, StoreConfig(segment_bytes=8 << 20, max_record_bytes=1 << 20), FakeClock())
    assert list(read_all(again.log.segments, again.log.end)) == offsets
    again.close()


def test_a_stray_file_is_no_segment(tmp_path: Path) -> None:
    directory = _open(tmp_path)
    append(directory, [b"one"])
    directory.close()
    (tmp_path / "commitlog" / f"{CONFIG.segment_bytes:020d}").touch()
    (tmp_path / "commitlog" / ("²" * 20)).touch()
    again = _open(tmp_path)
    append(again, [b"two"])
    _flush(again)
    assert _bodies(again) == [b"one", b"two"]
    again.close()


def test_no_space_for_a_segment_leaves_no_file(tmp_path: Path) -> None:
    class NoRoom(Disk):
        full = False

        def reserve(self, file: OpenFile, size: int) -> None:
            if self.full:
                raise DiskFullError("no space left")
            super().reserve(file, size)

    disk = NoRoom()
    directory = _open(tmp_path, disk)
    append(directory, [b"x" * 4000] * 16)
    disk.full = True
    with pytest.raises(DiskFullError):
        append(directory, [b"y" * 4000] * 4)
    assert len(list((tmp_path / "commitlog").iterdir())) == 1
    disk.full = False
    append(directory, [b"y" * 4000] * 4)
    directory.close()
    again = _open(tmp_path)
    assert len(_bodies(again)) == 20
    again.close()


def test_a_disk_without_space_for_the_first_segment_is_named_at_the_start(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    class Tiny(Disk):
        free = 4096

        def free_bytes(self, _path: Path) -> int:
            return self.free

        def reserve(self, file: OpenFile, size: int) -> None:
            if self.free < size:
                raise DiskFullError(f"no space left for {size} bytes of {file.path}")
            super().reserve(file, size)

    disk = Tiny()
    directory = _open(tmp_path, disk)
    advice = "free disk space, or choose a smaller storage.file_size"
    [warning] = [record.message for record in caplog.records if record.levelname == "WARNING"]
    assert "messages will be refused, since the disk has 4096 free bytes" in warning
    assert warning.endswith(advice)
    with pytest.raises(DiskFullError, match=advice):
        append(directory, [b"x"])
    disk.free = 1 << 30
    append(directory, [b"x"])
    disk.free = 0
    with pytest.raises(DiskFullError) as full:
        append(directory, [b"y" * 4000] * 17)
    assert "file_size" not in str(full.value)  # the log has segments of this size
    directory.close()
    caplog.clear()
    _open(tmp_path, disk).close()
    assert not caplog.records


def test_after_a_clean_stop_every_bad_record_is_damage(tmp_path: Path) -> None:
    directory = _open(tmp_path)
    append(directory, [b"one"])
    _flush(directory)
    directory.checkpoint()
    append(directory, [b"two", b"three"])
    directory.close()
    segment = next((tmp_path / "commitlog").iterdir())
    data = bytearray(segment.read_bytes())
    data[data.index(b"two")] ^= 1
    segment.write_bytes(data)
    slots = bytearray((tmp_path / "checkpoint").read_bytes())
    later = 0 if slots[8:16] > slots[4096 + 8 : 4096 + 16] else 4096
    slots[later + 20] ^= 1
    (tmp_path / "checkpoint").write_bytes(slots)
    with pytest.raises(CorruptStoreError, match="the last stop was clean"):
        _open(tmp_path)
    assert segment.read_bytes() == data


def test_an_epoch_below_the_checkpoints_ends_the_log(tmp_path: Path) -> None:
    for _ in range(5):
        _open(tmp_path).close()
    directory = _open(tmp_path)
    (offset,) = append(directory, [b"mine"])
    directory.close()
    end = directory.log.end
    old = encode_record(Record("orders", b"stale"), Stamp(commitlog_offset=end, epoch=1))
    segment = next((tmp_path / "commitlog").iterdir())
    data = segment.read_bytes()
    segment.write_bytes(data[:end] + old + data[end + len(old) :])
    (tmp_path / "abort").touch()
    again = _open(tmp_path)
    assert list(read_all(again.log.segments, again.log.end)) == [offset]
    again.close()


def test_another_segment_size_is_refused(tmp_path: Path) -> None:
    directory = _open(tmp_path)
    for _ in range(3):
        append(directory, [b"x" * 3000] * 30)
    directory.close()
    with pytest.raises(StorageError, match="`--file-size 69632`"):
        LogDirectory(tmp_path, StoreConfig(segment_bytes=139_264, max_record_bytes=4096), FakeClock())


def test_a_closed_log_refuses_writes_and_waits(tmp_path: Path) -> None:
    directory = _open(tmp_path)
    append(directory, [b"x"])
    with pytest.raises(OffsetOutOfRangeError, match="the log ends at"):
        directory.flusher.wait(1 << 40, 1)
    (tmp_path / "abort").unlink()
    directory.close()
    directory.close()
    with pytest.raises(StoreFailedError, match="was closed"):
        append(directory, [b"y"])
    _open(tmp_path).close()


def test_a_child_does_not_keep_the_lock(tmp_path: Path) -> None:
    directory = _open(tmp_path)
    context = multiprocessing.get_context("fork")
    event = context.Event()
    child = context.Process(target=event.wait, args=(HANG_S,))
    child.start()
    directory.close()
    _open(tmp_path).close()
    event.set()
    child.join()


@pytest.mark.parametrize("what", ["a file", "commitlog", "checkpoint", "lock"])
def test_an_unreadable_path_is_reported(tmp_path: Path, what: str) -> None:
    folder = tmp_path / "data"
    if what == "a file":
        folder.write_text("not a directory")
    else:
        folder.mkdir()
        (folder / what).touch() if what == "commitlog" else (folder / what).mkdir()
    with pytest.raises(StorageError, match="cannot open"):
        LogDirectory(str(folder), CONFIG, FakeClock())  # type: ignore[arg-type]


def test_too_large_and_scattered_records_are_refused(tmp_path: Path) -> None:
    directory = _open(tmp_path)
    with pytest.raises(InvalidArgumentError, match="does not fit a segment"):
        directory.log.allocate(np.array([CONFIG.segment_bytes + 8]))
    with pytest.raises(InvalidArgumentError, match="must be contiguous"):
        directory.log.write(bytes(48), np.array([0, 32]), np.array([16, 16]), np.array([0, 16]))
    directory.close()


def test_settings_are_checked() -> None:
    with pytest.raises(InvalidArgumentError, match="multiple of 8"):
        StoreConfig(segment_bytes=1 << 20)
    with pytest.raises(InvalidArgumentError, match="multiple of 8"):
        StoreConfig(segment_bytes=(1 << 30) + 1)
    with pytest.raises(InvalidArgumentError, match="multiple of 8"):
        StoreConfig(segment_bytes="1")  # type: ignore[arg-type]
    with pytest.raises(InvalidArgumentError, match="max_record_bytes"):
        StoreConfig(max_record_bytes=(64 << 20) + 1)
