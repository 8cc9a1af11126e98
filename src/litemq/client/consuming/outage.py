"""How long requests have failed, and when to try again."""

from __future__ import annotations

import asyncio

from litemq.client.backoff import Backoff

__all__ = ["Outage"]


class Outage:
    """Attempts that failed since the last one that did not."""

    def __init__(self, first_ms: int, max_ms: int) -> None:
        self._backoff = Backoff(first_ms, max_ms)
        self._since: float | None = None
        self.is_logged = False

    def lasts(self) -> float:
        """Count a failed attempt; return the seconds since the first one."""
        now = asyncio.get_running_loop().time()
        self._since = now if self._since is None else self._since
        return now - self._since

    def next_delay(self) -> float:
        """Return the seconds to wait before the next attempt."""
        return self._backoff.next_delay()

    def end(self) -> None:
        """An attempt has succeeded."""
        self._backoff.reset()
        self._since, self.is_logged = None, False
