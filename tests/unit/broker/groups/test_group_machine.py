"""Members that join, leave, hang, lose their connections and answer late, in any order.

No message is lost, no queue has two owners, and the broker refuses a former owner (I1, I2, I4).
"""

from __future__ import annotations

from itertools import count

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from litemq.broker.groups.assignment import Strategy
from litemq.broker.groups.membership import Changes, Membership
from litemq.errors import NotGroupMemberError
from litemq.storage.state import QueueKey
from support.histories import is_deep

TIMEOUT, GRACE = 100, 20
NAMES = st.sampled_from(["a", "b", "c", "d"])
QUEUES = [QueueKey(16, queue_id) for queue_id in range(5)]


class Reader:
    """A member's own view: the queues that it believes it owns, its read and committed offsets."""

    def __init__(self, session: int) -> None:
        self.session = session
        self.owned: dict[QueueKey, tuple[int, int]] = {}  # generation, next offset to handle


class Groups(RuleBasedStateMachine):
    """The real ``Membership``, with one number per queue as log, and the broker's commit check."""

    @initialize(strategy=st.sampled_from([Strategy.AVERAGE, Strategy.CONSISTENT_HASH]))
    def begin(self, strategy: Strategy) -> None:
        self.now = 0
        self.strategy = strategy
        self.numbers = count(1)
        self.is_busy = False  # rebalancing is put off
        self.group = self._membership()
        self.readers: dict[str, Reader] = {}
        self.written = dict.fromkeys(QUEUES, 0)
        self.committed = dict.fromkeys(QUEUES, 0)
        self.handled: dict[QueueKey, set[int]] = {key: set() for key in QUEUES}
        self.generations: dict[int, tuple[QueueKey, str]] = {}

    def _membership(self) -> Membership:
        return Membership(QUEUES, self.numbers, budget=self)

    def take(self, work: int) -> bool:
        """Act as the budget of rebalancing."""
        assert work >= len(QUEUES)
        return not self.is_busy

    def _check(self, before: dict[QueueKey, int], changes: Changes) -> None:
        """Check that kept queues keep their generation; only changed members hear of a change."""
        after = {key: owned.generation for key, owned in self.group.owners.items()}
        fenced = {generation for _, generation in changes.fenced}
        for key, generation in before.items():
            assert after.get(key) == generation or generation in fenced

    def _owners(self) -> dict[QueueKey, int]:
        return {key: owned.generation for key, owned in self.group.owners.items()}

    @rule(queue=st.sampled_from(QUEUES), messages=st.integers(1, 3))
    def send(self, queue: QueueKey, messages: int) -> None:
        self.written[queue] += messages

    @rule(name=NAMES, comes_back=st.booleans())
    def join(self, name: str, comes_back: bool) -> None:
        before = self._owners()
        known = self.readers.get(name)
        held = list(known.owned) if known is not None and comes_back else []
        self._check(before, self.group.join(name, self.now, TIMEOUT, strategy=self.strategy, held=held, gather_ns=30))
        session = self.group.members[name].session
        if known is None or known.session != session:
            self.readers[name] = Reader(session)
        self.hear(name)

    def hear(self, name: str) -> None:
        """Give a member its assignment: it starts new queues and drops those of others."""
        reader = self.readers[name]
        assigned = dict(self.group.assigned(name))
        unwanted = set(self.group.unwanted(name))
        reader.owned = {
            key: owned for key, owned in reader.owned.items() if assigned.get(key) == owned[0] or owned[0] in unwanted
        }
        for key, generation in assigned.items():
            if key not in reader.owned:
                reader.owned[key] = (generation, self.committed[key])

    def _alive(self, name: str) -> bool:
        reader = self.readers.get(name)
        if reader is None:
            return False
        try:
            self.group.renew_session(name, reader.session, self.now)
        except NotGroupMemberError:
            del self.readers[name]  # it begins again
            return False
        return True

    @rule(name=NAMES)
    def heartbeat(self, name: str) -> None:
        if self._alive(name):
            self.hear(name)

    @rule(name=NAMES, queue=st.sampled_from(QUEUES))
    def handle(self, name: str, queue: QueueKey) -> None:
        """Handle the next message of a queue that the member believes to own."""
        reader = self.readers.get(name)
        if reader is not None and queue in reader.owned:
            generation, offset = reader.owned[queue]
            if offset < self.written[queue]:
                self.handled[queue].add(offset)
                reader.owned[queue] = (generation, offset + 1)

    @rule(name=NAMES, queue=st.sampled_from(QUEUES))
    def commit(self, name: str, queue: QueueKey) -> None:
        """Commit; a late commit is refused."""
        reader = self.readers.get(name)
        if reader is None or queue not in reader.owned:
            return
        generation, offset = reader.owned[queue]
        owned = self.group.owners.get(queue)
        if owned is not None and owned.generation == generation:
            assert owned.member == name
            assert offset >= self.committed[queue], "only a former owner knows less than the group"
            self.committed[queue] = offset

    @rule(name=NAMES, generations=st.booleans())
    def release(self, name: str, generations: bool) -> None:
        if not self._alive(name):
            return
        reader, before = self.readers[name], self._owners()
        unwanted = self.group.unwanted(name)
        if not generations:
            unwanted = unwanted[:1]
        for key, (generation, offset) in list(reader.owned.items()):
            if generation in unwanted:
                self.committed[key] = max(self.committed[key], offset)
                del reader.owned[key]
        self._check(before, self.group.release(name, unwanted))

    @rule(name=NAMES)
    def leave(self, name: str) -> None:
        before = self._owners()
        self._check(before, self.group.end([name]))
        self.readers.pop(name, None)

    @rule(name=NAMES, forgets=st.booleans())
    def lose_connection(self, name: str, forgets: bool) -> None:
        """End the connection of a member that was killed or cut off."""
        self.group.connection_lost(name, self.now, GRACE)
        if forgets:
            self.readers.pop(name, None)

    @rule(passed=st.integers(1, 60))
    def time_passes(self, passed: int) -> None:
        before = self._owners()
        self.now += passed
        changes = self.group.end_overdue(self.now)
        self._check(before, changes)
        assert all(member.until_ns > self.now for member in self.group.members.values())

    @rule()
    def broker_restarts(self) -> None:
        """Restart the broker: it forgets members, not offsets; members notice at a request."""
        self.group = self._membership()

    @rule(is_busy=st.booleans())
    def turn_busy(self, is_busy: bool) -> None:
        self.is_busy = is_busy

    @rule()
    def rebalance_later(self) -> None:
        if self.group.is_stale:
            self._check(self._owners(), self.group.rebalance())

    @precondition(lambda self: self.group.members)
    @rule()
    def all_is_handled_in_the_end(self) -> None:
        """Once the members are stable, they handle every message and share the queues evenly."""
        self.now += 1_000_000
        self.is_busy = False
        self.rebalance_later()
        self.group.end_overdue(self.now)
        for name in ("a", "b"):
            self.readers.pop(name, None)
            self.group.join(name, self.now, TIMEOUT, strategy=self.strategy)
            self.readers[name] = Reader(self.group.members[name].session)
        for _ in range(4):
            for name in list(self.group.members):
                self.hear(name)
                for queue in QUEUES:
                    while (
                        queue in self.readers[name].owned and self.readers[name].owned[queue][1] < self.written[queue]
                    ):
                        self.handle(name, queue)
                    self.commit(name, queue)
                self.release(name, True)
        assert self.committed == self.written
        assert all(self.handled[queue] == set(range(self.written[queue])) for queue in QUEUES)
        if self.strategy is Strategy.AVERAGE:
            shares = sorted(len(self.group.assigned(name)) for name in self.group.members)
            assert shares[-1] - shares[0] <= 1

    @invariant()
    def generations_are_never_used_twice(self) -> None:
        if not hasattr(self, "group"):
            return
        for key, owned in self.group.owners.items():
            assert owned.member in self.group.members
            assert self.generations.setdefault(owned.generation, (key, owned.member)) == (key, owned.member)

    @invariant()
    def nothing_is_committed_that_was_not_handled(self) -> None:
        if hasattr(self, "group"):
            for queue in QUEUES:
                assert self.handled[queue] >= set(range(self.committed[queue]))


TestGroups = Groups.TestCase
TestGroups.settings = settings(max_examples=800 if is_deep() else 240, stateful_step_count=30, deadline=None)
