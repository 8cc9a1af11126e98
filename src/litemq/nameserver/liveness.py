"""Broker liveness, a state machine without I/O. Times are monotonic nanoseconds.

A broker is *alive* from its registration until it sends no heartbeat for a lease; then it is
*silent* until it registers again. If the NameServer was just started or was suspended, it cannot
have received heartbeats, so every broker gets a new lease. A stale route is better than none: a
client that fails to connect tries the next broker, but without a route it cannot send at all.
"""

from __future__ import annotations

__all__ = ["Liveness"]


class Liveness:
    """The last heartbeat of each broker, oldest first, so a sweep visits expired brokers only."""

    def __init__(self, lease_ns: int, sweep_interval_ns: int, now: int) -> None:
        self._lease_ns = lease_ns
        self._late_ns = sweep_interval_ns + lease_ns // 2  # a longer gap: the process was suspended
        self._swept_at = now
        self._listening_since = now
        self._alive: dict[str, int] = {}
        self._silent: dict[str, int] = {}

    def register(self, name: str, now: int) -> None:
        """Record that a broker registered."""
        self._silent.pop(name, None)
        self._alive.pop(name, None)
        self._alive[name] = now

    def record_heartbeat(self, name: str, now: int) -> bool:
        """Record a heartbeat. Return ``False`` if the broker must register (again)."""
        if self._alive.pop(name, None) is None:
            return False
        self._alive[name] = now
        return True

    def restore_silent(self, name: str, now: int) -> None:
        """Add a broker that was already silent before a restart."""
        self._silent[name] = now

    def remove(self, name: str) -> None:
        """Remove a broker that deregistered or was evicted."""
        self._alive.pop(name, None)
        self._silent.pop(name, None)

    def expire(self, now: int) -> list[str]:
        """Mark brokers with an expired lease as silent and return them. Call it once per sweep."""
        if now - self._swept_at > self._late_ns:
            self._listening_since = now
        self._swept_at = now
        expired: list[str] = []
        for name, heard_at in self._alive.items():
            if now - max(heard_at, self._listening_since) < self._lease_ns:
                break
            expired.append(name)
        for name in expired:
            self._silent[name] = self._alive.pop(name)
        return expired

    def is_alive(self, name: str) -> bool:
        return name in self._alive

    def heard_at(self, name: str) -> int:
        """Return the time of the last heartbeat of a broker, alive or silent."""
        alive = self._alive.get(name)
        return alive if alive is not None else self._silent[name]

    @property
    def alive(self) -> int:
        """The number of live brokers."""
        return len(self._alive)

    def silent(self) -> list[str]:
        """Return the names of the silent brokers, the longest silent first."""
        return list(self._silent)
