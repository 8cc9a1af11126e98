"""Replicated groups of brokers, as the NameServer knows them."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["MasterSwitch", "ReplicaGroupInfo", "ReplicaInfo"]


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
    damaged_stretches: int = 0  # of its log, which it repairs with the bytes of other replicas


class MasterSwitch(NamedTuple):
    """A planned change of a group's master: ``former`` handed over to ``master`` in ``epoch``.

    ``pause_ms`` is how long no replica accepted requests.
    """

    group: str
    former: str
    master: str
    epoch: int
    pause_ms: float


class ReplicaGroupInfo(NamedTuple):
    """A group of brokers with the same ``broker_name`` and the same log."""

    name: str
    epoch: int  # each election begins a new one
    configured: int  # replicas, according to their settings
    min_in_sync: int
    in_sync: int  # members of the in-sync set
    replicas: tuple[ReplicaInfo, ...]
    obstacle: str  # why there is no master, or why the NameServer cannot elect one; otherwise empty

    @property
    def master(self) -> ReplicaInfo | None:
        """The replica that serves clients, if one has the lease."""
        return next((each for each in self.replicas if each.is_master), None)

    @property
    def problems(self) -> list[str]:
        """What is wrong, as sentences."""
        found = [] if self.master else [f"it has no master: {self.obstacle or 'the election is in progress'}"]
        for each in self.replicas:
            if not each.alive:
                found.append(f"{each.broker_id} has not reported for {each.heard_ms_ago / 1000:.1f} s")
            elif not each.in_sync and self.in_sync:
                found.append(f"{each.broker_id} is not in sync")
            if each.damaged_stretches:
                found.append(f"the log of {each.broker_id} is damaged in {each.damaged_stretches} places: see its log")
        if len(self.replicas) < self.configured:
            found.append(f"{len(self.replicas)} of {self.configured} replicas have reported to this NameServer")
        alive = sum(each.alive and each.in_sync for each in self.replicas)
        if self.in_sync and alive < self.min_in_sync:
            found.append(f"{alive} of {self.min_in_sync} required replicas are in sync and alive: nothing is confirmed")
        return found
