"""What the records of one request say of who sent them, where all say the same: which is what nearly all requests are like."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from litemq.format import native
from litemq.format.batches.scan import ScanStop, scan
from litemq.format.columns.record_columns import RecordColumns, Word
from litemq.format.limits import STORED_LIMITS
from litemq.format.record import Buffer

__all__ = ["SentAlike", "sent_alike"]


class SentAlike(NamedTuple):
    """Records of one producer, with sequences that follow each other where it has a number, and of one type, priority and level."""

    records: int
    producer_id: int
    sequence: int
    meaning: int
    latest_due: int

    @property
    def type(self) -> int:
        return self.meaning >> 24

    @property
    def priority(self) -> int:
        return self.meaning >> 16 & 0xFF

    @property
    def level(self) -> int:
        return self.meaning >> 8 & 0xFF


def sent_alike(batch: Buffer) -> SentAlike | None:
    """What the records that fill a buffer say; ``None`` where they do not fill it, or differ."""
    if native.enabled:
        claimed = native.loops.sent_alike(batch, STORED_LIMITS.max_record_bytes)
        return None if claimed is None else SentAlike(*claimed)
    found = scan(batch, limits=STORED_LIMITS)
    if found.stop is not ScanStop.END or not found.starts.size:
        return None
    columns = RecordColumns(batch, found.starts)
    anywhere, everywhere = columns.set_anywhere, columns.set_everywhere
    for same in (slice(Word.PRODUCER_ID, Word.SEQUENCE), slice(Word.MEANING, Word.MEANING + 1)):
        if anywhere[same] != everywhere[same]:
            return None
    header = columns.header
    producer_id, sequences = int(header["producer_id"][0]), header["sequence"].astype(np.uint64)
    if producer_id and (sequences - sequences[0] != np.arange(sequences.size, dtype=np.uint64)).any():
        return None
    due = int(header["delay_time"].max()) if any(anywhere[Word.DUE : Word.EXPIRE]) else 0
    return SentAlike(len(columns), producer_id, int(sequences[0]), everywhere[Word.MEANING], due)
