"""The facts of replicated groups, and the interface of the store that keeps them.

Each group has one fact: its epoch, the master of that epoch, and the in-sync set. A fact changes
only by compare-and-set on its epoch and revision. Besides the fact, a group has at most one lease,
that of its master. Store ids name replicas: a replica whose disk was wiped is another replica.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from dataclasses import dataclass, replace
from typing import Final, NamedTuple, Protocol

from google.protobuf.message import DecodeError

from litemq.errors import ChangeRefusedError, InvalidArgumentError, MasterLeasedError
from litemq.proto.cluster_pb2 import StoredGroup
from litemq.types import check_name

__all__ = [
    "MAX_EPOCH",
    "MAX_GROUPS",
    "MAX_LEASE_MS",
    "MAX_MEMBERS",
    "NOTHING",
    "STORE_ID_BYTES",
    "Confirmed",
    "GroupFact",
    "GroupGone",
    "GroupState",
    "GroupStore",
    "check_change",
    "check_creation",
    "check_election",
    "check_lease_ms",
    "check_recovery",
    "decode_fact",
    "encode_fact",
    "refusal",
    "same_fact",
    "with_revision",
]

STORE_ID_BYTES: Final = 16
MAX_EPOCH: Final = (1 << 32) - 1  # a record has 4 bytes for it
MAX_GROUPS: Final = 4_096
MAX_MEMBERS: Final = 64
MAX_LEASE_MS: Final = 600_000
_MAX_SEGMENT_BYTES: Final = 1 << 40
_MAX_REVISION: Final = (1 << 63) - 1
_MAX_OFFSET: Final = (1 << 63) - 1


class Confirmed(NamedTuple):
    """What is known to be confirmed: everything below ``offset``. Its last record is of ``epoch``.

    Every member of the in-sync set has it. A store that lacks a part of it is older than the one
    that became a member: its directory was restored from a backup, or is a copy.
    """

    offset: int = 0
    epoch: int = 0

    def is_in(self, last_epoch: int, log_end: int) -> bool:
        """Return whether a log has it that ends at ``log_end`` with a record of ``last_epoch``.

        The log's end is not enough: it may have unconfirmed records of an older epoch there.
        """
        return last_epoch >= self.epoch and log_end >= self.offset

    def raised(self, offset: int, epoch: int) -> Confirmed:
        """Return what is known after a report that everything below ``offset`` is confirmed."""
        return Confirmed(max(self.offset, offset), max(self.epoch, epoch))


NOTHING: Final = Confirmed()


@dataclass(frozen=True, slots=True)
class GroupFact:
    """The fact of a group. ``members`` is the in-sync set; ``holder`` is its master, if any yet.

    ``revision`` is assigned by the store. It rises with every change of the fact. The last election
    of a replica that may lack confirmed records began ``unclean_epoch``; 0: there was none.
    ``confirmed`` is what each member has at least. It begins again with an unclean election.
    """

    name: str
    epoch: int
    holder: bytes
    members: frozenset[bytes]
    min_in_sync: int
    segment_bytes: int
    revision: int = 0
    unclean_epoch: int = 0
    confirmed: Confirmed = NOTHING

    def __post_init__(self) -> None:
        check_name(self.name, "group")
        self._check_number("epoch", self.epoch, 0, MAX_EPOCH)
        self._check_number("min_in_sync", self.min_in_sync, 1, MAX_MEMBERS)
        self._check_number("segment_bytes", self.segment_bytes, 1, _MAX_SEGMENT_BYTES)
        self._check_number("revision", self.revision, 0, _MAX_REVISION)
        self._check_number("unclean_epoch", self.unclean_epoch, 0, self.epoch)
        self._check_number("confirmed", self.confirmed.offset, 0, _MAX_OFFSET)
        self._check_number("confirmed_epoch", self.confirmed.epoch, 0, self.epoch)
        if not 1 <= len(self.members) <= MAX_MEMBERS:
            raise self._invalid(f"an in-sync set of {len(self.members)} members: choose 1 … {MAX_MEMBERS}")
        for store_id in self.members:
            if not isinstance(store_id, bytes) or len(store_id) != STORE_ID_BYTES:
                raise self._invalid(f"member {store_id!r} is no store id of {STORE_ID_BYTES} bytes")
        if self.holder and self.holder not in self.members:
            raise self._invalid(f"master {self.holder.hex()} is not in the in-sync set")
        if self.holder and not self.epoch:
            raise self._invalid("a group at epoch 0 has no master yet")

    def _check_number(self, field: str, value: int, lowest: int, highest: int) -> None:
        if type(value) is not int or not lowest <= value <= highest:
            raise self._invalid(f"{field}={value!r}: choose {lowest} … {highest}")

    def _invalid(self, what: str) -> InvalidArgumentError:
        return InvalidArgumentError(f"group {self.name}: {what}")


class GroupState(NamedTuple):
    """A group at one moment. While ``is_leased``, no other master can be elected."""

    fact: GroupFact
    is_leased: bool


class GroupGone(NamedTuple):
    """The store no longer has the fact of the group ``name``, which no request removes.

    The store has lost its data, or someone has deleted the fact.
    """

    name: str


class GroupStore(Protocol):
    """A store of group facts, shared by all NameServers of a cluster.

    A request that changes a fact has one of three outcomes. It returns: the change is made and
    durable. It raises ``ChangeRefusedError`` or another definite error: the request changed
    nothing, or was already overtaken by ``current``. It raises ``ChangeOutcomeUnknownError``: the
    store may have made the change, or may still make it, until a repetition has a definite answer.
    """

    @property
    def place(self) -> str:
        """What to call the store in messages, with its address."""

    @property
    def identity(self) -> bytes:
        """Names the store: stores with the same facts have the same. Empty: not known yet."""

    async def groups(self) -> list[GroupState]:
        """Return the state of all groups, sorted by name."""

    async def read(self, name: str) -> GroupState | None:
        """Return the state of a group; ``None`` if there is no such group.

        Raise ``GroupFactsLostError`` if the store cannot know, since it lost facts.
        """

    async def create(self, fact: GroupFact) -> GroupFact:
        """Store the first ``fact`` of a group, without a master; return it with its revision."""

    async def change(self, before: GroupFact, after: GroupFact) -> GroupFact:
        """Replace a fact within an epoch: not the epoch itself, nor the master. Return the new one.

        The in-sync set never gets smaller than ``min_in_sync``.
        """

    async def elect(self, before: GroupFact, after: GroupFact, lease_ms: int) -> GroupFact:
        """Begin a higher epoch with the master ``after.holder``, and grant its lease, in one step.

        Raise ``MasterLeasedError`` while the group has a lease.
        """

    async def hand_over(self, before: GroupFact, after: GroupFact, lease_ms: int) -> GroupFact:
        """Elect, whether or not ``before.holder`` has a lease; the new lease replaces it.

        For a planned switch: the former master must have stopped before.
        """

    async def renew(self, name: str, epoch: int, holder: bytes) -> int:
        """Renew a master's lease; return how long (ms) it lasts, counted from before this call.

        Raise ``MasterLeaseLostError`` if it has ended or is another replica's, or if the store has
        no fact of the group.
        """

    async def release(self, name: str, epoch: int, holder: bytes) -> None:
        """End a master's own lease, for an orderly stop. If it has no lease, do nothing."""

    async def recover(self, fact: GroupFact, lease_ms: int, outdated: GroupFact | None = None) -> GroupFact:
        """Store the ``fact`` of a group that the store does not have, though it existed.

        Or replace an ``outdated`` fact, of an earlier epoch, and its lease.

        The group counts as leased for ``lease_ms``, since its former master may still have a lease.
        """

    def watch(self) -> AsyncGenerator[GroupState | GroupGone, None]:
        """Iterate over the state of every group, then over each change of a fact or a lease.

        It starts with the first iteration, and ends when the store is closed. The order is that of
        the changes. If changes are faster than this iterator, or if the store was unreachable, it
        may leave out states that later ones have replaced, but never the last one. If the fact of
        a group that it has returned disappears, it returns ``GroupGone``.
        """

    async def close(self) -> None: ...


