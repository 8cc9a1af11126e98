"""A disk that is nearly full: what a store says of it, and how to go on."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

__all__ = ["FullDisk"]


class FullDisk(NamedTuple):
    """The disk of ``directory``, of which ``used`` percent are used."""

    directory: Path
    used: float
    refuse_percent: float
    awaited: tuple[str, ...]  # topics whose archives retention waits for

    def describe(self, *, is_replica: bool, follows: bool) -> str:
        """Return why messages are refused, and what to do. A follower gets none from producers."""
        full = f"the disk of {self.directory} is {self.used:.0f}% full"
        limit = f"from {self.refuse_percent:g}% on (storage.disk_refuse_percent)"
        if follows:
            return (
                f"{full}: free disk space. When it is full, this replica cannot follow, and as the master it would "
                f"refuse messages {limit}"
            )
        text = (
            f"{full}, and messages are refused {limit}: free disk space, or lower storage.retention or "
            "storage.max_log_size"
        )
        if is_replica:
            text += ", or make another replica the master with `litemq cluster switch`"
        if self.awaited:
            text += f"; retention waits for the archive of {', '.join(self.awaited)} (archived: block)"
        return text
