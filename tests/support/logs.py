"""Appends to a log for tests: plain messages, stamped as the store does."""

from __future__ import annotations

import numpy as np

from litemq.format.batches.check import check_batch
from litemq.format.batches.stamp import stamp_batch
from litemq.format.record_decode import decode_record
from litemq.format.record_encode import encode_record
from litemq.storage.log.log_directory import LogDirectory
from litemq.storage.log.segment import Segment
from litemq.types import Record, StoredRecord


def append(directory: LogDirectory, bodies: list[bytes]) -> list[int]:
    """Write a batch without a flush; return the offsets of its records."""
    log = directory.log
    buffer = bytearray(b"".join(encode_record(Record("orders", body)) for body in bodies))
    columns = check_batch(buffer)
    sizes = columns.words[:, 0].astype(np.int64)
    offsets = log.allocate(sizes)
    stamp_batch(
        columns,
        commitlog_offsets=offsets,
        queue_offsets=np.arange(len(bodies)),
        topic_ids=1,
        queue_ids=0,
        store_timestamp=1_700_000_000_000,
        epoch=directory.epoch.number,
    )
    directory.flusher.mark_dirty(log.write(buffer, columns.starts, sizes, offsets))
    placed: list[int] = offsets.tolist()
    return placed


def read_all(segments: list[Segment], end: int) -> dict[int, StoredRecord]:
    """Return every record of a log up to ``end`` by its offset; raise if one is incomplete."""
    found: dict[int, StoredRecord] = {}
    for segment in segments:
        at = segment.start
        while at < min(end, segment.end):
            data = segment.read(at, segment.end)
            if data[4:8] == b"LMQ\xff":
                break
            stored = decode_record(data)
            assert stored.stamp is not None
            assert stored.stamp.commitlog_offset == at
            found[at] = stored
            at += stored.size
    return found