def check_creation(fact: GroupFact) -> None:
    """Raise unless ``fact`` may be the first of its group."""
    if fact.holder:
        raise InvalidArgumentError(f"group {fact.name}: a new group has no master: an election chooses it")


def check_change(before: GroupFact, after: GroupFact) -> None:
    """Raise unless ``after`` may follow ``before`` within an epoch."""
    if (before.epoch, before.holder) != (after.epoch, after.holder):
        raise InvalidArgumentError(f"group {before.name}: only an election changes the epoch and the master")
    _check_successor(before, after)


def check_election(before: GroupFact, after: GroupFact) -> None:
    """Raise unless ``after`` may begin an epoch after ``before``."""
    if after.epoch <= before.epoch:
        raise InvalidArgumentError(
            f"group {before.name}: epoch {after.epoch} is not higher than the present one, {before.epoch}"
        )
    if not after.holder:
        raise InvalidArgumentError(f"group {before.name}: an election needs a master")
    _check_successor(before, after)


def _check_successor(before: GroupFact, after: GroupFact) -> None:
    if not before.revision:
        raise InvalidArgumentError(f"group {before.name}: a fact without a revision is not from the cluster store")
    if (before.name, before.segment_bytes) != (after.name, after.segment_bytes):
        raise InvalidArgumentError(f"group {before.name}: its name and segment_bytes never change")
    is_unclean = after.unclean_epoch == after.epoch > before.epoch
    if after.unclean_epoch != before.unclean_epoch and not is_unclean:
        raise InvalidArgumentError(f"group {before.name}: only an unclean election changes unclean_epoch")
    if not is_unclean and after.confirmed != before.confirmed.raised(*after.confirmed):
        raise InvalidArgumentError(f"group {before.name}: what is confirmed stays confirmed")
    if len(after.members) < min(after.min_in_sync, len(before.members)) and not is_unclean:
        raise InvalidArgumentError(
            f"group {before.name}: an in-sync set of {len(after.members)} members is smaller than "
            f"min_in_sync={after.min_in_sync}"
        )


