"""The disk of a simulated host: a power cut loses a part of what is not synced."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Final

from litemq.storage.files.disk import OpenFile
from litemq.storage.state.persistence.database import SIDE_FILES
from support.power_cut import SECTOR, Operation, Tree, apply_operation, is_made_safe
from support.schedules.disk import ScheduledDisk
from support.sim.scheduler import SimulationScheduler

__all__ = ["LosingDisk"]

_SYNCS: Final = ("sync", "sync_directory", "sync_all")


class _Pending(list[Operation]):
    """The operations that are not safe yet; a sync applies those that it makes safe."""

    def __init__(self, contents: dict[int, bytes], names: dict[Path, int], directories: set[Path]) -> None:
        super().__init__()
        self.safe = contents, names, directories

    def append(self, operation: Operation) -> None:
        if operation.what in _SYNCS:
            self.make_safe(lambda other: is_made_safe(other, operation))
        else:
            super().append(operation)

    def make_safe(self, is_safe: Callable[[Operation], bool]) -> None:
        """Apply the operations that are durable from now on."""
        pending = []
        for operation in self:
            if is_safe(operation):
                apply_operation(operation, *self.safe)
            else:
                pending.append(operation)
        self[:] = pending


class LosingDisk(ScheduledDisk):
    """A disk below ``root``, whose state survives the processes that use it."""

    def __init__(self, scheduler: SimulationScheduler, root: Path) -> None:
        super().__init__(scheduler)
        self.operations: _Pending
        self.sync_s = 0.0
        self._root = root
        root.mkdir(parents=True)
        self._forget({}, {}, {root})

    def _forget(self, contents: dict[int, bytes], names: dict[Path, int], directories: set[Path]) -> None:
        """Begin again with a tree that is on the disk."""
        self._files = dict(names)
        self.operations = _Pending(contents, names, directories)

    def fsync(self, file: OpenFile) -> None:
        """Sync what is written now. It takes a while, in which the power may fail."""
        sync = Operation("sync", file.path, self._number(file.path))
        # By identity: the dictionary keeps the operations, so that no later one has the same id.
        written = {id(operation): operation for operation in self.operations if is_made_safe(operation, sync)}
        self._scheduler.wait_for(lambda: False, self._scheduler.random.expovariate(1) * self.sync_s)
        self.operations.make_safe(lambda operation: id(operation) in written)

    def ftruncate(self, file: OpenFile, size: int) -> None:
        self._scheduler.step()
        super().ftruncate(file, size)

    def reserve(self, file: OpenFile, size: int) -> None:
        self._scheduler.step()
        super().reserve(file, size)

    def mkdir(self, path: Path) -> None:
        self._scheduler.step()
        super().mkdir(path)

    def contains(self, data: bytes) -> bool:
        """Return whether a segment of the log has ``data``, whatever was cut off."""
        found = [path for path in self._root.rglob("*") if path.is_file() and not path.name.startswith("cut-off-")]
        return any(data in path.read_bytes() for path in found)

    def wipe(self) -> None:
        """Replace the disk by an empty one."""
        shutil.rmtree(self._root)
        self._root.mkdir()
        self._forget({}, {}, {self._root})

    def lose_power(self, chosen: random.Random) -> int:
        """Lose a part of what is not synced; return how many operations were lost."""
        share = chosen.choice([0.0, 0.0, 0.5, 0.9, 1.0])
        kept = [operation for operation in self.operations if chosen.random() < share]
        if kept and kept[-1].what == "write" and len(kept[-1].data) > SECTOR and chosen.random() < 0.5:
            torn = chosen.randrange(SECTOR, len(kept[-1].data), SECTOR)
            kept[-1] = kept[-1]._replace(data=kept[-1].data[:torn])
        lost = len(self.operations) - len(kept)
        contents, names, directories = self.operations.safe
        for operation in kept:
            apply_operation(operation, contents, names, directories)
        names = {path: number for path, number in names.items() if path.parent in directories}
        database = self._read_database() if chosen.random() < 0.5 else {}
        shutil.rmtree(self._root)
        self._root.mkdir()
        Tree(contents, names, frozenset(directories)).write_to(self._root, self._root)
        for path, data in database.items():
            if path.parent.exists():
                path.write_bytes(data)
        self._forget(contents, names, directories)
        return lost

    def _read_database(self) -> dict[Path, bytes]:
        """Return the files of ``state.db``, which SQLite writes: any commit may have lasted."""
        found = [path for suffix in SIDE_FILES for path in self._root.rglob(f"state.db{suffix}")]
        return {path: path.read_bytes() for path in found}
