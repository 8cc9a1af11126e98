"""A model of replication, election, fencing and changes of the in-sync set.

There are three replicas and one cluster store, which is a linearizable register with
compare-and-set. There is no clock at all: a lease may end at any moment, and a master that was
replaced may go on for ever. So what is safe here depends on no clock.

Modelled: appends, syncs, power cuts that drop any unsynced end of a log, wiped disks and disks that
are restored from a backup (at most ``MIN_IN_SYNC - 1``), replication by fetches, reports that
arrive late and out of order, compare-and-sets that arrive late or never, answers that get lost,
masters that do not know that they were replaced, followers that find a former master, elections
from the in-sync set at any time. A backup is restored once the fact knows all that is confirmed.
Not modelled: the levels 0 to 2, stale reads (they are allowed), flipped bits.
"""

from __future__ import annotations

from typing import Final, NamedTuple

__all__ = [
    "BACKUP_BOUNDS",
    "BACKUP_VARIANTS",
    "BOUNDS",
    "RECOVERY_BOUNDS",
    "RECOVERY_VARIANTS",
    "REPLICAS",
    "RESTORE_BOUNDS",
    "RESTORE_VARIANTS",
    "SAFE",
    "VARIANTS",
    "Event",
    "Rules",
    "Violation",
    "World",
]

REPLICAS: Final = 3
MIN_IN_SYNC: Final = 2
BOUNDS: Final = {"records": 4, "elections": 5, "crashes": 4, "wipes": MIN_IN_SYNC - 1, "changes": 5}

Event = tuple[object, ...]  # a name, and what the event concerns
Log = tuple[tuple[int, object], ...]  # an epoch and a value for each record
Set = frozenset[int]
# An epoch, its master, the in-sync set, the revision, what is confirmed.
Fact = tuple[int, int, Set, int, tuple[int, int]]
Report = tuple[int, int, int]  # a store, an epoch, an offset
Change = tuple[int, int, int, Set]  # a node, its epoch, the revision it knows, the new set
Answer = tuple[int, int, int, Set, bool, int]  # a change, whether it was made, and the revision
_STARTED: Final = "started"  # the value of the record that begins an epoch


class Rules(NamedTuple):
    """The rules of the protocol. Each unsafe variant leaves one of them out."""

    epoch_record: bool = True  # an epoch's first record declares it, and is confirmed before all else
    promise: bool = False  # a replica remembers durably the highest epoch that it followed
    store_ids: bool = True  # the set names disks, not machines: a wiped one is not in it
    definite: bool = True  # a change is in flight until a definite answer; else until a read shows the old set
    union: bool = True  # while a change is in flight, both sets count
    floor: bool = True  # the set is never smaller than MIN_IN_SYNC
    size_at_ack: bool = True  # without a floor, the size of the set is checked at each acknowledgement
    isr_only: bool = True  # only members of the set are elected
    cas_epoch: bool = True  # a change of the set is refused in another epoch
    report_epoch: bool = True  # a report counts only in the epoch in which it was made
    refuse_older: bool = True  # a replica refuses a master with an epoch older than its log's last record
    truncate_by_epochs: bool = True  # else a follower cuts its log at its master's end, whatever is in it
    expand_at_send: bool = True  # who joins is decided when the change is sent; else earlier, and not again
    expand_flushed: bool = True  # a replica joins after it has flushed what is confirmed; else after receiving it
    keep_tail: bool = True  # a new master keeps its whole log; else it cuts off what may be unconfirmed
    restart_keeps_epoch: bool = False  # a master that was restarted goes on in its epoch
    ack_after_fsync: bool = True  # replicas report what is flushed; else what is received
    # With the bound ``losses``, the store loses the fact, which is rebuilt from all logs.
    recover_overlap: bool = True  # so many replicas have the latest epoch that they overlap with any set
    recover_latest: bool = True  # the new set has the replicas with the latest record; else all replicas
    small_set_waits: bool = True  # a set smaller than MIN_IN_SYNC confirms nothing
    # With the bound ``backups``, a disk is restored from a backup, with its name.
    confirmed_facts: bool = True  # no store is elected that lacks what the fact knows to be confirmed
    confirmed_epoch: bool = True  # the fact has the epoch of the last confirmed record, too
    # With the bound ``restores``, the store returns to a former fact.
    old_fact_is_lost: bool = True  # whoever knows a later fact takes the former one for lost; else it counts


