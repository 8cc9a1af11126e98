"""Variants of the code without one guard each, which the simulation must find.

Some guards have no variant here, since no seed of it was bad: a definite answer to a change of the
set (rule 4), the first record of an epoch (rule 5), reports of one session (rule 7), and the
refusal of older masters, of which one NameServer never tells. Other tests judge these guards:
``tests/failures``, ``tests/model`` and the unit tests of ``InSyncTracker``.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, NamedTuple
from unittest import mock

from litemq.broker.replication.in_sync_set import InSyncTracker
from litemq.broker.replication.shipping import Shipping
from litemq.nameserver import elector
from litemq.nameserver.cluster_store.groups import Confirmed, GroupFact
from litemq.nameserver.election import NoMaster, ReplicaReport, elect_master
from litemq.server.replica import directory
from litemq.server.replica.lease import MasterLease
from litemq.server.replica.replica import _Replica
from litemq.storage.files.disk import Disk
from litemq.storage.healing import ProjectionRepair
from litemq.storage.log import log_directory
from litemq.storage.log.flush import Flusher
from litemq.storage.queue_view import QueueView
from litemq.storage.state import QueueKey
from litemq.storage.store_parts import StoreParts

__all__ = ["MUTATIONS", "Mutation"]

_FOUND_WITHIN: Final = 240  # seeds
_LOST: Final = ("I1", "I2")
_initialize: Final = InSyncTracker.__init__
_view: Final = QueueView.__init__


class Mutation(NamedTuple):
    """Attributes without their guard. Each is an owner, a name and the replacement."""

    replaced: Sequence[tuple[Any, str, object]]
    violates: tuple[str, ...]  # one of these invariants; any other fault does not count
    kinds: Sequence[str] = ()  # of the faults that show it; by default, the seed chooses them
    known: int = 0  # a seed that has shown it; if another change gave it another run, others may

    @property
    def seeds(self) -> Iterator[int]:
        """The seeds of which one shows it."""
        yield self.known
        yield from (seed for seed in range(_FOUND_WITHIN) if seed != self.known)

    @contextmanager
    def applied(self) -> Iterator[None]:
        """Replace the attributes for a while."""
        with ExitStack() as stack:
            for owner, name, replacement in self.replaced:
                stack.enter_context(mock.patch.object(owner, name, replacement))
            yield

    def shows_in(self, faults: Sequence[str]) -> bool:
        """Return whether a violated invariant is one that the guard protects."""
        return any(fault.startswith(f"{invariant}:") for invariant in self.violates for fault in faults)


def _only_the_master(tracker: InSyncTracker) -> frozenset[bytes]:
    return frozenset({tracker._me})


def _only_the_proposed_set(tracker: InSyncTracker) -> frozenset[bytes]:
    return tracker.current.members if tracker.proposed is None else tracker.proposed


def _elect_any_replica(fact: GroupFact, reports: Sequence[ReplicaReport]) -> GroupFact | NoMaster:
    return elect_master(replace(fact, members=fact.members | {report.store_id for report in reports}), reports)


def _host_as_store_id(_disk: Disk, folder: Path, _group: str = "", _broker_id: str = "") -> bytes:
    return hashlib.md5(folder.parent.name.encode(), usedforsecurity=False).digest()


def _track_without_floor(tracker: InSyncTracker, *arguments: Any, **options: Any) -> None:
    _initialize(tracker, *arguments, **options | {"min_in_sync": 1})


def _elect_without_floor(fact: GroupFact, reports: Sequence[ReplicaReport]) -> GroupFact | NoMaster:
    return elect_master(replace(fact, min_in_sync=1), reports)


def _see_the_whole_log(
    view: QueueView, parts: StoreParts, repair: ProjectionRepair, cold: Executor, _below: Callable[[QueueKey], int]
) -> None:
    _view(view, parts, repair, cold, lambda _key: parts.log.end)


def _do_nothing(*_arguments: object, **_options: object) -> None:
    pass


# These notice a member that lacks confirmed records, whatever the reason.
_WITHOUT_CHECKED_MEMBERS: Final = (
    (Confirmed, "is_in", lambda *_arguments: True),
    (_Replica, "_is_outdated", lambda *_arguments: False),
    (Shipping, "_check_member", _do_nothing),
)
MUTATIONS: Final = {
    "confirmation by the master alone": Mutation(
        [(InSyncTracker, "counted", property(_only_the_master))], _LOST, known=2
    ),
    "only the proposed set counts": Mutation(
        [(InSyncTracker, "counted", property(_only_the_proposed_set))], _LOST, known=33
    ),
    "acknowledgement after the lease": Mutation([(MasterLease, "is_valid", lambda _lease: True)], ("I5",), known=13),
    "election outside of the in-sync set": Mutation(
        [(elector, "elect_master", _elect_any_replica), *_WITHOUT_CHECKED_MEMBERS], _LOST, known=25
    ),
    "a flush without a sync": Mutation(
        [(Flusher, "_sync", _do_nothing)], _LOST, ("cut_all_power", "cut_power", "kill")
    ),
    "truncation in memory only": Mutation([(log_directory, "truncate_log", _do_nothing)], ("I14",), known=2),
    "reads above the confirm offset": Mutation([(QueueView, "__init__", _see_the_whole_log)], ("I6",)),
    "rule 1: a host as the store id": Mutation(
        [
            (directory, "open_store_id", _host_as_store_id),
            (log_directory, "open_store_id", _host_as_store_id),
            *_WITHOUT_CHECKED_MEMBERS,
        ],
        _LOST,
        ("wipe", "kill", "isolate_master"),
        known=3,
    ),
    "rule 3: a set of one": Mutation(
        [(InSyncTracker, "__init__", _track_without_floor), (elector, "elect_master", _elect_without_floor)],
        ("I1",),
        ("isolate_master", "wipe"),
        known=89,
    ),
}
