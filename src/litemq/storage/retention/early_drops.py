"""A report of segments that are dropped because the disk fills up: one warning a minute."""

from __future__ import annotations

import logging
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

__all__ = ["EarlyDrops"]

_INTERVAL_S: Final = 60.0
_LOG = logging.getLogger(__name__)


class EarlyDrops:
    """Collects segments that were dropped before their retention, and logs them."""

    def __init__(self, directory: Path, clean_percent: float) -> None:
        self._directory = directory
        self._clean_percent = clean_percent
        self._size = 0
        self._oldest_ms: int | None = None
        self._used = 0.0
        self._logged_at = float("-inf")

    def add(self, size: int, oldest_ms: int | None, used: float) -> None:
        """Add ``size`` bytes of the log, which begin with a record stored at ``oldest_ms``.

        ``None``: it is damaged. The disk was ``used`` percent full.
        """
        self._oldest_ms = oldest_ms if self._oldest_ms is None else self._oldest_ms
        self._size += size
        self._used = used

    def log_if_due(self, now: float) -> None:
        """Log what was dropped since the last warning, if that is a minute ago. ``now`` is in s."""
        if not self._size or now - self._logged_at < _INTERVAL_S:
            return
        since = ""
        if self._oldest_ms is not None:
            since = f", with messages since {datetime.fromtimestamp(self._oldest_ms / 1000, UTC):%Y-%m-%d %H:%M:%S} UTC"
        _LOG.warning(
            "%s: the disk was %.0f%% full: dropped the oldest %d bytes of the log before their retention%s. Free disk "
            "space, or lower storage.retention or storage.max_log_size; storage.disk_clean_percent is %g",
            self._directory,
            self._used,
            self._size,
            since,
            self._clean_percent,
        )
        self._size, self._oldest_ms, self._logged_at = 0, None, now