VARIANTS: Final = {
    "proposed": Rules(),
    "proposed+promise": Rules(promise=True),
    # A durable vote does not replace the record: a new master does not know what is confirmed, and
    # lets a store join that lacks a part of it.
    "no-epoch-record+promise": Rules(epoch_record=False, promise=True),
    "design": Rules(epoch_record=False, store_ids=False, floor=False),
    "no-epoch-record": Rules(epoch_record=False),
    "no-store-ids": Rules(store_ids=False),
    "indefinite-cas": Rules(definite=False),
    "no-union": Rules(union=False),
    "no-floor": Rules(floor=False),
    "elect-anyone": Rules(isr_only=False),
    "cas-without-epoch": Rules(cas_epoch=False),
    "report-of-any-epoch": Rules(report_epoch=False),
    "follow-older": Rules(refuse_older=False),
    "truncate-at-masters-end": Rules(truncate_by_epochs=False),
    "expand-received": Rules(expand_flushed=False),
    "expand-decided-earlier": Rules(expand_at_send=False),
    "cut-tail-on-promotion": Rules(keep_tail=False),
    "restart-keeps-epoch": Rules(restart_keeps_epoch=True),
    "report-received": Rules(ack_after_fsync=False),
}
RECOVERY_VARIANTS: Final = {
    "recovery": Rules(),
    "recover-lone-epoch": Rules(recover_overlap=False),
    "recover-all": Rules(recover_latest=False),
    "small-set-confirms": Rules(small_set_waits=False),
}
RECOVERY_BOUNDS: Final = BOUNDS | {"losses": 1}
BACKUP_VARIANTS: Final = {
    "backup": Rules(),
    "restored-is-elected": Rules(confirmed_facts=False),
    "confirmed-without-epoch": Rules(confirmed_epoch=False),
}
BACKUP_BOUNDS: Final = BOUNDS | {"backups": 1, "elections": 4, "records": 5}
RESTORE_VARIANTS: Final = {"restore": Rules(), "restore-believed": Rules(old_fact_is_lost=False)}
RESTORE_BOUNDS: Final = RECOVERY_BOUNDS | {"restores": 1}
SAFE: Final = frozenset({"proposed", "proposed+promise"})


class Violation(Exception):  # noqa: N818  it is a finding, not an error of the model
    """An invariant does not hold."""


class Node:
    """A replica. What ``forget`` sets is in memory only."""

    def __init__(self, disk: int) -> None:
        self.is_up = True
        self.log: Log = ()
        self.flushed = 0
        self.disk = disk
        self.promised = 0
        self.backup: Log | None = None
        self.is_restored = False
        self.forget()

    def forget(self) -> None:
        self.is_master = False
        self.epoch = 0
        self.follows = -1
        self.confirm = 0
        self.isr: Set = frozenset()
        self.revision = 0
        self.pending: Set | None = None
        self.chosen = -1  # the store that is to join, without ``expand_at_send``
        self.progress: tuple[tuple[int, int], ...] = ()  # the reported offset of each store

    def copy(self) -> Node:
        other = Node.__new__(Node)
        other.__dict__.update(self.__dict__)
        return other

    def key(self) -> tuple[object, ...]:
        return tuple(self.__dict__.values())

    def reported(self, store: int) -> int:
        return dict(self.progress).get(store, -1)

    @property
    def last_epoch(self) -> int:
        return self.log[-1][0] if self.log else 0

    @property
    def begun(self) -> int:
        """The offset after the record that begins this master's epoch."""
        return next((at + 1 for at, (epoch, _) in enumerate(self.log) if epoch == self.epoch), len(self.log) + 1)


