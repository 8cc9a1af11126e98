"""Variants of the code without one guard each, which the simulation must find."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Final, NamedTuple

from litemq.broker.replication.in_sync_set import InSyncTracker
from litemq.nameserver import replica_groups
from litemq.nameserver.cluster_store.groups import GroupFact
from litemq.nameserver.election import NoMaster, ReplicaReport, elect_master
from litemq.server.replica.lease import MasterLease
from litemq.storage.log import log_directory
from litemq.storage.log.flush import Flusher

__all__ = ["MUTATIONS", "Mutation"]


class Mutation(NamedTuple):
    """An attribute without its guard."""

    owner: Any
    name: str
    replacement: object

    @contextmanager
    def applied(self) -> Iterator[None]:
        """Replace the attribute for a while."""
        original = vars(self.owner)[self.name]
        setattr(self.owner, self.name, self.replacement)
        try:
            yield
        finally:
            setattr(self.owner, self.name, original)


def _confirmed_by_the_master_alone(_tracker: InSyncTracker, own_flushed: int) -> int | None:
    return own_flushed


def _only_the_proposed_set(tracker: InSyncTracker) -> frozenset[bytes]:
    return tracker.current.members if tracker.proposed is None else tracker.proposed


def _elect_any_replica(fact: GroupFact, reports: Sequence[ReplicaReport]) -> GroupFact | NoMaster:
    return elect_master(replace(fact, members=fact.members | {report.store_id for report in reports}), reports)


def _do_nothing(*_arguments: object, **_options: object) -> None:
    pass


MUTATIONS: Final = {
    "confirmation by the master alone": Mutation(InSyncTracker, "confirmed", _confirmed_by_the_master_alone),
    "only the proposed set counts": Mutation(InSyncTracker, "counted", property(_only_the_proposed_set)),
    "acknowledgement after the lease": Mutation(MasterLease, "is_valid", lambda _lease: True),
    "election outside of the in-sync set": Mutation(replica_groups, "elect_master", _elect_any_replica),
    "a flush without a sync": Mutation(Flusher, "_sync", _do_nothing),
    "truncation in memory only": Mutation(log_directory, "truncate_log", _do_nothing),
}
