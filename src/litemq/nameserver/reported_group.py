"""A replicated group as a NameServer sees it: its fact, and the last reports of its replicas."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Final, NamedTuple, Protocol

from litemq.errors import InvalidArgumentError, LiteMQError, OverloadedError
from litemq.nameserver.cluster_store.groups import STORE_ID_BYTES, Confirmed, GroupFact, GroupState
from litemq.nameserver.config import NameServerLimits
from litemq.nameserver.election import ReplicaReport as Candidate
from litemq.nameserver.latest_fact import LatestFact
from litemq.nameserver.refused_replicas import RefusedReplicas
from litemq.net.frame import Frame
from litemq.proto.wire_pb2 import ReplicaFacts, ReplicaGroup, ReplicaReport
from litemq.types import MAX_PROBLEM_CHARS, MAX_REPLICAS, check_name

__all__ = ["Caller", "Confirmed", "ReportedGroup", "ReportedReplica", "address_of", "check_report", "view_of"]

_MAX_HOST: Final = 253
_MS: Final = 1_000_000


class Caller(Protocol):
    """The sender of requests: one connection."""

    def answer(self, frame: Frame, header: bytes) -> None:
        """Answer a request with ``header``."""

    def refuse(self, frame: Frame, error: LiteMQError) -> None:
        """Answer a request with ``error``."""


class ReportedReplica:
    """A replica's last report."""

    def __init__(self, report: ReplicaReport, caller: Caller, heard_at: int, deviation_ms: int) -> None:
        self.report = report
        self.caller: Caller | None = caller  # until its connection ends
        self.heard_at = heard_at
        self.deviation_ms = deviation_ms
        self.is_stopping = report.is_stopping


class ReportedConfirm(NamedTuple):
    """Everything below the log ``offset`` is confirmed, as ``broker_id`` said at ``heard_at``."""

    offset: int
    broker_id: str
    heard_at: int


