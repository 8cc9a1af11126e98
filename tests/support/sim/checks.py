"""The invariants of a simulation that has ended and is healed."""

from __future__ import annotations

from dataclasses import replace

from litemq.storage.replica_store import ReplicaStore
from support.history import Name, Outcome, Position, problems
from support.replicas import assert_same
from support.sim.load import LEVELS, Load

__all__ = ["violations"]

_REPLICATED = LEVELS.index("replicas")


def violations(load: Load, master: ReplicaStore, followers: list[ReplicaStore]) -> list[str]:
    """Return the violated invariants."""
    receipts = {name: at for name, at in load.history.receipts.items() if name.producer == _REPLICATED}
    found = problems(replace(load.history, outcomes=_promised(load), receipts=receipts))
    found += _vanished(load)
    for follower in followers:
        found += _different_logs(master, follower)
        try:
            assert_same(master, follower)
        except AssertionError as error:
            found.append(f"I11: the projections of two replicas differ: {str(error)[:500]}")
    return found


def _different_logs(master: ReplicaStore, follower: ReplicaStore) -> list[str]:
    """I2: two logs have the same bytes, as far as both reach back."""
    size, end = master.segment_bytes, master.log_end
    begin = max(master.log_start, follower.log_start)
    for start in range(begin, end, size):
        until = min(start + size, end)
        if bytes(master._log.read(start, until)) != bytes(follower._log.read(start, until)):
            return [f"I2: the logs of two replicas differ between {start} and {until}"]
    return []


def _promised(load: Load) -> dict[Name, Outcome]:
    """Return the outcomes: an acknowledgement below level 3 may be lost with its master.

    The same holds for its receipt: if an earlier master has the message, too, it may be at the
    position that this master gave it.
    """
    stored = {name for name, _ in load.history.log}
    return {
        name: Outcome.UNKNOWN
        if outcome is Outcome.ACKED and name.producer != _REPLICATED and name not in stored
        else outcome
        for name, outcome in load.history.outcomes.items()
    }


def _vanished(load: Load) -> list[str]:
    """I2 and I6: what was read once is there at the end, with the same value."""
    at_end: dict[Position, Name] = {position: name for name, position in load.history.log}
    found = [
        f"I2: a reader read {name} at {position}, where {at_end.get(position, 'nothing')} is at the end"
        for name, position in dict.fromkeys(load.seen)
        if at_end.get(position) != name
    ]
    return found[:5]
