"""File system operations of the store.

Every durable operation goes through ``Disk``. Tests replace it: one records the operations and
enumerates the states that a power cut could leave at every step, another simulates a full or
broken disk.
"""

from __future__ import annotations

import ctypes
import errno
import mmap
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from litemq.errors import DiskFullError

__all__ = ["DISK", "READ_ONLY", "Disk", "OpenFile", "is_temporary", "release_pages"]

_FULL: Final = {errno.ENOSPC, errno.EDQUOT}
_NO_WAIT: Final[int | None] = getattr(os, "RWF_NOWAIT", None)  # Linux
_UNSUPPORTED: Final = {errno.EINVAL, errno.EOPNOTSUPP}
# Not cached, or not supported. Or the disk cannot read it: a read that waits tells.
_WOULD_WAIT: Final = {errno.EAGAIN, errno.EOPNOTSUPP, errno.EIO}
_TEMPORARY: Final = {errno.EMFILE, errno.ENFILE, errno.ENOMEM}


def is_temporary(error: BaseException) -> bool:
    """Whether the process lacks descriptors or memory: the disk is fine."""
    return isinstance(error, OSError) and error.errno in _TEMPORARY


class OpenFile:
    """An open file.

    The descriptor closes with the last reference, so it is never reused too early.
    """

    __slots__ = ("_disk", "fd", "path")

    def __init__(self, disk: Disk, path: Path, fd: int) -> None:
        self._disk = disk
        self.path = path
        self.fd = fd

    def __del__(self) -> None:
        os.close(self.fd)

    def write(self, data: bytes | bytearray | memoryview, offset: int) -> None:
        """Write all of ``data`` at ``offset``.

        Raise ``DiskFullError`` if there is no space left. A part may have been written by then.
        """
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
        """Read ``count`` bytes at ``offset``; fewer only at the end of the file."""
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
        """Read ``count`` bytes if all are in the page cache; else return ``None``.

        Never waits for the disk.
        """
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
        """Fill ``target`` from ``offset`` without a copy; return the number of bytes read."""
        done = 0
        while done < len(target):
            count = os.preadv(self.fd, [target[done:]], offset + done)
            if count == 0:
                break
            done += count
        return done

    def sync(self) -> None:
        """Make the written bytes and the file's size durable."""
        self._disk.fsync(self)

    def truncate(self, size: int) -> None:
        self._disk.ftruncate(self, size)

    def reserve(self, size: int) -> None:
        """Grow the file to ``size`` bytes, and allocate their disk space."""
        self._disk.reserve(self, size)

    @property
    def size(self) -> int:
        return os.fstat(self.fd).st_size

    def data_ranges(self, begin: int) -> Iterator[tuple[int, int]]:
        """Yield the ranges from ``begin`` on that have data; all others read as zeros.

        A range with data may be zeros, too.
        """
        size = self.size
        while begin < size:
            try:
                begin = os.lseek(self.fd, begin, os.SEEK_DATA)
                end = os.lseek(self.fd, begin, os.SEEK_HOLE)
            except OSError as error:
                if error.errno == errno.ENXIO:  # no data from here on
                    return
                if error.errno not in _UNSUPPORTED:
                    raise
                end = size
            yield begin, end
            begin = end

    def map(self, size: int) -> memoryview:
        """Map the file read-only; the view shows later writes.

        The mapping ends with its last view.
        """
        return memoryview(mmap.mmap(self.fd, size, mmap.MAP_SHARED, mmap.PROT_READ))


def release_pages(mapped: memoryview, begin: int, end: int) -> None:
    """Release whole pages of ``mapped`` between ``begin`` and ``end`` from this process's memory.

    A later read loads them again. Does nothing if the system has no such call.
    """
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
        """Return the used fraction of the file system of ``path``, as ``df`` shows it."""
        found = os.statvfs(path)
        used = found.f_blocks - found.f_bfree
        return used / (used + found.f_bavail) if used + found.f_bavail else 0.0

    def free_bytes(self, path: Path) -> int:
        """Return the free bytes of the file system of ``path``, without those reserved for root."""
        found = os.statvfs(path)
        return found.f_bavail * found.f_frsize

    def total_bytes(self, path: Path) -> int:
        """Return the bytes of the file system of ``path``, without the part reserved for root."""
        found = os.statvfs(path)
        return (found.f_blocks - found.f_bfree + found.f_bavail) * found.f_frsize

    def rename(self, old: Path, new: Path) -> None:
        old.rename(new)

    def unlink(self, path: Path) -> None:
        path.unlink()

    def make_directory(self, path: Path) -> None:
        """Create the directory and its parents, each durable in its parent."""
        if not path.exists():
            self.make_directory(path.parent)
            self.mkdir(path)
            self.sync_directory(path.parent)

    def mkdir(self, path: Path) -> None:
        path.mkdir(mode=0o750, exist_ok=True)

    def sync_directory(self, path: Path) -> None:
        """Make the entries of a directory durable."""
        fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)

    def sync_all(self, path: Path) -> None:
        """Make all files on the file system of ``path`` durable, in one call."""
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
    """Opens files read-only: for the directory of another process."""

    def open(self, path: Path, *, create: bool = False) -> OpenFile:
        if create and not path.exists():
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))
        return OpenFile(self, path, os.open(path, os.O_RDONLY | os.O_CLOEXEC))


READ_ONLY: Final = _ReadOnlyDisk()
