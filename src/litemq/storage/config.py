"""The store's settings, with their defaults."""

from __future__ import annotations

from dataclasses import dataclass

from litemq.format.limits import RecordLimits
from litemq.storage.commitlog import check_segment_bytes

__all__ = ["StoreConfig"]


@dataclass(frozen=True, slots=True)
class StoreConfig:
    """How a data directory is laid out."""

    segment_bytes: int = 1 << 30
    max_record_bytes: int = 4 << 20

    def __post_init__(self) -> None:
        check_segment_bytes(self.segment_bytes, self.stored_limits.max_record_bytes)

    @property
    def sent_limits(self) -> RecordLimits:
        """For what producers send."""
        return RecordLimits(self.max_record_bytes)

    @property
    def stored_limits(self) -> RecordLimits:
        """For what is read back."""
        return self.sent_limits.for_stored()
