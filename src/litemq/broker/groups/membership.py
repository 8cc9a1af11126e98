"""The members of one group for one topic, and the owners of its queues: a state machine without
clock, socket or log.

A queue has one owner. Each owner gets a new *generation*, by which late requests of a former owner
are refused. A queue changes its owner in two steps: the owner is asked to release it, and the next
one gets it when that is done or the owner's session has ended. Other members are not involved.

Each change of members rebalances the queues, unless the budget refuses the work. Then the
membership is *stale* until ``rebalance`` is called: members keep what they own.

A session ends when its member was silent for the session's timeout. If its connection is lost, the
member has a short grace period to continue on another one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple, Protocol

from litemq.broker.groups.assignment import Candidate, Strategy, assign
from litemq.errors import InvalidArgumentError, NotGroupMemberError
from litemq.storage.state import QueueKey

__all__ = ["Changes", "Member", "Membership", "QueueOwner", "WorkBudget"]


class QueueOwner(NamedTuple):
    """A queue's owner."""

    member: str
    generation: int


class Changes(NamedTuple):
    """The effects of an event: members with a new assignment, ended sessions, and generations that
    no longer count.
    """

    members: tuple[str, ...] = ()
    ended: tuple[int, ...] = ()  # sessions
    fenced: tuple[tuple[QueueKey, int], ...] = ()


class Member:
    """One reader of the group."""

    __slots__ = ("is_connected", "name", "session", "timeout_ns", "until_ns", "version", "zone")

    def __init__(self, name: str, session: int, zone: str, timeout_ns: int, now_ns: int) -> None:
        self.name = name
        self.session = session
        self.zone = zone
        self.timeout_ns = timeout_ns
        self.until_ns = now_ns + timeout_ns  # when its session ends without another request
        self.is_connected = True
        self.version = 0  # of its assignment


class WorkBudget(Protocol):
    """Limits the work of rebalancing."""

    def take(self, work: int) -> bool:
        """Return whether ``work`` may be done now: queues and members to look at."""
        ...


