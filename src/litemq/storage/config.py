"""The store's settings, with their defaults."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from litemq.errors import InvalidArgumentError
from litemq.format.limits import LARGEST_RECORD, RecordLimits

__all__ = ["StoreConfig", "check_segment_bytes"]

_LEAST_SEGMENT: Final = 4096


def check_segment_bytes(segment_bytes: int, largest_record: int) -> None:
    """A segment holds at least one record of the largest size, and ends on a multiple of eight."""
    least = max(_LEAST_SEGMENT, largest_record)
    if not isinstance(segment_bytes, int) or segment_bytes % 8 or segment_bytes < least:
        raise InvalidArgumentError(f"segment_bytes={segment_bytes!r}: choose a multiple of 8 of at least {least}")


@dataclass(frozen=True, slots=True)
class StoreConfig:
    """How a data directory is laid out, and how it is looked after."""

    segment_bytes: int = 1 << 30
    max_record_bytes: int = 4 << 20
    index_slots: int = 5_000_000
    index_entries: int = 20_000_000

    # How old a checkpoint gets; 0: it is written only when asked for, and nothing happens in the background.
    checkpoint_interval_ms: int = 1000
    # How much log may come behind a snapshot before the next one is written.
    snapshot_every_bytes: int = 4 << 30

    # What is older goes, and what is more than that; None: nothing goes for that reason.
    retention_ms: int | None = 72 * 3600 * 1000
    max_log_bytes: int | None = None
    # What a topic's archive does not have yet gets this old at least, where the topic says that retention waits for it and not how long.
    archive_wait_ms: int = 7 * 24 * 3600 * 1000
    # Dead letters are kept for so long, whatever becomes of their segments.
    dead_letter_retention_ms: int = 30 * 24 * 3600 * 1000
    # Of the disk: from here on the oldest segments go early, and from there on producers are refused.
    disk_clean_percent: float = 75
    disk_refuse_percent: float = 90

    def __post_init__(self) -> None:
        if not isinstance(self.max_record_bytes, int) or not 1024 <= self.max_record_bytes <= LARGEST_RECORD:
            raise InvalidArgumentError(f"max_record_bytes={self.max_record_bytes!r}: choose 1024 … {LARGEST_RECORD}")
        if not (1 <= self.index_slots < 1 << 32 and 1 <= self.index_entries < 1 << 32):
            raise InvalidArgumentError(f"index_slots={self.index_slots}, index_entries={self.index_entries}: choose 1 … {(1 << 32) - 1}")
        if self.checkpoint_interval_ms < 0 or self.snapshot_every_bytes < 1:
            raise InvalidArgumentError(
                f"checkpoint_interval_ms={self.checkpoint_interval_ms}, snapshot_every_bytes={self.snapshot_every_bytes}: choose positive numbers"
            )
        if not 0 < self.disk_clean_percent <= self.disk_refuse_percent <= 100:
            raise InvalidArgumentError(
                f"disk_clean_percent={self.disk_clean_percent}, disk_refuse_percent={self.disk_refuse_percent}: choose 0 … 100, rising"
            )
        # The broker's own records, a dead letter or a part of a snapshot, may exceed what producers may send.
        check_segment_bytes(self.segment_bytes, self.max_record_bytes + 64 * 1024)

    @property
    def sent_limits(self) -> RecordLimits:
        """For what producers send."""
        return RecordLimits(self.max_record_bytes)
