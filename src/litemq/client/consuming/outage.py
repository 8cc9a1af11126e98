"""How long requests have failed, and when to try again."""

from __future__ import annotations

import asyncio

from litemq.client.backoff import Backoff
from litemq.client.config import ClientConfig

__all__ = ["Outage"]


class Outage:
    """Attempts that failed since the last one that did not."""

    def __init__(self, config: ClientConfig) -> None:
        self._backoff = Backoff(config.retry_backoff_ms, config.max_retry_backoff_ms)
        self._since: float | None = None
        self.is_logged = False

    def failed(self) -> float:
        """Note a failed attempt; return the seconds since the first one."""
        now = asyncio.get_running_loop().time()
        self._since = now if self._since is None else self._since
        return now - self._since

    def next_delay(self, min_ms: int = 0) -> float:
        """Return the seconds to wait before the next attempt: at least ``min_ms``."""
        return self._backoff.next_delay(min_ms)

    def end(self) -> None:
        """An attempt has succeeded."""
        self._backoff.reset()
        self._since, self.is_logged = None, False
