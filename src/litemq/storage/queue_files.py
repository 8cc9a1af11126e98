"""The consume queues on disk: for each queue, where its messages stand in the log.

``consumequeue/<topic>/<queue>/<20-digit start byte>`` holds 300,000 entries of 24 bytes (``format.stamp`` has their layout) and grows as
they come. Beside it, ``<the same>.crc`` holds the crc32c of each block of 4 KiB, a u32 each, big-endian, written when the block is full;
the last block of a file is full when the file is.

Queues are a projection of the log: what is damaged here is made anew from there. So nothing is synced here; the checkpoint syncs
everything at once and says how far the queues may be believed.
"""

from __future__ import annotations

import errno
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt

from litemq.errors import CorruptStoreError
from litemq.format.crc import crc32c
from litemq.format.stamp import QUEUE_ENTRY
from litemq.storage.file_pool import FilePool
from litemq.storage.files import Disk

__all__ = ["ENTRIES_PER_FILE", "QueueFiles"]

ENTRIES_PER_FILE: Final = 300_000
_ENTRY: Final = QUEUE_ENTRY.itemsize
_BLOCK: Final = 4096


class QueueFiles:
    """The files of all queues of a store."""

    def __init__(self, disk: Disk, directory: Path, *, most_open: int = 512, entries_per_file: int = ENTRIES_PER_FILE) -> None:
        self._disk = disk
        self._directory = directory
        self._file_bytes = entries_per_file * _ENTRY
        self._files = FilePool(disk, most_open)

    def _path(self, topic: str, queue_id: int, start: int) -> Path:
        return self._directory / topic / str(queue_id) / f"{start:020d}"

    def write(self, topic: str, queue_id: int, first: int, entries: npt.NDArray[np.void]) -> None:
        """Put entries at queue offsets ``first …``, behind those that are there or over them."""
        raw = entries.tobytes()
        at = first * _ENTRY
        while raw:
            start = at - at % self._file_bytes
            room = start + self._file_bytes - at
            path = self._path(topic, queue_id, start)
            self._files.get(path, create=True).write(raw[:room], at - start)
            self._write_crcs(path, at - start, at - start + min(room, len(raw)))
            at += room
            raw = raw[room:]

    def _write_crcs(self, path: Path, begin: int, end: int) -> None:
        """Write the checksums of the blocks that ``begin … end`` completed."""
        first = begin // _BLOCK
        behind = -(-end // _BLOCK) if end == self._file_bytes else end // _BLOCK
        if first >= behind:
            return
        file = self._files.get(path)
        data = file.read(min(behind * _BLOCK, self._file_bytes) - first * _BLOCK, first * _BLOCK)
        crcs = [crc32c(data[at : at + _BLOCK]) for at in range(0, len(data), _BLOCK)]
        self._files.get(path.with_suffix(".crc"), create=True).write(np.array(crcs, ">u4").tobytes(), first * 4)

    def read(self, topic: str, queue_id: int, first: int, count: int, stored: int) -> npt.NDArray[np.void]:
        """The entries at queue offsets ``first … first + count``, of a queue that has ``stored`` entries on disk.

        Every block that is full was held against its checksum; raises ``CorruptStoreError`` with the place where one does not fit.
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

    def _read_checked(self, path: Path, begin: int, end: int, stored: int) -> bytes:
        try:
            file = self._files.get(path)
            first = begin // _BLOCK
            until = min(-(-end // _BLOCK) * _BLOCK, stored)
            data = file.read(until - first * _BLOCK, first * _BLOCK)
            if len(data) < until - first * _BLOCK:
                raise CorruptStoreError(str(path), first * _BLOCK + len(data), f"the file ends here, {until} bytes were stored")
            blocks = -(-len(data) // _BLOCK) if until == self._file_bytes else len(data) // _BLOCK
            wanted = self._files.get(path.with_suffix(".crc")).read(blocks * 4, first * 4) if blocks else b""
        except OSError as error:
            if error.errno == errno.ENOENT:
                raise CorruptStoreError(str(error.filename), 0, "the file is missing") from None
            raise
        for number in range(blocks):
            if crc32c(data[number * _BLOCK : (number + 1) * _BLOCK]).to_bytes(4, "big") != wanted[number * 4 : number * 4 + 4]:
                raise CorruptStoreError(str(path), (first + number) * _BLOCK, "the checksum of a block does not fit")
        return data[begin - first * _BLOCK : end - first * _BLOCK]

    def drop_before(self, topic: str, queue_id: int, least: int) -> None:
        """Remove the files whose entries all stand before queue offset ``least``."""
        folder = self._directory / topic / str(queue_id)
        if not folder.exists():
            return
        for path in sorted(folder.iterdir()):
            if path.suffix != ".crc" and int(path.name) + self._file_bytes <= least * _ENTRY:
                for file in (path, path.with_suffix(".crc")):
                    self._files.forget(file)
                    if file.exists():
                        self._disk.unlink(file)
