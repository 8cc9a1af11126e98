"""How much a client may send: a bucket that fills as time passes."""

from __future__ import annotations

from typing import Final

from litemq.clock import Clock
from litemq.errors import QuotaExceededError

__all__ = ["Quotas"]

_BURST_S: Final = 1.0  # so many seconds' worth may come at once
_NS: Final = 1_000_000_000
_KEPT: Final = 10_000  # clients that are remembered; one that is forgotten begins with a full bucket


class _Bucket:
    """What a client may still send, in messages and in bytes. Either may go below nothing, and is waited for then."""

    __slots__ = ("at_ns", "bytes", "messages")

    def __init__(self, at_ns: int, messages: float, size: float) -> None:
        self.at_ns = at_ns
        self.messages = messages
        self.bytes = size


class Quotas:
    """Off while both rates are 0."""

    def __init__(self, clock: Clock, messages_per_s: int, bytes_per_s: int) -> None:
        self._clock = clock
        self._messages_per_s = messages_per_s
        self._bytes_per_s = bytes_per_s
        self.is_on = messages_per_s > 0 or bytes_per_s > 0
        self._buckets: dict[str, _Bucket] = {}

    def take(self, client_id: str, messages: int, size: int) -> None:
        """Count what a client sends; raises with the time after which it may send again. What was refused does not count."""
        now = self._clock.elapsed_ns()
        bucket = self._buckets.pop(client_id, None)
        if bucket is None:
            bucket = _Bucket(now, self._messages_per_s * _BURST_S, self._bytes_per_s * _BURST_S)
            if len(self._buckets) >= _KEPT:
                del self._buckets[next(iter(self._buckets))]
        self._buckets[client_id] = bucket  # the last to be forgotten
        passed = (now - bucket.at_ns) / _NS
        bucket.at_ns = now
        wait_s = 0.0
        if self._messages_per_s:
            bucket.messages = min(self._messages_per_s * _BURST_S, bucket.messages + passed * self._messages_per_s)
            wait_s = max(wait_s, -bucket.messages / self._messages_per_s)
        if self._bytes_per_s:
            bucket.bytes = min(self._bytes_per_s * _BURST_S, bucket.bytes + passed * self._bytes_per_s)
            wait_s = max(wait_s, -bucket.bytes / self._bytes_per_s)
        if wait_s > 0 or bucket.messages < 0 or bucket.bytes < 0:
            raise QuotaExceededError(
                f"client {client_id!r} has sent more than {self._describe()}: send again in {wait_s:.3f} s", max(1, round(wait_s * 1000))
            )
        if self._messages_per_s:
            bucket.messages -= messages
        if self._bytes_per_s:
            bucket.bytes -= size

    def _describe(self) -> str:
        messages = f"{self._messages_per_s:,} messages" if self._messages_per_s else ""
        size = f"{self._bytes_per_s:,} bytes" if self._bytes_per_s else ""
        return f"{' or '.join(filter(None, (messages, size)))} a second"
