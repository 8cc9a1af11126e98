"""Which brokers are alive: those that were heard within a lease.

A state machine without I/O: something happened at a given time, in nanoseconds that never step. A broker is *alive* from the moment it
registers until it was not heard for a lease; then it is *silent* until it registers again.

Silence counts only while somebody listened. A NameServer that was just started, or that was itself suspended for a while, has heard
nobody for reasons of its own: everybody gets a lease from there on to be heard. Routes that are a few seconds old are better than none:
a broker that is gone refuses the connection and the client goes to the next, while an empty route stops everybody who has none cached.
"""

from __future__ import annotations

__all__ = ["Liveness"]


class Liveness:
    """When each broker was last heard. The longest silent come first, so a sweep costs no more than it finds."""

    def __init__(self, lease_ns: int, sweep_interval_ns: int, now: int) -> None:
        self._lease_ns = lease_ns
        self._late_ns = sweep_interval_ns + lease_ns // 2  # after a longer gap between sweeps, the process itself stood still
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
        """Mark brokers as silent that were not heard for a lease, and return their names. Call it once per sweep."""
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
        """When a broker, alive or silent, was last heard."""
        alive = self._alive.get(name)
        return alive if alive is not None else self._silent[name]

    @property
    def alive(self) -> int:
        """How many there are."""
        return len(self._alive)

    def silent(self) -> list[str]:
        """Those who were not heard for a lease, the longest silent first."""
        return list(self._silent)
