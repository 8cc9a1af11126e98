"""A disk on which every operation is a step of a schedule, and the clock of the schedule."""

from __future__ import annotations

from pathlib import Path

from litemq.storage.files.disk import OpenFile
from support.power_cut import Operation, RecordingDisk
from support.schedules.scheduler import Scheduler


class ScheduledClock:
    """The virtual time of a schedule."""

    def __init__(self, scheduler: Scheduler, wall_ms: int = 1_700_000_000_000) -> None:
        self._scheduler = scheduler
        self._wall_ms = wall_ms

    def wall_ms(self) -> int:
        return self._wall_ms + self._scheduler.now_ns // 1_000_000

    def elapsed_ns(self) -> int:
        return self._scheduler.now_ns


class ScheduledDisk(RecordingDisk):
    """A disk that records its operations. A sync is recorded, but takes no real time."""

    def __init__(self, scheduler: Scheduler) -> None:
        super().__init__()
        self._scheduler = scheduler

    def open(self, path: Path, *, create: bool = False) -> OpenFile:
        self._scheduler.step()
        return super().open(path, create=create)

    def pwrite(self, file: OpenFile, data: memoryview, offset: int) -> int:
        self._scheduler.step()
        return super().pwrite(file, data, offset)

    def fsync(self, file: OpenFile) -> None:
        self._scheduler.step()
        # What is written while the sync runs may not be safe when it ends.
        self.operations.append(Operation("sync", file.path, self._number(file.path)))
        self._scheduler.step()

    def rename(self, old: Path, new: Path) -> None:
        self._scheduler.step()
        super().rename(old, new)

    def unlink(self, path: Path) -> None:
        self._scheduler.step()
        super().unlink(path)

    def sync_directory(self, path: Path) -> None:
        self._scheduler.step()
        self.operations.append(Operation("sync_directory", path))

    def sync_all(self, path: Path) -> None:
        self._scheduler.step()
        self.operations.append(Operation("sync_all", path))
