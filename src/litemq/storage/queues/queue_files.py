"""Consume queue files: for each queue, the log offsets of its messages.

``consumequeue/<topic>/<queue>/<20-digit start byte>`` holds up to 300,000 entries of 24 bytes (see
``format.batches.stamp``). Full blocks have checksums (``block_crcs.py``); the last block of a full
file counts as full. Nothing is synced here: the checkpoint syncs all files at once, and records up
to which log offset they are valid. Damaged files are rebuilt from the log.
"""

from __future__ import annotations

import re
from functools import lru_cache
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt

from litemq.errors import CorruptStoreError, InvalidArgumentError
from litemq.format.batches.stamp import QUEUE_ENTRY
from litemq.storage.files.block_crcs import BLOCK_BYTES, crc_path, read_checked, write_crcs
from litemq.storage.files.disk import Disk
from litemq.storage.files.file_pool import FilePool

__all__ = ["ENTRIES_PER_FILE", "QueueFiles"]

ENTRIES_PER_FILE: Final = 300_000
_FOLDER: Final = re.compile(r"[A-Za-z0-9_.%\-]{1,134}", re.ASCII)
_ENTRY: Final = QUEUE_ENTRY.itemsize


@lru_cache(maxsize=4096)
def _queue_file(directory: Path, topic: str, queue_id: int, start: int) -> Path:
    # The name becomes a directory: it must not escape from the data directory.
    if not _FOLDER.fullmatch(topic) or topic in {".", ".."} or queue_id < 0 or start < 0:
        raise InvalidArgumentError(f"queue {queue_id} of topic {topic!r}, byte {start}: not a valid queue name")
    return directory / topic / str(queue_id) / f"{start:020d}"


class QueueFiles:
    """The files of all queues of a store."""

    def __init__(
        self, disk: Disk, directory: Path, *, max_open: int = 512, entries_per_file: int = ENTRIES_PER_FILE
    ) -> None:
        self._disk = disk
        self._directory = directory
        self._file_bytes = entries_per_file * _ENTRY
        self._files = FilePool(disk, max_open)

    def _path(self, topic: str, queue_id: int, start: int) -> Path:
        return _queue_file(self._directory, topic, queue_id, start)

    def write(self, topic: str, queue_id: int, first: int, entries: npt.NDArray[np.void]) -> None:
        """Write ``entries`` at queue offsets ``first …``: append them, or overwrite old ones."""
        # numpy makes fields native-endian when it joins arrays; the file is big-endian.
        raw = entries.astype(QUEUE_ENTRY, copy=False).tobytes()
        at = first * _ENTRY
        while raw:
            start = at - at % self._file_bytes
            space = start + self._file_bytes - at
            path = self._path(topic, queue_id, start)
            file = self._files.get(path, create=True)
            begin, end = at - start, at - start + min(space, len(raw))
            file.write(raw[:space], begin)
            if end // BLOCK_BYTES > begin // BLOCK_BYTES or end == self._file_bytes:
                crcs = self._files.get(crc_path(path), create=True)
                write_crcs(file, crcs, begin, end, last=end == self._file_bytes)
            at += space
            raw = raw[space:]

    def read(self, topic: str, queue_id: int, first: int, count: int, stored: int) -> npt.NDArray[np.void]:
        """Read the entries ``first … first + count`` of a queue with ``stored`` entries on disk.

        Verify every full block; raise ``CorruptStoreError`` at the first bad one.
        """
        parts = []
        at, end = first * _ENTRY, min(first + count, stored) * _ENTRY
        while at < end:
            start = at - at % self._file_bytes
            until = min(end, start + self._file_bytes)
            full = min(stored * _ENTRY - start, self._file_bytes)
            parts.append(self._read_checked(self._path(topic, queue_id, start), at - start, until - start, full))
            at = until
        return np.frombuffer(b"".join(parts), QUEUE_ENTRY)

    def raw(self, topic: str, queue_id: int, first: int, count: int) -> tuple[Path, int, bytes]:
        """Read entries without verification: as many of the ``count`` as exist.

        Return the file, the position in it at which they begin, and the bytes.
        """
        at, end = first * _ENTRY, (first + count) * _ENTRY
        start = at - at % self._file_bytes
        path = self._path(topic, queue_id, start)
        parts = []
        for begin in range(start, end, self._file_bytes):
            try:
                file = self._files.get(self._path(topic, queue_id, begin))
            except FileNotFoundError:
                break
            low = max(at, begin)
            parts.append(file.read(min(end, begin + self._file_bytes) - low, low - begin))
        return path, at - start, b"".join(parts)

    def _read_checked(self, path: Path, begin: int, end: int, stored: int) -> bytes:
        try:
            complete = stored == self._file_bytes
            return read_checked(
                self._files.get(path), lambda: self._files.get(crc_path(path)), begin, end, stored, complete=complete
            )
        except FileNotFoundError as error:
            raise CorruptStoreError(str(error.filename), 0, "the file is missing") from None

    def drop_before(self, topic: str, queue_id: int, start_offset: int) -> None:
        """Remove the files whose entries are all before queue offset ``start_offset``."""
        folder = self._directory / topic / str(queue_id)
        if not folder.exists():
            return
        for path in sorted(folder.iterdir()):
            if path.suffix != ".crc" and int(path.name) + self._file_bytes <= start_offset * _ENTRY:
                for file in (path, crc_path(path)):
                    self._files.forget(file)
                    if file.exists():
                        self._disk.unlink(file)
