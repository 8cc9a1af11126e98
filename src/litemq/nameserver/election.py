"""The election of a group's master, a pure function of the group's fact and its replicas' reports.

Any live member of the in-sync set may become the master: a record is confirmed only when every
member has flushed it, so each member has all confirmed records. The choice among them only decides
how many unconfirmed records survive. So an election waits for no silent member, and a member whose
disk is nearly full becomes the master only if all are: as the master, it would refuse messages. A
store whose log lacks a part of what the fact knows to be confirmed is not the member any more that
it was.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

from litemq.errors import InvalidArgumentError
from litemq.nameserver.cluster_store.groups import MAX_EPOCH, STORE_ID_BYTES, Confirmed, GroupFact

__all__ = ["MAX_CLOCK_DEVIATION_MS", "NoMaster", "Obstacle", "ReplicaReport", "elect_master"]

MAX_CLOCK_DEVIATION_MS: Final = 500
_MAX_LOG_END: Final = (1 << 63) - 1
_MAX_PRIORITY: Final = 1_000


@dataclass(frozen=True, slots=True)
class ReplicaReport:
    """The last report of a replica. Its log ends at ``log_end``, with a record of ``last_epoch``.

    ``clock_deviation_ms`` is how far its wall clock is off. It is silent unless ``is_alive``.
    Explanations call it by its ``broker_id``, if that is known.
    """

    store_id: bytes
    last_epoch: int
    log_end: int
    priority: int = 0
    clock_deviation_ms: int = 0
    is_alive: bool = True
    broker_id: str = ""
    lacks_space: bool = False  # its disk is full, or nearly: it would refuse messages

    def __post_init__(self) -> None:
        if len(self.store_id) != STORE_ID_BYTES:
            raise InvalidArgumentError(f"{self.store_id!r} is no store id of {STORE_ID_BYTES} bytes")
        for field, most in (("last_epoch", MAX_EPOCH), ("log_end", _MAX_LOG_END), ("priority", _MAX_PRIORITY)):
            if not 0 <= getattr(self, field) <= most:
                raise InvalidArgumentError(f"replica {self.name}: {field}={getattr(self, field)}: choose 0 … {most}")

    @property
    def name(self) -> str:
        """The name that operators know, or the store id if there is none."""
        return self.broker_id or _unnamed(self.store_id)

    @property
    def rank(self) -> tuple[bool, int, int, int]:
        """An eligible replica with the highest rank becomes the master."""
        return not self.lacks_space, self.last_epoch, self.log_end, self.priority

    def has(self, confirmed: Confirmed) -> bool:
        """Return whether the log has everything that is known to be confirmed."""
        return confirmed.is_in(self.last_epoch, self.log_end)


class Obstacle(enum.Enum):
    """Why a group cannot elect a master now."""

    FACT_OUTDATED = "fact outdated"  # a log has a later epoch than the fact: the store lost facts
    NO_MEMBER_ALIVE = "no member alive"
    MEMBERS_OUTDATED = "members outdated"  # the stores of all live members are older than they were
    CLOCKS_WRONG = "clocks wrong"


class NoMaster(NamedTuple):
    """The outcome of an election without a master."""

    obstacle: Obstacle
    explanation: str


def elect_master(fact: GroupFact, reports: Sequence[ReplicaReport]) -> GroupFact | NoMaster:
    """Return the group's next fact, with its new master, or why it cannot have one.

    Of the live members that have what is confirmed, whose clock is right, and whose disk has space
    if there is such a one, the master is the one with the highest epoch of the last record, then
    the highest log end, then the highest priority. Of equals, it is not the last master, which may
    fail again.
    Silent members leave the in-sync set if at least ``min_in_sync`` others remain. Otherwise the
    set stays as it is: nothing can be confirmed, and every member stays eligible.
    """
    if len({report.store_id for report in reports}) < len(reports):
        raise InvalidArgumentError(f"group {fact.name}: two reports have the same store id")
    latest = max(reports, key=lambda report: report.last_epoch, default=None)
    if latest is not None and latest.last_epoch > fact.epoch:
        return NoMaster(
            Obstacle.FACT_OUTDATED,
            f"the log of replica {latest.name} has epoch {latest.last_epoch}, but the cluster store only "
            f"knows epoch {fact.epoch}: it lost facts. Run `litemq cluster recover {fact.name}`",
        )
    members_alive = [report for report in reports if report.is_alive and report.store_id in fact.members]
    alive = [report for report in members_alive if report.has(fact.confirmed)]
    if not alive:
        names = {report.store_id: report.name for report in reports}
        outdated = sorted(report.name for report in members_alive)
        needed = sorted({names.get(member, _unnamed(member)) for member in fact.members} - set(outdated))
        if outdated:
            return NoMaster(Obstacle.MEMBERS_OUTDATED, _explain_outdated(fact, outdated, needed))
        return NoMaster(Obstacle.NO_MEMBER_ALIVE, f"no member of the in-sync set is alive. {_start_one(needed)}")
    eligible = [report for report in alive if abs(report.clock_deviation_ms) <= MAX_CLOCK_DEVIATION_MS]
    if not eligible:
        deviations = ", ".join(f"{report.name} by {report.clock_deviation_ms} ms" for report in alive)
        return NoMaster(
            Obstacle.CLOCKS_WRONG,
            f"the clock of each live member is more than {MAX_CLOCK_DEVIATION_MS} ms off: {deviations}. "
            "Set the clocks of their hosts",
        )
    master = max(eligible, key=lambda report: (report.rank, report.store_id != fact.holder, report.store_id))
    members = frozenset(report.store_id for report in alive)
    if len(members) < fact.min_in_sync:
        members = fact.members
    return replace(fact, epoch=fact.epoch + 1, holder=master.store_id, members=members)


def _explain_outdated(fact: GroupFact, outdated: Sequence[str], needed: Sequence[str]) -> str:
    are = "directory of {} is" if len(outdated) == 1 else "directories of {} are"
    return (
        f"the data {are.format(', '.join(outdated))} older than the replica, like a backup or a copy: it lacks "
        f"messages below offset {fact.confirmed.offset}, which were confirmed. "
        f"{_start_one(needed) if needed else 'Start a replica of the in-sync set with its latest directory'}"
    )


def _start_one(names: Sequence[str]) -> str:
    return f"Start one of its replicas: {', '.join(names)}" if len(names) > 1 else f"Start {names[0]}"


def _unnamed(store_id: bytes) -> str:
    """Return what to call a replica that has not reported to this NameServer."""
    return f"store {store_id.hex()}"
