"""A disk that records its operations, and the states that a power cut could leave.

Safe are the bytes of a file after its sync, the names in a directory after the directory's sync,
and everything after ``sync_all``. Later operations may have reached the disk or not, in any order;
a write may have reached it in part.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from litemq.storage.files.disk import Disk, OpenFile

SECTOR = 512


class Operation(NamedTuple):
    """One operation on the disk. ``file`` numbers the file itself, whatever its name."""

    what: str
    path: Path
    file: int = -1
    offset: int = 0
    data: bytes = b""
    target: Path | None = None


class RecordingDisk(Disk):
    """A disk that does each operation and records it."""

    def __init__(self) -> None:
        self.operations: list[Operation] = []
        self._files: dict[Path, int] = {}
        self._numbers = itertools.count()

    def _number(self, path: Path) -> int:
        return self._files[path]

    def open(self, path: Path, *, create: bool = False) -> OpenFile:
        if not path.exists() and create:
            self._files[path] = next(self._numbers)
            self.operations.append(Operation("create", path, self._files[path]))
        return super().open(path, create=create)

    def pwrite(self, file: OpenFile, data: memoryview, offset: int) -> int:
        self.operations.append(Operation("write", file.path, self._number(file.path), offset, bytes(data)))
        return super().pwrite(file, data, offset)

    def fsync(self, file: OpenFile) -> None:
        super().fsync(file)
        self.operations.append(Operation("sync", file.path, self._number(file.path)))

    def ftruncate(self, file: OpenFile, size: int) -> None:
        self.operations.append(Operation("truncate", file.path, self._number(file.path), size))
        super().ftruncate(file, size)

    def reserve(self, file: OpenFile, size: int) -> None:
        self.operations.append(Operation("reserve", file.path, self._number(file.path), size))
        super().reserve(file, size)

    def rename(self, old: Path, new: Path) -> None:
        self.operations.append(Operation("rename", old, self._number(old), target=new))
        self._files[new] = self._files.pop(old)
        super().rename(old, new)

    def unlink(self, path: Path) -> None:
        self.operations.append(Operation("unlink", path, self._files.get(path, -1)))  # SQLite's are not recorded
        super().unlink(path)

    def mkdir(self, path: Path) -> None:
        super().mkdir(path)
        self.operations.append(Operation("mkdir", path))

    def sync_directory(self, path: Path) -> None:
        super().sync_directory(path)
        self.operations.append(Operation("sync_directory", path))

    def sync_all(self, path: Path) -> None:
        super().sync_all(path)
        self.operations.append(Operation("sync_all", path))


class Tree(NamedTuple):
    """The files on a disk: their contents and names."""

    contents: dict[int, bytes]
    names: dict[Path, int]
    directories: frozenset[Path]

    def write_to(self, source: Path, target: Path) -> None:
        """Write the tree to disk, moved from one folder to another."""
        for directory in sorted(self.directories):
            if directory.is_relative_to(source):
                (target / directory.relative_to(source)).mkdir(parents=True, exist_ok=True)
        target.mkdir(parents=True, exist_ok=True)
        for path, number in self.names.items():
            place = target / path.relative_to(source)
            if place.parent.exists():
                place.write_bytes(self.contents.get(number, b""))


def apply_operation(
    operation: Operation, contents: dict[int, bytes], names: dict[Path, int], directories: set[Path]
) -> None:
    """Do ``operation`` on the files of a ``Tree``."""
    number = operation.file
    old = contents.get(number, b"")
    match operation.what:
        case "create":
            names[operation.path] = number
        case "write":
            padded = old.ljust(operation.offset, b"\0")
            contents[number] = (
                padded[: operation.offset] + operation.data + padded[operation.offset + len(operation.data) :]
            )
        case "truncate":
            contents[number] = old[: operation.offset].ljust(operation.offset, b"\0")
        case "reserve":
            contents[number] = old.ljust(operation.offset, b"\0")
        case "unlink":
            names.pop(operation.path, None)
        case "rename":
            names.pop(operation.path, None)
            assert operation.target is not None
            names[operation.target] = number
        case "mkdir":
            directories.add(operation.path)


_OF_CONTENT = {"write", "truncate", "reserve"}
_OF_NAMES = {"create", "unlink", "rename", "mkdir"}


def states_after(operations: list[Operation]) -> Iterator[Tree]:
    """Yield the states that a power cut after these operations could leave, likely ones first."""
    contents: dict[int, bytes] = {}
    names: dict[Path, int] = {}
    directories: set[Path] = set()
    pending: list[Operation] = []
    for operation in operations:
        if operation.what in _OF_CONTENT | _OF_NAMES:
            pending.append(operation)
            continue
        safe = [other for other in pending if is_made_safe(other, operation)]
        for other in safe:
            apply_operation(other, contents, names, directories)
        pending = [other for other in pending if other not in safe]
    seen: set[tuple[object, ...]] = set()
    for chosen in _subsets(pending):
        state = (dict(contents), dict(names), set(directories))
        for operation in chosen:
            apply_operation(operation, *state)
        tree = Tree(state[0], state[1], frozenset(state[2]))
        key = (tuple(sorted(tree.contents.items())), tuple(sorted(tree.names.items())), tree.directories)
        if key not in seen:
            seen.add(key)
            yield tree


def is_made_safe(operation: Operation, by: Operation) -> bool:
    """Return whether the sync ``by`` makes ``operation`` durable."""
    match by.what:
        case "sync":
            return operation.what in _OF_CONTENT and operation.file == by.file
        case "sync_directory":
            return operation.what in _OF_NAMES and (operation.path.parent == by.path or operation.path == by.path)
        case _:
            return True


def _subsets(pending: list[Operation]) -> Iterator[list[Operation]]:
    if len(pending) <= 3:
        for size in range(len(pending) + 1):
            yield from map(list, itertools.combinations(pending, size))
    else:
        # Of many, the last ones: earlier calls checked the operations before them when they were
        # pending.
        recent = range(max(0, len(pending) - 3), len(pending))
        yield []
        for number in recent:
            yield pending[: number + 1]
            yield pending[:number] + pending[number + 1 :]
            yield [pending[number]]
    # The last writes reached the disk in part: the beginning of one, or its end.
    for at, operation in list(enumerate(pending))[-1:]:
        if operation.what == "write" and len(operation.data) > SECTOR:
            first = SECTOR - operation.offset % SECTOR
            borders = range(first, len(operation.data), SECTOR)
            for middle in (
                {borders[0], borders[len(borders) // 3], borders[len(borders) // 2], borders[-1]} if borders else ()
            ):
                yield [*pending[:at], operation._replace(data=operation.data[:middle]), *pending[at + 1 :]]
                behind = operation._replace(data=operation.data[middle:], offset=operation.offset + middle)
                yield [*pending[:at], behind, *pending[at + 1 :]]
