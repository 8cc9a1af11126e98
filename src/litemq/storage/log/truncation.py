"""Truncation of the log. What is cut off is kept beside it if it has records."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from litemq.errors import DiskFullError
from litemq.storage.files.disk import Disk, OpenFile
from litemq.storage.log.segment import Segment, remove_segments

__all__ = ["keep_cut_off", "save_tail", "truncate_log"]

_PIECE_BYTES: Final = 4 << 20
_UNFINISHED: Final = ".cutting-off"  # the name of a copy until it is durable
_LOG = logging.getLogger(__name__)


def save_tail(disk: Disk, directory: Path, segment: Segment, end: int, *, has_records: bool) -> None:
    """Log the truncation. If the tail ``has_records``, keep a copy of it.

    A power cut leaves such a tail, but so does a flipped bit.
    """
    tail = segment.read(end, segment.end).rstrip(b"\0")
    position = f"{segment.file.path}, byte {end - segment.start}"
    if not has_records:
        _LOG.warning("%s: truncating %d bytes of an unfinished write", position, len(tail))
        return
    path = keep_cut_off(disk, directory, end, len(tail), segment.read)
    _LOG.error("%s: the log ends with a damaged record; moved %d bytes after it to %s", position, len(tail), path)


def keep_cut_off(disk: Disk, directory: Path, offset: int, size: int, read: Callable[[int, int], bytes]) -> Path:
    """Copy the ``size`` bytes that a log loses from ``offset`` on to a file beside it; return its
    path.

    ``read(begin, end)`` reads some of them. The file is new, unless one has the same bytes: an
    earlier cut at this offset may have kept others.
    """
    path, number = directory.parent / f"cut-off-{offset:020d}", 0
    while path.exists():
        if _has_bytes(disk.open(path), offset, size, read):
            return path
        number += 1
        path = directory.parent / f"cut-off-{offset:020d}-{number}"
    unfinished = directory.parent / _UNFINISHED
    file = disk.open(unfinished, create=True)
    try:
        file.truncate(0)
        for begin, end in _pieces(offset, size):
            file.write(read(begin, end), begin - offset)
        file.sync()
        disk.rename(unfinished, path)
    except BaseException:
        disk.unlink(unfinished)  # a full disk needs its space
        raise
    disk.sync_directory(path.parent)
    return path


def _has_bytes(file: OpenFile, offset: int, size: int, read: Callable[[int, int], bytes]) -> bool:
    return file.size == size and all(
        file.read(end - begin, begin - offset) == read(begin, end) for begin, end in _pieces(offset, size)
    )


def _pieces(offset: int, size: int) -> Iterator[tuple[int, int]]:
    """Yield the bounds of pieces of the log from ``offset`` on."""
    end = offset + size
    return ((begin, min(end, begin + _PIECE_BYTES)) for begin in range(offset, end, _PIECE_BYTES))


def truncate_log(disk: Disk, directory: Path, segments: list[Segment], end: int, *, clean: bool) -> None:
    """Make everything from ``end`` on zero, durably.

    After a crash the tail may be anything: the disk does not write in order.
    """
    after = [segment for segment in segments if segment.start >= end and segment is not segments[0]]
    remove_segments(disk, directory, after[::-1])
    del segments[len(segments) - len(after) :]
    last = segments[-1]
    if end < last.end and not (clean and last.file.size == last.size):
        last.zero_from(end)
        try:
            last.file.reserve(last.size)  # if an earlier version left a hole, the next write would need space
        except DiskFullError as error:
            _LOG.warning("%s: the disk is full, and a part of the segment has no space on it", error)
