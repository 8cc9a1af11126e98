"""Directory of a table: its files are complete and on disk before the table refers to them.

A local path, or a URL that Arrow supports (``s3://bucket/messages``). Brokers may delete archived
messages, so a local file and its directory are synced before the table's commit.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, Final
from urllib.parse import unquote, urlsplit

import pyarrow as pa
import pyarrow.fs as pa_fs

from litemq.errors import InvalidArgumentError

__all__ = ["TableFolder", "sync_folder"]

# Write-back starts every so often, so that the final fsync has little left to write.
_SYNC_EVERY_BYTES: Final = 16 << 20


class TableFolder:
    """The location of a table, and its files."""

    def __init__(self, location: str) -> None:
        if not location:
            raise InvalidArgumentError("the table has no location: give a directory, such as /data/lake/messages")
        parts = urlsplit(location)
        # A scheme of one character is a Windows drive.
        self.local = (
            Path(unquote(parts.path) if parts.scheme == "file" else location)
            if len(parts.scheme) <= 1 or parts.scheme == "file"
            else None
        )
        self.location = location.rstrip("/") if self.local is None else str(self.local.absolute())
        if self.local is not None:
            self.local = self.local.absolute()

    def __reduce__(self) -> tuple[Any, ...]:
        return TableFolder, (self.location,)

    def as_uri(self) -> str:
        """Return the location as a URI, since Spark's default may be another file system."""
        return self.location if self.local is None else self.local.as_uri()

    def local_path(self, what: str) -> Path:
        """Return the local path.

        Raise if the location is remote; ``what`` names the feature that needs it.
        """
        if self.local is None:
            raise InvalidArgumentError(
                f"{self.location}: {what} needs a local or mounted directory; choose the format delta for others"
            )
        return self.local

    @contextmanager
    def new_file(self, path: str) -> Iterator[IO[bytes] | Any]:
        """Create a file to write. It is on disk when the block ends without an error."""
        if self.local is None:
            filesystem, base = self._remote()
            with filesystem.open_output_stream(f"{base}/{path}") as stream:
                yield stream
            return
        target = self.local / path
        changed = _make_folders(target.parent)
        with target.open("xb", buffering=0) as file:
            yield _WriteBehindFile(file.fileno())
            os.fsync(file.fileno())
        for folder in {target.parent, *changed}:
            sync_folder(folder)

    def open_input(self, path: str) -> pa.NativeFile:
        """Open a file for random-access reading."""
        if self.local is None:
            filesystem, base = self._remote()
            return filesystem.open_input_file(f"{base}/{path}")
        return pa.OSFile(str(self.local / path), "rb")

    def read_text(self, path: str) -> str | None:
        """Read a small file; ``None`` if it does not exist."""
        try:
            with self.open_input(path) as file:
                return bytes(file.read()).decode()
        except FileNotFoundError:
            return None

    def has_files(self, path: str) -> bool:
        """Return whether the directory ``path`` has any file."""
        filesystem, base = self._filesystem()
        return bool(filesystem.get_file_info(pa_fs.FileSelector(f"{base}/{path}", allow_not_found=True)))

    def files_in(self, path: str) -> list[str]:
        """Return the Parquet files in the directory ``path``."""
        filesystem, base = self._filesystem()
        found = filesystem.get_file_info(pa_fs.FileSelector(f"{base}/{path}"))
        return sorted(f"{path}/{one.base_name}" for one in found if one.base_name.endswith(".parquet"))

    def sync(self, path: str) -> None:
        """Sync a file that another process has written."""
        if self.local is not None:
            with (self.local / path).open("rb") as file:
                os.fsync(file.fileno())
            sync_folder((self.local / path).parent)

    def delete(self, path: str) -> None:
        """Delete a file, if it exists."""
        if self.local is None:
            filesystem, base = self._remote()
            filesystem.delete_file(f"{base}/{path}")
        else:
            (self.local / path).unlink(missing_ok=True)

    def data_files(self, older_than_s: float) -> list[str]:
        """Return the Parquet files older than ``older_than_s``, in the table or not."""
        filesystem, base = self._filesystem()
        before = time.time() - older_than_s
        found = filesystem.get_file_info(pa_fs.FileSelector(base, recursive=True, allow_not_found=True))
        names = {one.path[len(base) + 1 :]: one for one in found if one.type is pa_fs.FileType.File}
        return sorted(
            name
            for name, one in names.items()
            if name.endswith(".parquet") and not _is_hidden(name) and one.mtime.timestamp() <= before
        )

    def _filesystem(self) -> tuple[pa_fs.FileSystem, str]:
        return self._remote() if self.local is None else (pa_fs.LocalFileSystem(), str(self.local))

    def _remote(self) -> tuple[pa_fs.FileSystem, str]:
        found: tuple[pa_fs.FileSystem, str] = pa_fs.FileSystem.from_uri(self.location)
        return found


class _WriteBehindFile:
    """A file object for Arrow that starts write-back early instead of only at the end."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._unsynced = 0
        self.position = 0
        self.closed = False

    def write(self, data: Any) -> int:
        view = memoryview(data).cast("B")
        while view:
            view = view[os.write(self._fd, view) :]
        size = memoryview(data).nbytes
        self.position += size
        self._unsynced += size
        if self._unsynced >= _SYNC_EVERY_BYTES:
            self._begin_writing_back()
        return size

    def _begin_writing_back(self) -> None:
        if hasattr(os, "posix_fadvise"):
            # On Linux this starts write-back without waiting, and drops clean pages, which are not
            # read again.
            os.posix_fadvise(self._fd, 0, 0, os.POSIX_FADV_DONTNEED)
        self._unsynced = 0

    def tell(self) -> int:
        return self.position

    def flush(self) -> None:
        """Do nothing: writes are unbuffered."""

    def close(self) -> None:
        self.closed = True


def _is_hidden(name: str) -> bool:
    return any(part.startswith(("_", ".")) for part in name.split("/"))


def _make_folders(folder: Path) -> list[Path]:
    """Create a directory with its parents; return the directories that got a new entry."""
    missing = [one for one in (folder, *folder.parents) if not one.exists()]
    folder.mkdir(parents=True, exist_ok=True)
    return [one.parent for one in missing]


def sync_folder(folder: Path) -> None:
    """Sync a directory, so that its entries survive a power failure."""
    fd = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