class Membership:
    """Assigns ``queues`` to members. All times are nanoseconds of one monotonic clock."""

    def __init__(
        self,
        queues: Sequence[QueueKey],
        numbers: Iterator[int],
        *,
        broker: str = "",
        zone: str = "",
        budget: WorkBudget | None = None,
    ) -> None:
        """``numbers`` never repeats a number. Without a ``budget``, all work is done at once."""
        self.members: dict[str, Member] = {}
        self.owners: dict[QueueKey, QueueOwner] = {}
        self.is_stale = False
        self._queues_of: dict[str, dict[QueueKey, QueueOwner]] = {}  # ``owners`` by member
        self._budget = budget
        self.strategy = Strategy.AVERAGE
        self._queues = tuple(queues)
        self._known = frozenset(queues)
        self._gathers_until_ns: int | None = None
        self._targets: dict[QueueKey, str] = {}
        self._numbers = numbers
        self._broker = broker
        self._zone = zone

    # Sessions -------------------------------------------------------------------------------------

    def join(
        self,
        name: str,
        now_ns: int,
        timeout_ns: int,
        *,
        strategy: Strategy = Strategy.AVERAGE,
        zone: str = "",
        held: Sequence[QueueKey] = (),
        gather_ns: int = 0,
    ) -> Changes:
        """Add a member. If it rejoins on another connection, it keeps its queues.

        After a restart of the broker, a member reclaims the queues that it ``held``. During
        ``gather_ns``, in which the others rejoin, the broker assigns no other queues.
        """
        others = len(self.members) - (name in self.members)
        if others and strategy is not self.strategy:
            raise InvalidArgumentError(
                f"assignment={strategy.value!r}: the group's other members use {self.strategy.value!r}. Use the same, "
                "or stop the other members to change it"
            )
        self.strategy = strategy
        member = self.members.get(name)
        if member is not None and member.zone == zone:
            member.timeout_ns, member.is_connected = timeout_ns, True
            member.until_ns = now_ns + timeout_ns
            member.version += 1
            return self._rebalance()
        ended = self.end([name]) if member is not None else Changes()
        if held and not self.members:
            self._gathers_until_ns = now_ns + gather_ns
        self.members[name] = Member(name, next(self._numbers), zone, timeout_ns, now_ns)
        for key in held:
            if key in self._known and key not in self.owners:
                self._give(key, name)
        return _merged(ended, self._rebalance())

    def renew_session(self, name: str, session: int, now_ns: int) -> Member:
        """Renew the session of a member. Raise if it has ended."""
        member = self.members.get(name)
        if member is None or member.session != session:
            raise NotGroupMemberError(
                f"the session of member {name!r} has ended: it timed out, or was closed. Join again"
            )
        member.until_ns = now_ns + member.timeout_ns
        member.is_connected = True
        return member

    def release(self, name: str, generations: Iterable[int]) -> Changes:
        """Release the queues of ``generations`` that the member owns."""
        given_up = set(generations)
        freed = tuple((key, owned.generation) for key, owned in self._owned(name) if owned.generation in given_up)
        for key, _ in freed:
            self._take(key)
        return self._rebalance()._replace(fenced=freed) if freed else Changes()

    def connection_lost(self, name: str, now_ns: int, grace_ns: int) -> None:
        """Start the grace period of a member, whose connection has ended."""
        member = self.members.get(name)
        if member is not None:
            member.is_connected = False
            member.until_ns = min(member.until_ns, now_ns + grace_ns)

    def end(self, names: Iterable[str]) -> Changes:
        """End the sessions of the members ``names``."""
        gone = {name: self.members.pop(name) for name in names if name in self.members}
        fenced = tuple((key, owned.generation) for name in gone for key, owned in self._owned(name))
        for key, _ in fenced:
            self._take(key)
        changes = self._rebalance()
        return Changes(changes.members, tuple(member.session for member in gone.values()), fenced)

    def end_overdue(self, now_ns: int) -> Changes:
        """End the sessions of members that were silent for too long."""
        has_gathered = self._gathers_until_ns is not None and self._gathers_until_ns <= now_ns
        if has_gathered:
            self._gathers_until_ns = None
        overdue = [member.name for member in self.members.values() if member.until_ns <= now_ns]
        return self.end(overdue) if overdue or has_gathered else Changes()

    def add_queue(self, key: QueueKey) -> Changes:
        """Add a queue."""
        if key in self._known:
            return Changes()
        self._queues += (key,)
        self._known |= {key}
        return self._rebalance()

    # Assignment -----------------------------------------------------------------------------------

    @property
    def queues(self) -> tuple[QueueKey, ...]:
        """All queues."""
        return self._queues

    @property
    def work(self) -> int:
        """The work of rebalancing: the number of queues and members."""
        return len(self._queues) + len(self.members)

    @property
    def next_end_ns(self) -> int | None:
        """The next time at which a session of a silent member ends, or gathering ends."""
        ends = [member.until_ns for member in self.members.values()]
        return min(ends if self._gathers_until_ns is None else [*ends, self._gathers_until_ns], default=None)

    def assigned(self, name: str) -> list[tuple[QueueKey, int]]:
        """Return the queues that a member reads, with their generations."""
        return [(key, owned.generation) for key, owned in self._owned(name) if self._targets.get(key) == name]

    def unwanted(self, name: str) -> list[int]:
        """Return the generations that a member must release for other members."""
        return [owned.generation for key, owned in self._owned(name) if self._targets.get(key) != name]

    def _owned(self, name: str) -> list[tuple[QueueKey, QueueOwner]]:
        return list(self._queues_of.get(name, {}).items())

    # ----------------------------------------------------------------------------------------------

    def _give(self, key: QueueKey, member: str) -> None:
        self.owners[key] = owner = QueueOwner(member, next(self._numbers))
        self._queues_of.setdefault(member, {})[key] = owner

    def _take(self, key: QueueKey) -> None:
        member = self.owners.pop(key).member
        del self._queues_of[member][key]
        if not self._queues_of[member]:
            del self._queues_of[member]

    def _rebalance(self) -> Changes:
        self.is_stale = self._budget is not None and not self._budget.take(self.work)
        return Changes() if self.is_stale else self.rebalance()

    def rebalance(self) -> Changes:
        """Compute the targets again, and assign free queues."""
        self.is_stale = False
        before, current = self._targets, {key: owned.member for key, owned in self.owners.items()}
        candidates = [Candidate(member.name, member.zone) for member in self.members.values()]
        if self._gathers_until_ns is None:
            self._targets = assign(
                self.strategy, self._queues, candidates, current, broker=self._broker, zone=self._zone
            )
        else:
            self._targets = current
        changed: set[str] = set()
        for key, member in self._targets.items():
            owner = current.get(key)
            if owner is None:
                self._give(key, member)
                changed.add(member)
            elif before.get(key) != member:
                changed.add(owner)  # it has to give the queue up, or may keep it after all
        for name in changed:
            self.members[name].version += 1
        return Changes(tuple(sorted(changed)))


def _merged(first: Changes, second: Changes) -> Changes:
    return Changes(
        tuple(sorted({*first.members, *second.members})), first.ended + second.ended, first.fenced + second.fenced
    )
