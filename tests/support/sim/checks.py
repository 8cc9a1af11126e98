"""The invariants of a simulation that has ended and is healed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from litemq.storage.replica_store import ReplicaStore
from support.history import Name, Outcome, Position, problems
from support.replicas import assert_same
from support.sim.load import LEVELS, Load

__all__ = ["violations"]

_REPLICATED = LEVELS.index("replicas")


def violations(load: Load, master: ReplicaStore, followers: list[ReplicaStore]) -> list[str]:
    """Return the violated invariants."""
    found = problems(replace(load.history, outcomes=_promised(load)))
    found += _vanished(load)
    for follower in followers:
        try:
            assert_same(master, follower)
        except AssertionError as error:
            found.append(f"I11: the projections of two replicas differ: {str(error)[:500]}")
    return found


def _promised(load: Load) -> dict[Name, Outcome]:
    """Return the outcomes: an acknowledgement below level 3 may be lost with its master."""
    stored = {name for name, _ in load.history.log}
    return {
        name: Outcome.UNKNOWN
        if outcome is Outcome.ACKED and name.producer != _REPLICATED and name not in stored
        else outcome
        for name, outcome in load.history.outcomes.items()
    }


def _vanished(load: Load) -> Iterator[str] | list[str]:
    """I2 and I6: what was read once is there at the end, with the same value."""
    at_end: dict[Position, Name] = {position: name for name, position in load.history.log}
    found = [
        f"I2: a reader read {name} at {position}, where {at_end.get(position, 'nothing')} is at the end"
        for name, position in dict.fromkeys(load.seen)
        if at_end.get(position) != name
    ]
    return found[:5]