class World:
    """Everything. ``do`` applies an event, and raises ``Violation`` if an invariant breaks."""

    def __init__(self, rules: Rules, bounds: dict[str, int]) -> None:
        self.rules = rules
        self.left = dict(bounds)
        self.nodes = [Node(number) for number in range(REPLICAS)]
        self.next_disk, self.next_value = REPLICAS, 1
        # The fact of the group in the cluster store.
        self.epoch, self.holder, self.isr, self.revision = 0, -1, frozenset(range(REPLICAS)), 1
        self.confirmed = (0, 0)  # the epoch of the last record that the fact knows to be confirmed, and its end
        self.former: tuple[Fact, ...] = ()  # if it may return
        self.is_lost = False  # the store has a former fact
        # What is on its way.
        self.reports: frozenset[Report] = frozenset()
        self.changes: frozenset[Change] = frozenset()
        self.answers: frozenset[Answer] = frozenset()
        # What was promised: the record at each offset that was read, or acknowledged.
        self.read: dict[int, object] = {}
        self.acked: dict[int, object] = {}
        self.begun: dict[int, int] = {}  # the master of each epoch

    def copy(self) -> World:
        other = World.__new__(World)
        other.__dict__.update(self.__dict__)
        other.left, other.nodes = dict(self.left), [node.copy() for node in self.nodes]
        other.read, other.acked, other.begun = dict(self.read), dict(self.acked), dict(self.begun)
        return other

    def key(self) -> tuple[object, ...]:
        return (
            tuple(node.key() for node in self.nodes),
            (self.epoch, self.holder, self.isr, self.revision, self.confirmed, self.former, self.is_lost),
            (self.reports, self.changes, self.answers),
            tuple(sorted(self.read.items())),
            tuple(sorted(self.acked.items())),
            tuple(self.left.values()),
        )

    def name(self, number: int) -> int:
        """Return the name of a replica in the in-sync set."""
        return self.nodes[number].disk if self.rules.store_ids else number

    # What may happen ------------------------------------------------------------------------------

    def enabled(self) -> list[Event]:
        """Return all events that may happen next."""
        events: list[Event] = []
        for number, node in enumerate(self.nodes):
            if not node.is_up:
                events.append(("start", number))
                continue
            events += self._of_master(number, node) if node.is_master else self._of_follower(number, node)
            events += self._of_disk(number, node)
            if self.left["elections"] and self.may_elect(number):
                events += [("elect", number, isr) for isr in self._sets_after_election(number)]
            known = max(node.epoch if node.is_master else 0, node.last_epoch)
            is_usable = not self.is_lost and not self._is_outdated(node)
            is_elected = self.holder == self.name(number) and is_usable
            if is_elected and self.epoch > known and self.epoch not in self.begun:
                events.append(("begin", number))
        events += [
            ("deliver_report", report, number)
            for report in self.reports
            for number, node in enumerate(self.nodes)
            if node.is_up
            and node.is_master
            and (node.epoch == report[1] or not self.rules.report_epoch)
            and max(0, node.reported(report[0])) < report[2]
        ]
        events += [("store_change", change) for change in self.changes]
        if self.left.get("restores"):
            events += [("restore", fact) for fact in self.former]
        if self.left.get("losses") and self._may_recover():
            events.append(("recover",))
        events += [("answer", answer) for answer in self.answers]
        return events

    def _of_master(self, number: int, node: Node) -> list[Event]:
        rules = self.rules
        events: list[Event] = [("resign", number)]
        if self.left["records"]:
            events.append(("append", number))
        if node.pending is None and self.left["changes"]:
            if not rules.floor or len(node.isr) > MIN_IN_SYNC:
                events += [("shrink", number, store) for store in sorted(node.isr - {self.name(number)})]
            others = [other for other in range(REPLICAS) if other != number and self.name(other) not in node.isr]
            for other in others:
                is_chosen = node.chosen == self.name(other)
                if is_chosen or (rules.expand_at_send and self._may_join(node, other)):
                    events.append(("expand", number, other))
                elif self._may_join(node, other):
                    events.append(("choose", number, other))
        if node.pending is not None and not rules.definite and self.revision == node.revision:
            events.append(("reread", number))
        return events

    def _of_follower(self, number: int, node: Node) -> list[Event]:
        events: list[Event] = []
        for other, master in enumerate(self.nodes):
            if other == number or not master.is_up or not master.is_master:
                continue
            if node.follows == other and node.epoch == master.epoch:
                if len(node.log) < len(master.log) and node.log == master.log[: len(node.log)]:
                    events.append(("fetch", number))
                elif node.confirm < min(master.confirm, node.flushed):
                    events.append(("hear", number))
            elif self._may_follow(node, master):
                events.append(("follow", number, other))
        if node.follows >= 0 and node.epoch and self._report(number) not in self.reports:
            events.append(("report", number))
        return events

    def _of_disk(self, number: int, node: Node) -> list[Event]:
        events: list[Event] = []
        if node.flushed < len(node.log):
            events.append(("flush", number))
        if self.left["crashes"]:
            events.append(("kill", number))
            events += [("power", number, kept) for kept in range(node.flushed, len(node.log))]
            if self.left["wipes"]:
                events.append(("wipe", number))
                if node.backup is not None and len(self.read) <= self.confirmed[1]:
                    events.append(("restore_disk", number))
        if self.left.get("backups") and node.flushed:
            events.append(("backup", number))
        return events

    def may_elect(self, number: int) -> bool:
        is_member = self.name(number) in self.isr and not self._is_outdated(self.nodes[number])
        return not self.is_lost and (is_member or not self.rules.isr_only)

    def _is_outdated(self, node: Node) -> bool:
        """Return whether a member lacks what the fact knows to be confirmed."""
        epoch, end = self.confirmed
        has_all = len(node.log) >= end and (node.last_epoch >= epoch or not self.rules.confirmed_epoch)
        return self.rules.confirmed_facts and not has_all

    def _may_recover(self) -> bool:
        """All replicas report, have synced their logs, and no master has a lease."""
        if any(not node.is_up or node.is_master or node.flushed < len(node.log) for node in self.nodes):
            return False
        latest = max(node.last_epoch for node in self.nodes)
        holders = [node for node in self.nodes if node.last_epoch == latest]
        is_any_empty = any(not node.log for node in self.nodes) and latest > 0
        return not self.rules.recover_overlap or (not is_any_empty and len(holders) + MIN_IN_SYNC > REPLICAS)

    def _sets_after_election(self, number: int) -> list[Set]:
        """Return the sets that an election may leave: the same one, or without a silent member."""
        least = MIN_IN_SYNC if self.rules.floor else 1
        all_of_them = self.isr | {self.name(number)}
        sets = {all_of_them}
        if len(all_of_them) > least:
            sets |= {all_of_them - {store} for store in all_of_them - {self.name(number)}}
        return sorted(sets, key=sorted)

    def _may_follow(self, node: Node, master: Node) -> bool:
        if self.rules.refuse_older and master.epoch < node.last_epoch:
            return False
        if self.rules.promise and master.epoch < node.promised:
            return False
        return not (node.follows >= 0 and master.epoch < node.epoch)  # it remembers while it runs

    def _may_join(self, master: Node, number: int) -> bool:
        if self.rules.expand_flushed:
            reported = master.reported(self.name(number))
            return reported >= master.confirm and (not self.rules.epoch_record or reported >= master.begun)
        node = self.nodes[number]
        follows = node.follows >= 0 and self.nodes[node.follows] is master
        return follows and node.epoch == master.epoch and len(node.log) >= master.confirm

    def _report(self, number: int) -> Report:
        node = self.nodes[number]
        return self.name(number), node.epoch, node.flushed if self.rules.ack_after_fsync else len(node.log)

    # Events ---------------------------------------------------------------------------------------

    def do(self, event: Event) -> None:
        """Apply ``event``, and what follows from it."""
        before = self.epoch, self.holder, self.isr, self.revision, self.confirmed
        getattr(self, f"_do_{event[0]}")(*event[1:])
        if self.left.get("restores") and self.revision != before[3]:
            self.former += (before,)
        self._advance()

    def _do_append(self, number: int) -> None:
        node = self.nodes[number]
        self.left["records"] -= 1
        node.log += ((node.epoch, self.next_value),)
        self.next_value += 1

    def _do_flush(self, number: int) -> None:
        self.nodes[number].flushed = len(self.nodes[number].log)

    def _do_resign(self, number: int) -> None:
        node = self.nodes[number]
        node.is_master, node.pending, node.progress, node.epoch = False, None, (), 0

    def _do_kill(self, number: int) -> None:
        self.left["crashes"] -= 1
        node = self.nodes[number]
        was_master, epoch = node.is_master, node.epoch
        node.is_up = False
        node.forget()
        if self.rules.restart_keeps_epoch and was_master:
            node.epoch = -epoch

    def _do_power(self, number: int, kept: int) -> None:
        self._do_kill(number)
        self.nodes[number].log = self.nodes[number].log[:kept]

    def _do_wipe(self, number: int) -> None:
        self.left["wipes"] -= 1
        self._do_kill(number)
        node = self.nodes[number]
        node.log, node.flushed, node.promised, node.disk = (), 0, 0, self.next_disk
        self.next_disk += 1

    def _do_backup(self, number: int) -> None:
        self.left["backups"] -= 1
        node = self.nodes[number]
        node.backup = node.log[: node.flushed]

    def _do_restore_disk(self, number: int) -> None:
        """Replace the disk by its backup. A master counts no report of an earlier session."""
        self.left["wipes"] -= 1
        self._do_kill(number)
        node = self.nodes[number]
        node.log = node.backup or ()
        node.flushed, node.backup, node.is_restored = len(node.log), None, True
        name = self.name(number)
        self.reports = frozenset(report for report in self.reports if report[0] != name)
        for other in self.nodes:
            other.progress = tuple(each for each in other.progress if each[0] != name)

    def _do_start(self, number: int) -> None:
        node = self.nodes[number]
        node.is_up = True
        node.flushed = len(node.log)  # recovery syncs what it has found
        if node.epoch < 0:
            epoch, node.epoch = -node.epoch, 0
            if self.epoch == epoch and self.holder == self.name(number):
                node.is_master, node.epoch, node.isr, node.revision = True, epoch, self.isr, self.revision

    def _do_elect(self, number: int, isr: Set) -> None:
        self.left["elections"] -= 1
        self.epoch, self.holder, self.isr, self.revision = self.epoch + 1, self.name(number), isr, self.revision + 1

    def _do_recover(self) -> None:
        """The fact is lost. Once no master has a lease, it is rebuilt, far above all epochs.

        A set of one has no spare: its disk must last until another replica has joined.
        """
        self.left["losses"] -= 1
        if self.rules.small_set_waits:
            self.left["wipes"] = 0
        latest = max((node.last_epoch, len(node.log)) for node in self.nodes)
        self.isr = frozenset(
            self.name(number)
            for number, node in enumerate(self.nodes)
            if (node.last_epoch, len(node.log)) == latest or not self.rules.recover_latest
        )
        self.epoch, self.holder, self.revision = self.epoch + 10, -1, self.revision + 1
        self.confirmed = (0, 0)
        self.is_lost = False

    def _do_restore(self, former: Fact) -> None:
        """The store returns to an old copy. Masters with later facts may go on for a while."""
        self.left["restores"] -= 1
        if self.rules.old_fact_is_lost:
            self.is_lost = True  # it refuses all until it is recovered
        else:
            self.epoch, self.holder, self.isr, self.revision, self.confirmed = former

    def _do_begin(self, number: int) -> None:
        """The elected replica hears of its election, and begins the epoch."""
        node = self.nodes[number]
        self.begun[self.epoch] = number
        if not self.rules.keep_tail:
            node.log, node.flushed = node.log[: node.confirm], min(node.flushed, node.confirm)
        for kind, promised in (("acked", self.acked), ("read", self.read)):
            for at, record in promised.items():
                if at >= len(node.log) or node.log[at] != record:
                    raise Violation(f"{record} at {at} was {kind}; the new master {number} has {node.log}")
        node.is_master, node.epoch, node.follows, node.promised = True, self.epoch, -1, self.epoch
        node.isr, node.revision, node.pending, node.progress = self.isr, self.revision, None, ()
        node.chosen = -1
        if self.rules.epoch_record:
            node.log += ((node.epoch, _STARTED),)

    def _do_follow(self, number: int, other: int) -> None:
        node, master = self.nodes[number], self.nodes[other]
        if self.rules.truncate_by_epochs:
            common = _common_end(node.log, master.log)
        else:
            common = min(len(node.log), len(master.log))
        if common < node.confirm:
            raise Violation(f"to follow {other}, replica {number} would cut its log at {common} of {node.confirm}")
        node.log, node.flushed = node.log[:common], min(node.flushed, common)
        node.follows, node.epoch = other, master.epoch
        node.promised = max(node.promised, master.epoch)

    def _do_fetch(self, number: int) -> None:
        node = self.nodes[number]
        node.log += (self.nodes[node.follows].log[len(node.log)],)
        self._do_hear(number)

    def _do_hear(self, number: int) -> None:
        node = self.nodes[number]
        node.confirm = max(node.confirm, min(self.nodes[node.follows].confirm, node.flushed))

    def _do_report(self, number: int) -> None:
        self.reports |= {self._report(number)}

    def _do_deliver_report(self, report: Report, number: int) -> None:
        node = self.nodes[number]
        progress = dict(node.progress)
        progress[report[0]] = max(progress.get(report[0], 0), report[2])
        node.progress = tuple(sorted(progress.items()))

    def _do_shrink(self, number: int, store: int) -> None:
        self._change(number, self.nodes[number].isr - {store})

    def _do_choose(self, number: int, other: int) -> None:
        self.nodes[number].chosen = self.name(other)

    def _do_expand(self, number: int, other: int) -> None:
        self.nodes[number].chosen = -1
        self._change(number, self.nodes[number].isr | {self.name(other)})

    def _change(self, number: int, isr: Set) -> None:
        node = self.nodes[number]
        self.left["changes"] -= 1
        node.pending = isr
        self.changes |= {(number, node.epoch, node.revision, isr)}

    def _do_reread(self, number: int) -> None:
        self.nodes[number].pending = None  # the store shows the old set, so it seems that nothing happened

    def _do_store_change(self, change: Change) -> None:
        number, epoch, revision, isr = change
        self.changes -= {change}
        is_current = revision == self.revision and epoch == self.epoch and not self.is_lost
        if is_current or not self.rules.cas_epoch:
            self.isr, self.revision = isr, self.revision + 1
            is_current = True
        self.answers |= {(number, epoch, revision, isr, is_current, self.revision)}

    def _do_answer(self, answer: Answer) -> None:
        number, epoch, before, isr, was_made, revision = answer
        self.answers -= {answer}
        node = self.nodes[number]
        if node.is_up and node.is_master and (node.epoch, node.revision) == (epoch, before):
            if was_made:
                node.isr, node.revision, node.pending = isr, revision, None
            else:
                self._do_resign(number)  # another epoch has begun

    # What follows by itself, and what must hold ---------------------------------------------------

    def _advance(self) -> None:
        for number, node in enumerate(self.nodes):
            if node.is_up and node.is_master:
                self._confirm(number, node)
        for number, node in enumerate(self.nodes):
            if not node.is_up:
                continue
            for at in range(node.confirm):
                if self.read.setdefault(at, node.log[at]) != node.log[at]:
                    raise Violation(f"{self.read[at]} was read at {at}, where replica {number} has {node.log[at]}")
            if node.is_master and (len(node.isr) >= MIN_IN_SYNC or not self.rules.size_at_ack):
                for at in range(node.confirm):
                    self.acked.setdefault(at, node.log[at])
        self._check_members()
        self._check_kept("read", self.read)
        self._check_kept("acked", self.acked)

    def _confirm(self, number: int, node: Node) -> None:
        counted = node.isr
        if self.rules.floor and self.rules.small_set_waits and len(counted) < MIN_IN_SYNC:
            return
        if node.pending is not None:
            counted = node.isr | node.pending if self.rules.union else node.pending
        own = node.flushed if self.rules.ack_after_fsync else len(node.log)
        me = self.name(number)
        safe = min((own if store == me else max(0, node.reported(store)) for store in counted), default=0)
        if not self.rules.epoch_record or safe >= node.begun:
            node.confirm = max(node.confirm, min(safe, len(node.log)))
        if node.confirm and self.epoch == node.epoch and self.holder == me:  # a compare-and-set stores it
            epoch, end = self.confirmed
            self.confirmed = max(epoch, node.log[node.confirm - 1][0]), max(end, node.confirm)

    def _check_members(self) -> None:
        """Every member has what the fact knows to be confirmed, unless its disk was restored."""
        for number, node in enumerate(self.nodes):
            is_honest = self.name(number) in self.isr and not node.is_restored
            if is_honest and (node.flushed < self.confirmed[1] or self._is_outdated(node)):
                raise Violation(f"member {number} lacks a part of {self.confirmed}, which is confirmed")

    def _check_kept(self, kind: str, promised: dict[int, object]) -> None:
        """Some member of the set has all of it on disk: else it is lost, whoever is elected."""
        for number, node in enumerate(self.nodes):
            in_set = self.name(number) in self.isr
            if in_set and all(at < node.flushed and node.log[at] == record for at, record in promised.items()):
                return
        if promised:
            raise Violation(f"no member of the set {sorted(self.isr)} has everything that was {kind} on disk")


def _common_end(one: Log, other: Log) -> int:
    """Return where two logs part, found by comparing (epoch, start) pairs from the newest down."""
    starts, others = _starts(one), _starts(other)
    for epoch in sorted(starts, reverse=True):
        if others.get(epoch) == starts[epoch]:
            return min(_end_of(epoch, starts, one), _end_of(epoch, others, other))
    return 0


def _starts(log: Log) -> dict[int, int]:
    starts: dict[int, int] = {}
    for at, (epoch, _) in enumerate(log):
        starts.setdefault(epoch, at)
    return starts


def _end_of(epoch: int, starts: dict[int, int], log: Log) -> int:
    return min((start for later, start in starts.items() if later > epoch), default=len(log))
