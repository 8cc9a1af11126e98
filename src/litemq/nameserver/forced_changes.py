"""Changes of a group's fact that only an operator may ask for. Pure functions.

``plan_recovery`` is for a group whose facts are lost, and with them its in-sync set. If all
replicas report, the one with the latest record has everything that was ever confirmed, provided
that enough replicas have records of its epoch:

- The in-sync set has at least ``min_in_sync`` replicas. If enough replicas have records of the
  latest epoch that they overlap with any such set, a member of the set is among them. That member
  has everything that was confirmed.
- Of the logs whose last record is of the same epoch, each is a prefix of the longer ones.

A replica outside the set may be the only one with a record of the latest epoch, if the master of
that epoch has lost it in a power cut.

The new set has only the replicas with this latest record; the others join again. An empty log may
be that of a wiped disk, so its replica counts as missing.

``elect_unclean`` makes a replica the master that may lack confirmed records.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from litemq.errors import ChangeRefusedError
from litemq.nameserver.cluster_store.groups import MAX_EPOCH, NOTHING, GroupFact
from litemq.nameserver.election import NoMaster, Obstacle, ReplicaReport, elect_master
from litemq.nameserver.latest_fact import EPOCH_GAP

__all__ = ["Recovery", "elect_unclean", "plan_recovery"]


class Recovery(NamedTuple):
    """The new fact of a group, and why confirmed records may be lost; empty: none is."""

    fact: GroupFact
    uncertainty: str


def plan_recovery(
    name: str,
    reports: Sequence[ReplicaReport],
    names: Mapping[bytes, str],
    *,
    configured: int,
    min_in_sync: int,
    segment_bytes: int,
    known_epoch: int = 0,
) -> Recovery:
    """Return the next fact of the group ``name``, whose ``reports`` are those of live replicas.

    ``names`` has the broker id of each store id, and ``configured`` is the number of replicas.
    ``known_epoch`` has begun, too, perhaps without a record in any log.
    """
    if not reports:
        raise ChangeRefusedError(f"group {name}: no replica reports to this NameServer: start its replicas")
    latest = max((report.last_epoch, report.log_end) for report in reports)
    epoch = max(latest[0], known_epoch) + EPOCH_GAP
    if epoch >= MAX_EPOCH:
        raise ChangeRefusedError(f"group {name}: epoch {epoch - EPOCH_GAP} has begun, and no later one is left")
    empty = sorted(names[report.store_id] for report in reports if not report.log_end)
    reasons = []
    if len(reports) < configured:
        reasons.append(f"only {len(reports)} of {configured} replicas {'reports' if len(reports) == 1 else 'report'}")
    if empty and latest[1]:
        if len(empty) == 1:
            reasons.append(f"the log of {empty[0]} is empty: it is new, or its disk was lost")
        else:
            reasons.append(f"the logs of {', '.join(empty)} are empty: they are new, or their disks were lost")
    holders = sorted(names[report.store_id] for report in reports if report.last_epoch == latest[0])
    if not reasons and len(holders) + min_in_sync <= configured:
        reasons.append(
            f"of epoch {latest[0]}, the latest, only {', '.join(holders)} {'has' if len(holders) == 1 else 'have'} "
            "records, and may not have been in sync"
        )
    fact = GroupFact(
        name,
        epoch,
        b"",
        frozenset(report.store_id for report in reports if (report.last_epoch, report.log_end) == latest),
        min_in_sync,
        segment_bytes,
        unclean_epoch=epoch if reasons else 0,
    )
    return Recovery(fact, "; ".join(reasons))


def elect_unclean(
    fact: GroupFact, reports: Sequence[ReplicaReport], names: Mapping[bytes, str], chosen: bytes
) -> GroupFact:
    """Return the next fact of a group without a master, in which ``chosen`` is the master.

    Raise ``ChangeRefusedError`` if the group can elect a master that has everything.
    """
    outcome = elect_master(fact, reports)
    if not isinstance(outcome, NoMaster):
        raise ChangeRefusedError(
            f"group {fact.name}: {names[outcome.holder]} is in sync and alive, and becomes the master without "
            "this command: nothing would be lost"
        )
    if outcome.obstacle is Obstacle.FACT_OUTDATED:
        raise ChangeRefusedError(f"group {fact.name}: {outcome.explanation}")
    has_all = any(report.store_id == chosen and report.has(fact.confirmed) for report in reports)
    if chosen in fact.members and has_all:  # its clock is wrong
        return replace(fact, epoch=fact.epoch + 1, holder=chosen)
    if outcome.obstacle is Obstacle.CLOCKS_WRONG:
        raise ChangeRefusedError(f"group {fact.name}: {outcome.explanation}, or choose one of these replicas")
    epoch = fact.epoch + 1
    members = frozenset({chosen})
    return replace(fact, epoch=epoch, holder=chosen, members=members, unclean_epoch=epoch, confirmed=NOTHING)
