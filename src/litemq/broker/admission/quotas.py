"""Quotas: the messages and bytes that a client may send per second."""

from __future__ import annotations

from typing import Final

from litemq.broker.runtime.throttle import Throttle
from litemq.clock import Clock
from litemq.errors import QuotaExceededError

__all__ = ["Quotas"]

_BURST_S: Final = 1.0  # a client may send the quota of this time at once
_KEPT: Final = 10_000  # clients with a throttle; a forgotten client begins with a full one


class Quotas:
    """The rate limits of all clients. Off while both rates are 0."""

    def __init__(self, clock: Clock, messages_per_s: int, bytes_per_s: int) -> None:
        self._clock = clock
        self._messages_per_s = messages_per_s
        self._bytes_per_s = bytes_per_s
        self.is_on = messages_per_s > 0 or bytes_per_s > 0
        self._throttles: dict[
            str, tuple[Throttle, Throttle]
        ] = {}  # messages and bytes by client, the latest client last

    def take(self, client_id: str, messages: int, size: int) -> None:
        """Count a request of ``messages`` and ``size`` bytes.

        If earlier requests have exceeded a quota, raise with the time to wait. A refused request
        does not count.
        """
        now = self._clock.elapsed_ns()
        throttles = self._throttles.pop(client_id, None)
        if throttles is None:
            throttles = (
                Throttle(self._messages_per_s, self._messages_per_s * _BURST_S, now),
                Throttle(self._bytes_per_s, self._bytes_per_s * _BURST_S, now),
            )
            if len(self._throttles) >= _KEPT:
                del self._throttles[next(iter(self._throttles))]
        self._throttles[client_id] = throttles
        message_throttle, byte_throttle = throttles
        wait_s = message_throttle.wait_seconds(0, now)
        bytes_wait_s = byte_throttle.wait_seconds(0, now)
        if wait_s or bytes_wait_s:
            wait_s = max(wait_s, bytes_wait_s)
            raise QuotaExceededError(
                f"client {client_id!r} has exceeded its quota of {self._describe()}: retry in {wait_s:.3f} s",
                max(1, round(wait_s * 1000)),
            )
        message_throttle.tokens -= messages
        byte_throttle.tokens -= size

    def _describe(self) -> str:
        messages = f"{self._messages_per_s:,} messages" if self._messages_per_s else ""
        size = f"{self._bytes_per_s:,} bytes" if self._bytes_per_s else ""
        return f"{' or '.join(filter(None, (messages, size)))} per second"
