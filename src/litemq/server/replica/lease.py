"""The lease of a master, without I/O: how long it may acknowledge messages."""

from __future__ import annotations

from typing import Final

from litemq.clock import Clock

__all__ = ["MasterLease"]

_MARGIN: Final = 0.1  # of the lease: the clocks of two machines do not run alike
_MS: Final = 1_000_000


class MasterLease:
    """The lease of one epoch. It begins with its first renewal, and is over after ``end``."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._until = 0
        self._is_suspended = False
        self._has_ended = False

    def renewed(self, sent_at: int, lease_ms: int) -> None:
        """The cluster store has renewed the lease; the request was sent at ``sent_at`` (ns)."""
        self._until = max(self._until, sent_at + int(lease_ms * _MS * (1 - _MARGIN)))

    def end(self) -> None:
        """Acknowledge nothing more, whatever follows: another replica may have the lease."""
        self._has_ended = True

    def suspend(self) -> None:
        """Acknowledge nothing until ``resume``: another master may begin."""
        self._is_suspended = True

    def resume(self) -> None:
        """The hand-over has failed."""
        self._is_suspended = False

    def is_valid(self) -> bool:
        """Whether this master may acknowledge messages now."""
        return not (self._has_ended or self._is_suspended) and self._clock.elapsed_ns() < self._until