def check_recovery(outdated: GroupFact | None, fact: GroupFact) -> None:
    """Raise unless ``fact`` may replace ``outdated``."""
    if outdated is not None and outdated.epoch >= fact.epoch:
        raise InvalidArgumentError(f"group {fact.name}: epoch {outdated.epoch} is not older than {fact.epoch}")


def check_lease_ms(lease_ms: int) -> None:
    """Raise unless ``lease_ms`` is a valid duration of a lease."""
    if type(lease_ms) is not int or not 1 <= lease_ms <= MAX_LEASE_MS:
        raise InvalidArgumentError(f"lease_ms={lease_ms!r}: choose 1 … {MAX_LEASE_MS}")


def with_revision(fact: GroupFact, revision: int) -> GroupFact:
    """Return ``fact`` with the ``revision`` that the store has assigned."""
    return replace(fact, revision=revision)


def same_fact(one: GroupFact, other: GroupFact) -> bool:
    """Return whether two facts differ in nothing but their revisions."""
    return with_revision(one, other.revision) == other


def encode_fact(fact: GroupFact) -> bytes:
    """Return the stored bytes of ``fact``, without its revision."""
    return StoredGroup(
        name=fact.name,
        epoch=fact.epoch,
        holder=fact.holder,
        members=sorted(fact.members),
        min_in_sync=fact.min_in_sync,
        segment_bytes=fact.segment_bytes,
        unclean_epoch=fact.unclean_epoch,
        confirmed=fact.confirmed.offset,
        confirmed_epoch=fact.confirmed.epoch,
    ).SerializeToString(deterministic=True)


def decode_fact(name: str, data: bytes, revision: int) -> GroupFact:
    """Return the fact of group ``name`` in ``data``; raise ``InvalidArgumentError`` if invalid."""
    try:
        stored = StoredGroup.FromString(data)
    except DecodeError as error:
        raise InvalidArgumentError(f"group {name}: its fact cannot be decoded: {error}") from error
    if stored.name != name:
        raise InvalidArgumentError(f"group {name}: its fact is that of {stored.name!r}")
    members = frozenset(stored.members)
    if len(members) != len(stored.members):
        raise InvalidArgumentError(f"group {name}: its in-sync set has a duplicate")
    return GroupFact(
        name,
        stored.epoch,
        stored.holder,
        members,
        stored.min_in_sync,
        stored.segment_bytes,
        revision=revision,
        unclean_epoch=stored.unclean_epoch,
        confirmed=Confirmed(stored.confirmed, stored.confirmed_epoch),
    )


def refusal(name: str, before: GroupFact | None, current: GroupState | None) -> ChangeRefusedError:
    """Return the error for a change of ``before`` that is refused in the state ``current``.

    ``before`` is ``None`` if the group was to be created.
    """
    if current is None:
        return ChangeRefusedError(f"group {name} is not in the cluster store", None)
    fact = current.fact
    if before is None:
        return ChangeRefusedError(f"group {name} exists, at epoch {fact.epoch}", current)
    if (before.epoch, before.revision) != (fact.epoch, fact.revision):
        return ChangeRefusedError(
            f"group {name} is at epoch {fact.epoch}, revision {fact.revision}; the change was made from epoch "
            f"{before.epoch}, revision {before.revision}: read the group again",
            current,
        )
    return MasterLeasedError(
        f"group {name}: its master {fact.holder.hex()} has a lease in epoch {fact.epoch}: wait until it ends", current
    )
