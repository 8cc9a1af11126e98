"""Uniform sends: requests whose records share producer, type, priority and level, as most do."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from litemq.format import native
from litemq.format.batches.scan import ScanStop, scan
from litemq.format.columns.record_columns import HeaderWord, RecordColumns
from litemq.format.limits import STORED_LIMITS
from litemq.format.record import Buffer

__all__ = ["UniformSends", "uniform_sends"]


class UniformSends(NamedTuple):
    """The common fields of a request's records.

    If the records have a producer, their sequences are consecutive, starting with ``sequence``.
    ``attributes`` holds type, priority and level.
    """

    records: int
    producer_id: int
    sequence: int
    attributes: int
    latest_due: int

    @property
    def type(self) -> int:
        return self.attributes >> 24

    @property
    def priority(self) -> int:
        return self.attributes >> 16 & 0xFF

    @property
    def level(self) -> int:
        return self.attributes >> 8 & 0xFF


def uniform_sends(batch: Buffer) -> UniformSends | None:
    """Return the common fields of the records in ``batch``; ``None`` if it is not uniform."""
    if native.enabled:
        claimed = native.loops.sent_alike(batch, STORED_LIMITS.max_record_bytes)
        return None if claimed is None else UniformSends(*claimed)
    found = scan(batch, limits=STORED_LIMITS)
    if found.stop is not ScanStop.END or not found.starts.size:
        return None
    columns = RecordColumns(batch, found.starts)
    anywhere, everywhere = columns.set_anywhere, columns.set_everywhere
    for same in (
        slice(HeaderWord.PRODUCER_ID, HeaderWord.SEQUENCE),
        slice(HeaderWord.ATTRIBUTES, HeaderWord.ATTRIBUTES + 1),
    ):
        if anywhere[same] != everywhere[same]:
            return None
    header = columns.header
    producer_id, sequences = int(header["producer_id"][0]), header["sequence"].astype(np.uint64)
    if producer_id and (sequences - sequences[0] != np.arange(sequences.size, dtype=np.uint64)).any():
        return None
    due = int(header["delay_time"].max()) if any(anywhere[HeaderWord.DUE : HeaderWord.EXPIRE]) else 0
    return UniformSends(len(columns), producer_id, int(sequences[0]), everywhere[HeaderWord.ATTRIBUTES], due)
