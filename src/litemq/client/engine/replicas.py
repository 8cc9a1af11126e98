"""Replicated groups of brokers, as the NameServer knows them."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["GroupRecovery", "MasterSwitch", "ReplicaGroupInfo", "ReplicaInfo"]


class ReplicaInfo(NamedTuple):
    """A replica: its last report to the NameServer."""

    broker_id: str
    address: str
    is_master: bool
    in_sync: bool  # confirmed messages are on its disk, so it may become the master
    alive: bool  # its reports arrive
    last_epoch: int  # of the last record in its log
    log_end: int
    heard_ms_ago: int  # since its last report
    damaged_stretches: int  # of its log, which it repairs with the bytes of other replicas
    store_id: str  # of its data directory: one with a wiped disk has another
    confirm_offset: int  # of its log, below which everything is confirmed
    lag: int | None  # bytes of the master's log that it lacks, by the last reports; None: there is no master
    bytes_cut: int  # of its log that its masters lacked, kept in files cut-off-…
    problem: str = ""  # why it cannot write or follow, or why it has stopped; empty: it can
    cut_at: int = 0  # ms since 1970, of the last cut of ``bytes_cut``; 0: there was none


class MasterSwitch(NamedTuple):
    """A planned change of a group's master: ``former`` handed over to ``master`` in ``epoch``.

    ``pause_ms`` is how long no replica accepted requests.
    """

    group: str
    former: str
    master: str
    epoch: int
    pause_ms: float


class GroupRecovery(NamedTuple):
    """New facts for a group whose facts are lost: stored if ``is_applied``, else only planned.

    The next election chooses a master among ``in_sync``, the replicas that have most.
    """

    group: str
    epoch: int
    in_sync: tuple[str, ...]
    replicas: tuple[ReplicaInfo, ...]
    configured: int  # replicas, according to their settings
    uncertainty: str  # why acknowledged messages may be lost; empty: none is
    is_applied: bool


class ReplicaGroupInfo(NamedTuple):
    """A group of brokers with the same ``broker_name`` and the same log."""

    name: str
    epoch: int  # each election begins a new one
    configured: int  # replicas, according to their settings
    min_in_sync: int
    in_sync: int  # members of the in-sync set
    replicas: tuple[ReplicaInfo, ...]
    obstacle: str  # why there is no master, or why the NameServer cannot elect one; otherwise empty
    facts_lost: bool  # the NameServers do not know the in-sync set any more
    revision: int  # of the facts in the cluster store
    warnings: tuple[str, ...] = ()  # about settings of its replicas that do not agree, and brokers that were refused
    confirmed_offset: int = 0  # of the log, the highest that a replica has reported, perhaps one whose disk is gone
    confirmed_by: str = ""  # that replica
    confirmed_ms_ago: int = 0

    @property
    def master(self) -> ReplicaInfo | None:
        """The replica that serves clients, if one has the lease."""
        return next((each for each in self.replicas if each.is_master), None)

    @property
    def outage(self) -> str:
        """Why no replica serves clients; empty: the master does."""
        if self.facts_lost:
            return f"facts lost: run `litemq cluster recover {self.name}`"
        master = self.master
        if master is None:
            return f"it has no master: {self.obstacle or 'the election is in progress'}"
        if not master.alive:
            return f"{_silence(master)}: another replica takes over when its lease as the master has ended"
        return ""

    @property
    def problems(self) -> list[str]:
        """What is wrong, as sentences."""
        found = [self.outage] if self.outage else []
        if self.facts_lost:
            return found
        for each in self.replicas:
            if not each.alive:
                found += [] if each.is_master else [_silence(each)]
            elif not each.in_sync and self.in_sync:
                found.append(f"{each.broker_id} is not in sync")
            if each.problem:
                found.append(f"{each.broker_id}{'' if each.alive else ' said at last'}: {each.problem}")
            if each.damaged_stretches:
                places = "place" if each.damaged_stretches == 1 else "places"
                found.append(
                    f"the log of {each.broker_id} is damaged in {each.damaged_stretches} {places}: see its log"
                )
        if len(self.replicas) < self.configured:
            have = "has" if len(self.replicas) == 1 else "have"
            found.append(f"{len(self.replicas)} of {self.configured} replicas {have} reported to this NameServer")
        alive = sum(each.alive and each.in_sync for each in self.replicas)
        if self.in_sync and alive < self.min_in_sync:
            are = "is" if alive == 1 else "are"
            found.append(
                f"{alive} of {self.min_in_sync} required replicas {are} in sync and alive: nothing is confirmed"
            )
        return [*found, *self.warnings]


def _silence(replica: ReplicaInfo) -> str:
    return f"{replica.broker_id} has not reported for {replica.heard_ms_ago / 1000:.1f} s"
