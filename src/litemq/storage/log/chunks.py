"""Chunks of the log, as a master ships them to its followers."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from litemq.format.batches.scan import scan
from litemq.format.limits import STORED_LIMITS
from litemq.storage.log.commitlog import CommitLog
from litemq.storage.log.epochs import Epoch

__all__ = ["Chunk", "read_chunk"]


class Chunk(NamedTuple):
    """Whole records of one epoch and one segment. The first is at log offset ``begin``."""

    begin: int
    data: bytes


def read_chunk(log: CommitLog, epochs: Iterable[Epoch], offset: int, max_bytes: int) -> Chunk:
    """Read the next chunk from ``offset`` on: empty at the log's end.

    It has at least one record, even if that is longer than ``max_bytes``. If the rest of a segment
    is blank, the chunk begins with the next segment. It may wait for the disk.
    """
    end = log.end
    if offset < end and log.is_blank_at(offset):
        offset = log.segment_of(offset).end
    if offset >= end:
        return Chunk(offset, b"")
    later = [epoch.start_offset for epoch in epochs if epoch.start_offset > offset]
    until = min([end, log.segment_of(offset).end, *later])
    size = scan(log.read(offset, min(until, offset + max_bytes)), limits=STORED_LIMITS).end
    if not size:  # the record is longer
        size = int.from_bytes(log.read(offset, offset + 4), "big")
    return Chunk(offset, bytes(log.read(offset, min(until, offset + size))))
