"""The store's settings, with their defaults."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from litemq.errors import InvalidArgumentError, StorageError
from litemq.format.limits import LARGEST_RECORD, RecordLimits

__all__ = ["StoreConfig", "check_segment_bytes", "other_segments", "with_segment_bytes"]

_MIN_SEGMENT_BYTES: Final = 4096


def check_segment_bytes(segment_bytes: int, largest_record: int) -> None:
    """Raise unless ``segment_bytes`` is a multiple of 8 and fits a ``largest_record``."""
    min_bytes = max(_MIN_SEGMENT_BYTES, largest_record)
    if not isinstance(segment_bytes, int) or segment_bytes % 8 or segment_bytes < min_bytes:
        raise InvalidArgumentError(f"segment_bytes={segment_bytes!r}: choose a multiple of 8 of at least {min_bytes}")


def with_segment_bytes(segment_bytes: int) -> str:
    """Return how to start a broker with this size of segments: its option, variable and setting."""
    return f"`--file-size {segment_bytes}` (LITEMQ_BROKER_FILE_SIZE, or storage.file_size in its configuration file)"


def other_segments(directory: Path, found: int, configured: int) -> StorageError:
    """Return the error of a ``directory`` whose segments have another size than configured."""
    return StorageError(
        f"{directory}: its segments have {found} bytes, not {configured}, and the size cannot be changed: start the "
        f"broker with {with_segment_bytes(found)}"
    )


@dataclass(frozen=True, slots=True)
class StoreConfig:
    """The layout of a data directory and the limits of its maintenance."""

    segment_bytes: int = 1 << 30
    max_record_bytes: int = 4 << 20
    index_slots: int = 5_000_000
    index_entries: int = 20_000_000

    # The interval between checkpoints. 0: no maintenance thread; only ``checkpoint()`` writes one.
    checkpoint_interval_ms: int = 1000
    # The bytes of log between two snapshots.
    snapshot_every_bytes: int = 4 << 30

    # Retention drops segments that are older, or beyond this size. None: no such limit.
    retention_ms: int | None = 72 * 3600 * 1000
    max_log_bytes: int | None = None
    # Keep messages that a group has not read. If the log is full, refuse producers instead.
    keep_unread: bool = False
    # How long retention waits for the archive of a topic that sets no waiting time of its own.
    archive_wait_ms: int = 7 * 24 * 3600 * 1000
    # Dead letters are kept for this time, even if retention drops their segments.
    dead_letter_retention_ms: int = 30 * 24 * 3600 * 1000
    # Disk usage at which the oldest segments are dropped early (100: never), and at which producers
    # are refused.
    disk_clean_percent: float = 75
    disk_refuse_percent: float = 90

    def __post_init__(self) -> None:
        if not isinstance(self.max_record_bytes, int) or not 1024 <= self.max_record_bytes <= LARGEST_RECORD:
            raise InvalidArgumentError(f"max_record_bytes={self.max_record_bytes!r}: choose 1024 … {LARGEST_RECORD}")
        if not (1 <= self.index_slots < 1 << 32 and 1 <= self.index_entries < 1 << 32):
            raise InvalidArgumentError(
                f"index_slots={self.index_slots}, index_entries={self.index_entries}: choose 1 … {(1 << 32) - 1}"
            )
        if self.checkpoint_interval_ms < 0 or self.snapshot_every_bytes < 1:
            raise InvalidArgumentError(
                f"checkpoint_interval_ms={self.checkpoint_interval_ms}, "
                f"snapshot_every_bytes={self.snapshot_every_bytes}: choose positive numbers"
            )
        clean, refuse = self.disk_clean_percent, self.disk_refuse_percent
        if not (0 < clean <= 100 and 0 < refuse <= 100 and (clean <= refuse or clean == 100)):
            raise InvalidArgumentError(
                f"disk_clean_percent={self.disk_clean_percent}, disk_refuse_percent={self.disk_refuse_percent}: "
                "choose 0 < disk_clean_percent <= disk_refuse_percent <= 100, or disk_clean_percent=100 for never"
            )
        # The broker's own records (dead letters, parts of a snapshot) may exceed max_record_bytes.
        check_segment_bytes(self.segment_bytes, self.max_record_bytes + 64 * 1024)

    @property
    def sent_limits(self) -> RecordLimits:
        """The limits of the records that producers send."""
        return RecordLimits(self.max_record_bytes)
