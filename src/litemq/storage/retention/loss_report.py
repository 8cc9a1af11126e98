"""A report of the unread messages that retention deletes: one warning a minute, by group."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Final

from litemq.proto.control_pb2 import Control
from litemq.storage.retention.unread import describe_counts

__all__ = ["LossReport"]

_INTERVAL_S: Final = 60.0
_LOG = logging.getLogger(__name__)


class LossReport:
    """Collects losses, and logs them."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._lost: dict[str, int] = {}
        self._logged_at = float("-inf")

    def add(self, crossing: Control) -> None:
        """Add the losses of a record of retention."""
        for loss in crossing.retention_crossed.losses:
            self._lost[loss.group] = self._lost.get(loss.group, 0) + loss.messages

    def log_if_due(self, now: float) -> None:
        """Log what was lost since the last warning, if that is a minute ago. ``now`` is in s."""
        if not self._lost or now - self._logged_at < _INTERVAL_S:
            return
        lost, self._lost, self._logged_at = self._lost, {}, now
        _LOG.warning(
            "%s: retention deleted unread messages of %s (see `litemq group describe GROUP`): let the consumers catch "
            "up, raise storage.max_log_size or storage.retention, or set retention.keep_unread",
            self._directory,
            describe_counts(lost),
        )
