"""The in-sync set of a master: what it has confirmed, and who joins or leaves it. Without I/O.

Offsets are log offsets, and times are monotonic nanoseconds.

- The confirm offset is the least flushed offset of all members. While a change of the set is in
  flight, the members of both sets count: after a timeout, either may be in force.
- Nothing is confirmed before the whole set has flushed the record that begins the epoch.
- A report counts only in the session in which it was made: after a reconnect the follower may have
  cut its log.
- In a topic with ``replica_ack = memory``, a message is acknowledged once all members have received
  it. So a newcomer needs what was acknowledged this way, too.
- A follower that is silent does not join, however much it had reported before.
- The set never gets smaller than ``min_in_sync``. With fewer members alive, nothing is confirmed.
"""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["InSyncSet", "InSyncTracker", "Shortage"]

StoreId = bytes


class InSyncSet(NamedTuple):
    """The members of a group that have everything confirmed, and the revision of this fact."""

    members: frozenset[StoreId]
    revision: int


class Shortage(NamedTuple):
    """Too few stores are in sync: ``present``, of at least ``needed``.

    ``missing`` has the nanoseconds since each missing member had caught up.
    """

    present: frozenset[StoreId]
    needed: int
    missing: dict[StoreId, int]


class _Follower:
    """The last report of a follower in its current session."""

    __slots__ = ("flushed", "goal", "goal_at", "heard_at", "leaves", "received", "session")

    def __init__(self, session: int, log_end: int, now: int) -> None:
        self.session = session
        self.received = self.flushed = -1
        self.heard_at = now
        self.leaves = False
        # Where the log ended at an earlier report. Once the follower has flushed that, it had
        # caught up then: under load, it never has all that was written since.
        self.goal, self.goal_at = log_end, now


class InSyncTracker:
    """The in-sync set as the master of one epoch knows it, and the progress of its followers."""

    def __init__(
        self, me: StoreId, begun: int, current: InSyncSet, *, min_in_sync: int, max_lag_ns: int, now: int
    ) -> None:
        """``begun`` is the offset after the record that begins the epoch."""
        self._me = me
        self._begun = begun
        self._min_in_sync = min_in_sync
        self._max_lag_ns = max_lag_ns
        self._since = now
        self.current = current
        self.proposed: frozenset[StoreId] | None = None
        self._followers: dict[StoreId, _Follower] = {}
        self._caught_up_at: dict[StoreId, int] = {}  # also of members that are not connected

    # Followers ------------------------------------------------------------------------------------

    def connected(self, store: StoreId, session: int, *, log_end: int, now: int) -> None:
        """A follower began a session; its earlier reports no longer count."""
        self._followers[store] = _Follower(session, log_end, now)

    def lost(self, store: StoreId, session: int) -> None:
        """A follower's session ended."""
        known = self._followers.get(store)
        if known is not None and known.session == session:
            del self._followers[store]

    def reported(self, store: StoreId, session: int, received: int, flushed: int, *, log_end: int, now: int) -> bool:
        """Note the progress of a follower; return ``False`` if it belongs to an earlier session."""
        known = self._followers.get(store)
        if known is None or known.session != session:
            return False
        known.received, known.flushed = max(known.received, received), max(known.flushed, flushed)
        known.heard_at = now
        if known.flushed >= known.goal:
            self._caught_up_at[store] = now if known.flushed >= log_end else known.goal_at
            known.goal, known.goal_at = log_end, now
        return True

    def leave(self, store: StoreId, session: int) -> None:
        """A follower is about to stop: the set goes on without it, if it is large enough."""
        known = self._followers.get(store)
        if known is not None and known.session == session:
            known.leaves = True

    def flushed(self, store: StoreId) -> int | None:
        """Return how far a follower has flushed the log; ``None`` if it is not connected."""
        known = self._followers.get(store)
        return None if known is None else known.flushed

    # The confirm offset ---------------------------------------------------------------------------

    @property
    def counted(self) -> frozenset[StoreId]:
        """The stores that must have flushed a record before it is confirmed."""
        members = self.current.members
        return members if self.proposed is None else members | self.proposed

    @property
    def size(self) -> int:
        """The number of stores that have flushed everything that is confirmed."""
        return len(self.counted)

    @property
    def is_alone(self) -> bool:
        """Whether the master's own flushed offset is the confirm offset."""
        return self.counted == {self._me}

    def confirmed(self, own_flushed: int) -> int | None:
        """Return the offset below which everything is confirmed.

        Return ``None`` while a member is away, or has not flushed the record that begins the epoch,
        or while the set is too small, as after an unclean election.
        """
        if len(self.current.members) < self._min_in_sync:
            return None
        reached = own_flushed
        for store in self.counted:
            if store != self._me:
                known = self._followers.get(store)
                if known is None:
                    return None
                reached = min(reached, known.flushed)
        return reached if reached >= self._begun else None

    def received(self, own_flushed: int, log_end: int) -> int | None:
        """Return the offset below which all members have everything in memory.

        Return ``None`` while nothing can be confirmed.
        """
        if self.confirmed(own_flushed) is None:
            return None
        return min([log_end, *(self._followers[store].received for store in self.counted if store != self._me)])

    # Changes of the set ---------------------------------------------------------------------------

    def wanted(self, confirmed: int, now: int, *, acked_received: int = 0) -> frozenset[StoreId] | None:
        """Return the set to propose now; ``None`` for no change, or if one is in flight.

        A newcomer has in memory what was acknowledged because all members had it there.
        """
        if self.proposed is not None:
            return None
        members = self.current.members
        wanted = members | self._newcomers(confirmed, now, acked_received)
        leaving = sorted(store for store, known in self._followers.items() if known.leaves)
        for store in (*leaving, *self._late(now)):
            if len(wanted) <= self._min_in_sync:
                break
            wanted -= {store}
        return wanted if wanted != members else None

    def shortage(self, confirmed: int, now: int) -> Shortage | None:
        """Return which members are missing if too few are in sync to confirm anything.

        A newcomer that may replace a missing member counts: the set will have it soon.
        """
        late = self._late(now)
        present = self.current.members.difference(late) | self._newcomers(confirmed, now)
        if len(present) >= self._min_in_sync:
            return None
        return Shortage(present, self._min_in_sync, {store: now - self._caught_up(store) for store in late})

    def _late(self, now: int) -> list[StoreId]:
        """Return the members that have not caught up for too long."""
        return sorted(
            store
            for store in self.current.members
            if store != self._me and now - self._caught_up(store) > self._max_lag_ns
        )

    def _caught_up(self, store: StoreId) -> int:
        return self._caught_up_at.get(store, self._since)

    def _newcomers(self, confirmed: int, now: int, acked_received: int = 0) -> set[StoreId]:
        """Return the followers outside the set that may join it.

        While nothing is confirmed, a follower that stopped after its last report still has all that
        is needed. It would join only to be late again.
        """
        needed = max(confirmed, self._begun)
        return {
            store
            for store, known in self._followers.items()
            if store not in self.current.members
            and not known.leaves
            and known.flushed >= needed
            and known.received >= acked_received
            and now - known.heard_at <= self._max_lag_ns
        }

    def propose(self, members: frozenset[StoreId]) -> None:
        """A change to ``members`` was sent to the cluster store: both sets count from now on."""
        self.proposed = members

    def settled(self, current: InSyncSet) -> None:
        """The cluster store has ``current``. Only a higher revision is a definite answer.

        A read that shows the old set is not: the change may still arrive there.
        """
        if current.revision > self.current.revision:
            self.current, self.proposed = current, None