class ReportedGroup:
    """A group. A replica whose last report is too old is silent."""

    def __init__(self, name: str, version: int, limits: NameServerLimits) -> None:
        self.name = name
        self.version = version
        self._limits = limits
        self.state: GroupState | None = None
        self.latest = LatestFact()  # that this NameServer or a replica has seen
        self.replicas: dict[bytes, ReportedReplica] = {}
        self.highest_confirm: ReportedConfirm | None = None  # the highest reported one, since the last unclean epoch
        self._former: dict[bytes, str] = {}  # the broker ids of replaced members of the in-sync set
        self.waiting: dict[asyncio.TimerHandle, tuple[Caller, Frame]] = {}
        self.refused = RefusedReplicas()
        self.obstacle = ""
        self.lost_since: int | None = None  # when this NameServer noticed that the facts are lost
        self.is_changing = False  # its fact
        self.was_whole = False  # as many replicas as it should have were alive: a silent one is not just unheard
        self.fact_at = 0  # when this NameServer got the present one

    @property
    def is_outdated(self) -> bool:
        """Whether a later fact than that of ``state`` is known: it is lost, or not read yet."""
        return self.state is not None and self.latest.outdates(self.state.fact)

    def note_fact(self, fact: GroupFact) -> None:
        """The cluster store has, or had, ``fact``."""
        self.latest = self.latest.joined(fact.epoch, fact.revision)

    @property
    def known_epoch(self) -> int:
        """The highest epoch of a fact or a log."""
        return max([self.latest.epoch, *(each.report.last_epoch for each in self.replicas.values())])

    def is_alive(self, replica: ReportedReplica, now: int, *, is_last_master: bool = False) -> bool:
        """Return whether ``replica`` reports, and is not stopping."""
        silence_ms = self._limits.replica_silence_ms
        if is_last_master:  # it did not renew a lease that may be shorter: a report before that says little
            silence_ms = min(silence_ms, self._limits.master_lease_ms // 2)
        return not replica.is_stopping and now - replica.heard_at <= silence_ms * _MS

    def alive(self, now: int) -> list[ReplicaReport]:
        """Return the reports of the replicas that are alive."""
        return [each.report for each in self.replicas.values() if self.is_alive(each, now)]

    def admit(self, report: ReplicaReport, now: int) -> None:
        """Raise if ``report`` is not that of a replica, and forget the one that it replaces."""
        known = self.replicas.get(report.store_id)
        self._forget_other_store(report, now)
        if known is not None:
            self._refuse_copied(known, report, now)
        if known is None and len(self.replicas) >= MAX_REPLICAS:
            raise OverloadedError(f"group {self.name} has {MAX_REPLICAS} replicas already", 1000)

    def _forget_other_store(self, report: ReplicaReport, now: int) -> None:
        """A broker has one data directory: one with a wiped disk is a new replica."""
        for store_id, other in list(self.replicas.items()):
            if store_id != report.store_id and other.report.broker_id == report.broker_id:
                if self.is_alive(other, now) and address_of(other.report) != address_of(report):
                    raise InvalidArgumentError(
                        f"group {self.name}: the broker_id {report.broker_id} is taken by the broker at "
                        f"{other.report.host}:{other.report.port}. Set a unique broker_id for each replica"
                    )
                del self.replicas[store_id]
                if self.state is not None and store_id in self.state.fact.members:
                    self._former[store_id] = report.broker_id

    def _refuse_copied(self, known: ReportedReplica, report: ReplicaReport, now: int) -> None:
        """A store id belongs to one data directory: a copy would be a second master of an epoch."""
        is_there = known.caller is not None and self.is_alive(known, now)
        if is_there and address_of(known.report) != address_of(report):
            raise InvalidArgumentError(
                f"group {self.name}: the data directory of {report.broker_id} at {report.host}:{report.port} "
                f"is a copy of the one of {known.report.broker_id} at {known.report.host}:{known.report.port}. "
                "Start the replica with an empty directory: it copies the log"
            )

    def candidates(self, now: int, *, last_master: bytes = b"") -> list[Candidate]:
        """Return all reports for an election."""
        return [
            Candidate(
                store_id,
                each.report.last_epoch,
                each.report.log_end,
                each.report.priority,
                each.deviation_ms,
                self.is_alive(each, now, is_last_master=store_id == last_master) and not each.report.cannot_open,
                each.report.broker_id,
                lacks_space=each.report.lacks_space,
            )
            for store_id, each in self.replicas.items()
        ] + [
            Candidate(store_id, 0, 0, is_alive=False, broker_id=f"{name} with its former disk")
            for store_id, name in self._former.items()
            if store_id not in self.replicas
        ]

    def is_unused(self, now: int) -> bool:
        """Return whether there is neither a fact nor a live replica."""
        is_wanted = self.is_changing or self.waiting or self.lost_since is not None or self.alive(now)
        return self.state is None and not is_wanted

    def with_settings(self, fact: GroupFact, now: int) -> GroupFact:
        """Return ``fact`` with the setting ``min_in_sync`` of the live replicas.

        The highest counts, so one replica with another setting does not weaken the group.
        """
        chosen = max((report.min_in_sync for report in self.alive(now)), default=fact.min_in_sync)
        return replace(fact, min_in_sync=chosen)

    def confirmed(self, fact: GroupFact) -> Confirmed:
        """Return what every member of ``fact`` has, by the last report of its master.

        That holds for this revision of the fact only: a later set may confirm more without them.
        Reports of others do not count: an unclean election may have given up what they know.
        """
        master = self.replicas.get(fact.holder)
        if master is None or master.report.last_epoch != fact.epoch:
            return fact.confirmed
        report = master.report
        return fact.confirmed.raised(min(report.confirm, report.log_end), min(report.confirm_epoch, fact.epoch))

    def change_state(self, state: GroupState) -> None:
        """Note that the cluster store has ``state``."""
        if self.state is None or state.fact.unclean_epoch > self.state.fact.unclean_epoch:
            self.highest_confirm = None  # the next records may have the offsets of lost ones
        self.state = state
        self._former = {store_id: name for store_id, name in self._former.items() if store_id in state.fact.members}

    def note_report(self, report: ReplicaReport, now: int) -> None:
        """Note what a report says of the whole group."""
        self.latest = self.latest.joined(report.known_epoch, report.known_revision)
        is_current = self.state is None or report.last_epoch >= self.state.fact.unclean_epoch
        if is_current and (self.highest_confirm is None or report.confirm >= self.highest_confirm.offset):
            self.highest_confirm = ReportedConfirm(report.confirm, report.broker_id, now)

    def forget_replaced(self, now: int) -> None:
        """Forget silent replicas outside the in-sync set, if enough others are there."""
        if self.state is None or not self.state.is_leased or len(self.alive(now)) < self.configured:
            return
        for store_id, each in list(self.replicas.items()):
            if store_id not in self.state.fact.members and not self.is_alive(each, now):
                del self.replicas[store_id]

    def warnings(self, now: int) -> list[str]:
        """Return what is wrong with the settings of the live replicas, and who was refused."""
        found: list[str] = []
        alive = sorted(self.alive(now), key=lambda report: report.broker_id)
        for setting in ("replicas", "min_in_sync"):
            if len({getattr(report, setting) for report in alive}) > 1:
                values = ", ".join(f"{report.broker_id}: {getattr(report, setting)}" for report in alive)
                found.append(f"its replicas differ in {setting} ({values}): the highest counts")
        if self.state is not None:
            now_counts, later = self.state.fact.min_in_sync, self.with_settings(self.state.fact, now).min_in_sync
            if now_counts != later:
                advice = self._next_election(now)
                found.append(f"min_in_sync is {now_counts}, and {later} from the next election on{advice}")
        if len(alive) > self.configured:
            found.append(
                f"{len(alive)} replicas report, but `replicas` is {self.configured}: stop one, or start all with "
                f"`--replicas {len(alive)}`"
            )
        return found + self.refused.problems(now)

    def _next_election(self, now: int) -> str:
        """Return how an operator brings about the next election; empty: it is about to come."""
        if self.state is None or not self.state.is_leased:
            return ""
        fact = self.state.fact
        others = [
            each.store_id
            for each in self.alive(now)
            if each.store_id in fact.members and each.store_id != fact.holder and not each.lacks_space
        ]
        master = self.replicas.get(fact.holder)
        if others or master is None:
            return f": run `litemq cluster switch {self.name}`"
        return f": restart {master.report.broker_id}"

    @property
    def configured(self) -> int:
        """The number of replicas according to their settings."""
        return max((each.report.replicas for each in self.replicas.values()), default=0)

    def view(self, now: int, store_problem: str = "", store: bytes = b"") -> ReplicaGroup:
        """Return the group for its replicas and for clients.

        ``store_problem`` says why the store of group facts does not answer, ``store`` names it.
        """
        view = ReplicaGroup() if self.state is None else view_of(self.state)
        view.name, view.version, view.store = self.name, self.version, store
        view.facts_lost = self.lost_since is not None
        view.is_leased = view.is_leased and not view.facts_lost  # an old copy of the store has old leases, too
        view.obstacle = store_problem or ("" if view.is_leased else self.obstacle)
        view.configured = self.configured
        view.warnings.extend(self.warnings(now))
        if self.highest_confirm is not None:
            view.highest_confirm, view.highest_confirm_of = self.highest_confirm.offset, self.highest_confirm.broker_id
            view.highest_confirm_ms_ago = (now - self.highest_confirm.heard_at) // _MS
        for store_id, each in sorted(self.replicas.items(), key=lambda item: item[1].report.broker_id):
            report = each.report
            view.replicas.append(
                ReplicaFacts(
                    store_id=store_id,
                    broker_id=report.broker_id,
                    host=report.host,
                    port=report.port,
                    last_epoch=report.last_epoch,
                    log_end=report.log_end,
                    alive=self.is_alive(each, now),
                    heard_ms_ago=(now - each.heard_at) // _MS,
                    damaged_stretches=report.damaged_stretches,
                    confirm=report.confirm,
                    bytes_cut=report.bytes_cut,
                    problem=report.problem,
                    cut_at_ms=report.cut_at_ms,
                    lacks_space=report.lacks_space,
                )
            )
        return view


def view_of(state: GroupState) -> ReplicaGroup:
    """Return the fact of a group, without its replicas."""
    fact = state.fact
    return ReplicaGroup(
        name=fact.name,
        epoch=fact.epoch,
        holder=fact.holder,
        members=sorted(fact.members),
        min_in_sync=fact.min_in_sync,
        segment_bytes=fact.segment_bytes,
        revision=fact.revision,
        is_leased=state.is_leased,
        unclean_epoch=fact.unclean_epoch,
        confirmed=fact.confirmed.offset,
        confirmed_epoch=fact.confirmed.epoch,
    )


def address_of(report: ReplicaReport) -> tuple[str, int]:
    """Return the address of a replica."""
    return report.host, report.port


def check_report(report: ReplicaReport) -> None:
    """Raise ``InvalidArgumentError`` if a field is out of range."""
    check_name(report.group, "group")
    check_name(report.broker_id, "broker_id")
    if len(report.store_id) != STORE_ID_BYTES:
        raise InvalidArgumentError(f"group {report.group}: a store id has {STORE_ID_BYTES} bytes")
    if not report.host or len(report.host) > _MAX_HOST or not 1 <= report.port <= 65535:
        raise InvalidArgumentError(f"group {report.group}: {report.host[:_MAX_HOST]!r}:{report.port} is no address")
    if not 1 <= report.min_in_sync <= report.replicas <= MAX_REPLICAS:
        raise InvalidArgumentError(
            f"group {report.group}: replicas={report.replicas}, min_in_sync={report.min_in_sync}: choose "
            f"1 <= min_in_sync <= replicas <= {MAX_REPLICAS}"
        )
    if len(report.problem) > MAX_PROBLEM_CHARS:
        raise InvalidArgumentError(f"group {report.group}: a problem has at most {MAX_PROBLEM_CHARS} characters")
    Candidate(report.store_id, report.last_epoch, report.log_end, report.priority, broker_id=report.broker_id)
