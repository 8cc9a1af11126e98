"""Truncation of the log. What is cut off is kept beside it if it has records."""

from __future__ import annotations

import logging
from pathlib import Path

from litemq.errors import DiskFullError
from litemq.storage.files.disk import Disk
from litemq.storage.log.segment import Segment, remove_segments

__all__ = ["keep_cut_off", "save_tail", "truncate_log"]

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
    path = keep_cut_off(disk, directory, end, tail)
    _LOG.error("%s: the log ends with a damaged record; moved %d bytes after it to %s", position, len(tail), path)


def keep_cut_off(disk: Disk, directory: Path, offset: int, tail: bytes) -> Path:
    """Write the bytes that a log loses from ``offset`` on to a file beside it; return its path."""
    path = directory.parent / f"cut-off-{offset:020d}"
    file = disk.open(path, create=True)
    file.truncate(0)
    file.write(tail, 0)
    file.sync()
    disk.sync_directory(path.parent)
    return path


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
