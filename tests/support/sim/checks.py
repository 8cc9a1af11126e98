"""The invariants of a simulation that has ended and is healed."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from itertools import pairwise

from litemq.storage.replica_store import ReplicaStore
from support.history import History, Name, Outcome, Position, problems
from support.replicas import assert_same
from support.sim.disk import LosingDisk
from support.sim.load import LEVELS, Load

__all__ = ["lasting_violations", "violations"]

_REPLICATED = LEVELS.index("replicas")
_MIN_IN_SYNC = 2


def violations(load: Load, master: ReplicaStore, followers: list[ReplicaStore]) -> list[str]:
    """Return the violated invariants."""
    found = problems(_promised(load))
    found += _vanished(load)
    for follower in followers:
        found += _different_logs(master, follower, master.log_end)
        try:
            assert_same(master, follower)
        except AssertionError as error:
            found.append(f"I11: the projections of two replicas differ: {str(error)[:500]}")
    return found


def lasting_violations(load: Load, stores: list[ReplicaStore], disks: Iterable[LosingDisk]) -> list[str]:
    """Return the violated invariants of a group that does not become whole again.

    No later event can mend them: confirmed records that differ, and acknowledged messages that no
    disk has.
    """
    disks, safe = list(disks), _safe(load)
    found = [
        f"I1: {name} was acknowledged, and no replica has it"
        for name, outcome in load.history.outcomes.items()
        if outcome is Outcome.ACKED
        and name.producer in safe
        and not load.is_dropped(load.history.receipts[name])
        and not any(disk.contains(name.to_bytes() + b" ") for disk in disks)
    ]
    for one, other in pairwise(stores):
        found += _different_logs(one, other, min(one.confirm_offset, other.confirm_offset))
    return found[:5]


def _different_logs(master: ReplicaStore, follower: ReplicaStore, end: int) -> list[str]:
    """I2: two logs have the same bytes below ``end``, as far as both reach back."""
    size = master.segment_bytes
    begin = max(master.log_start, follower.log_start)
    for start in range(begin, end, size):
        until = min(start + size, end)
        if bytes(master._log.read(start, until)) != bytes(follower._log.read(start, until)):
            return [f"I2: the logs of two replicas differ between {start} and {until}"]
    return []


def _safe(load: Load) -> frozenset[int]:
    """Return the producers whose acknowledged messages must last.

    An acknowledgement from memory needs that one replica with the message has power all the time.
    """
    is_lasting = load.replica_ack == "disk" or len(load.cluster.without_power) < _MIN_IN_SYNC
    return frozenset({_REPLICATED}) if is_lasting else frozenset()


def _promised(load: Load) -> History:
    """Return what the history must fulfil.

    An acknowledgement that is not ``_safe`` may be lost with its master. The same holds for its
    receipt: if an earlier master has the message, too, it may be at the position that this master
    gave it. What retention has dropped, nobody looks for.
    """
    history, safe = load.history, _safe(load)
    stored = {name for name, _ in history.log}
    dropped = {name for name, position in history.receipts.items() if load.is_dropped(position)}
    outcomes = {
        name: Outcome.UNKNOWN
        if name in dropped or (outcome is Outcome.ACKED and name.producer not in safe and name not in stored)
        else outcome
        for name, outcome in history.outcomes.items()
    }
    receipts = {name: at for name, at in history.receipts.items() if name.producer in safe and name not in dropped}
    deliveries = {
        consumer: [(name, position) for name, position in seen if not load.is_dropped(position)]
        for consumer, seen in history.deliveries.items()
    }
    log = [(name, position) for name, position in history.log if not load.is_dropped(position)]
    return History(outcomes, receipts, defaultdict(list, deliveries), log)


def _vanished(load: Load) -> list[str]:
    """I2 and I6: what was read once is there at the end, with the same value."""
    at_end: dict[Position, Name] = {position: name for name, position in load.history.log}
    found = [
        f"I2: a reader read {name} at {position}, where {at_end.get(position, 'nothing')} is at the end"
        for name, position in dict.fromkeys(load.seen)
        if at_end.get(position) != name and not load.is_dropped(position)
    ]
    return found[:5]
