"""The few things that the store asks of a file system.

Everything durable goes through here: a test puts a recording file system in its place, and enumerates what a power cut could leave
behind at every step; another one makes a disk full or broken.
"""

from __future__ import annotations

import ctypes
import errno
import mmap
import os
from pathlib import Path
from typing import Final

from litemq.errors import DiskFullError

__all__ = ["DISK", "READ_ONLY", "Disk", "OpenFile", "let_go"]

_FULL: Final = {errno.ENOSPC, errno.EDQUOT}
_NO_WAIT: Final[int | None] = getattr(os, "RWF_NOWAIT", None)  # Linux
_WOULD_WAIT: Final = {errno.EAGAIN, errno.EOPNOTSUPP}  # it is not there, or the file system cannot tell


class OpenFile:
    """An open file. It is closed when the last reader lets go of it, so that nobody reads from a number that now means another file."""

    __slots__ = ("_disk", "fd", "path")

    def __init__(self, disk: Disk, path: Path, fd: int) -> None:
        self._disk = disk
        self.path = path
        self.fd = fd

    def __del__(self) -> None:
        os.close(self.fd)

    def write(self, data: bytes | bytearray | memoryview, offset: int) -> None:
        """Write all of it, or raise: ``DiskFullError`` where space ran out, possibly after a part was written."""
        view = memoryview(data)
        while view:
            try:
                written = self._disk.pwrite(self, view, offset)
            except OSError as error:
                if error.errno in _FULL:
                    raise DiskFullError(f"no space left for {self.path}") from error
                raise
            view = view[written:]
            offset += written

    def read(self, count: int, offset: int) -> bytes:
        """Up to ``count`` bytes; fewer only where the file ends."""
        parts = []
        while count > 0:
            part = os.pread(self.fd, count, offset)
            if not part:
                break
            parts.append(part)
            count -= len(part)
            offset += len(part)
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def read_if_cached(self, count: int, offset: int) -> bytes | None:
        """So many bytes, if the system has all of them in memory, and can say so; else nothing: whoever must not wait for a disk asks here."""
        if _NO_WAIT is None:
            return None
        data = bytearray(count)
        try:
            done = os.preadv(self.fd, [data], offset, _NO_WAIT)
        except OSError as error:
            if error.errno in _WOULD_WAIT:
                return None
            raise
        return bytes(data) if done == count else None

    def read_into(self, target: memoryview, offset: int) -> int:
        """Fill ``target``; returns how many bytes there were. Other threads run meanwhile, and nothing is copied once more."""
        done = 0
        while done < len(target):
            count = os.preadv(self.fd, [target[done:]], offset + done)
            if count == 0:
                break
            done += count
        return done

    def sync(self) -> None:
        """What was written, and the file's size, survive a power cut from here on."""
        self._disk.fsync(self)

    def truncate(self, size: int) -> None:
        self._disk.ftruncate(self, size)

    def reserve(self, size: int) -> None:
        """Make the file that large, with space set aside where the file system can."""
        self._disk.reserve(self, size)

    @property
    def size(self) -> int:
        return os.fstat(self.fd).st_size

    def map(self, size: int) -> memoryview:
        """The file's bytes as they are in memory, also those written later. They stay mapped while any part of the view is in use."""
        return memoryview(mmap.mmap(self.fd, size, mmap.MAP_SHARED, mmap.PROT_READ))


def let_go(mapped: memoryview, begin: int, end: int) -> None:
    """Some bytes of a file's map need not stay in this process's memory, where the system has a way to say so; whoever reads them has them again."""
    if isinstance(mapped.obj, mmap.mmap) and hasattr(mmap, "MADV_DONTNEED"):
        first = -(-begin // mmap.PAGESIZE) * mmap.PAGESIZE
        length = end // mmap.PAGESIZE * mmap.PAGESIZE - first
        if length > 0:
            mapped.obj.madvise(mmap.MADV_DONTNEED, first, length)


class Disk:
    """The operating system's files."""

    def open(self, path: Path, *, create: bool = False) -> OpenFile:
        flags = os.O_RDWR | os.O_CLOEXEC | (os.O_CREAT if create else 0)
        return OpenFile(self, path, os.open(path, flags, 0o640))

    def pwrite(self, file: OpenFile, data: memoryview, offset: int) -> int:
        return os.pwrite(file.fd, data, offset)

    def fsync(self, file: OpenFile) -> None:
        os.fdatasync(file.fd)

    def ftruncate(self, file: OpenFile, size: int) -> None:
        os.ftruncate(file.fd, size)

    def reserve(self, file: OpenFile, size: int) -> None:
        try:
            os.posix_fallocate(file.fd, 0, size)
        except OSError as error:
            if error.errno in _FULL:
                raise DiskFullError(f"no space left for {size} bytes of {file.path}") from error
            raise

    def used_fraction(self, path: Path) -> float:
        """How much of the file system that holds ``path`` is in use, of what this user could use: what ``df`` shows."""
        found = os.statvfs(path)
        used = found.f_blocks - found.f_bfree
        return used / (used + found.f_bavail) if used + found.f_bavail else 0.0

    def total_bytes(self, path: Path) -> int:
        """How many bytes this user could have on the file system that holds ``path``."""
        found = os.statvfs(path)
        return (found.f_blocks - found.f_bfree + found.f_bavail) * found.f_frsize

    def rename(self, old: Path, new: Path) -> None:
        old.rename(new)

    def unlink(self, path: Path) -> None:
        path.unlink()

    def make_directory(self, path: Path) -> None:
        """The directory and those above it, each durable in its parent."""
        if not path.exists():
            self.make_directory(path.parent)
            self.mkdir(path)
            self.sync_directory(path.parent)

    def mkdir(self, path: Path) -> None:
        path.mkdir(mode=0o750, exist_ok=True)

    def sync_directory(self, path: Path) -> None:
        """Which files there are in a directory survives a power cut from here on."""
        fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)

    def sync_all(self, path: Path) -> None:
        """Everything written to the file system that holds ``path`` survives a power cut from here on: one call for any number of files."""
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            if _SYNCFS is None:
                os.sync()
            elif _SYNCFS(fd) != 0:
                number = ctypes.get_errno()
                raise OSError(number, os.strerror(number), str(path))
        finally:
            os.close(fd)


_SYNCFS = getattr(ctypes.CDLL(None, use_errno=True), "syncfs", None)

DISK: Final = Disk()


class _ReadOnlyDisk(Disk):
    """For looking at what belongs to others."""

    def open(self, path: Path, *, create: bool = False) -> OpenFile:
        if create and not path.exists():
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))
        return OpenFile(self, path, os.open(path, os.O_RDONLY | os.O_CLOEXEC))


READ_ONLY: Final = _ReadOnlyDisk()
