"""The group coordinator: members of groups, their connections and heartbeats, and committed
offsets.

``Membership`` decides about members and queues. The coordinator knows their connections, the
heartbeats that wait for a new assignment, and the time at which the next session ends. The store
has the offsets, so they outlive members and brokers.
"""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import count
from typing import Final, NamedTuple, Protocol

from litemq.broker.groups.assignment import Strategy
from litemq.broker.groups.membership import Changes, Member, Membership
from litemq.broker.groups.rebalance_budget import RebalanceBudget
from litemq.broker.runtime.caller import Caller
from litemq.broker.runtime.context import BrokerContext
from litemq.broker.runtime.queue_events import QueueListener
from litemq.clock import Clock
from litemq.errors import InvalidArgumentError, LiteMQError, NotGroupMemberError, OverloadedError
from litemq.storage.state import QueueKey, Topic
from litemq.storage.store import Appended
from litemq.types import check_name

__all__ = ["GroupCoordinator", "GroupTopic", "Heartbeat"]

_LATE_NS: Final = 200_000_000  # the event loop stood still if a timer fires this late
_RETRY_AFTER_MS: Final = 1_000
_LOG = logging.getLogger(__name__)


class GroupTopic(NamedTuple):
    """A group and a topic that it reads."""

    group: str
    topic_id: int


class Heartbeat(Protocol):
    """A member's heartbeat, which knows how to answer itself."""

    @property
    def caller(self) -> Caller: ...

    @property
    def group_topic(self) -> GroupTopic: ...

    @property
    def member(self) -> str: ...

    @property
    def session(self) -> int: ...

    @property
    def version(self) -> int:
        """The version of the assignment that the member knows."""
        ...

    @property
    def wait_ms(self) -> int:
        """How long the member waits for another version."""
        ...

    def answer(self) -> None:
        """Answer with the member's assignment, if it is new."""
        ...

    def refuse(self, error: LiteMQError) -> None: ...


class _WaitingHeartbeat:
    """A heartbeat that has not been answered yet."""

    __slots__ = ("heartbeat", "timer")

    def __init__(self, heartbeat: Heartbeat, timer: asyncio.TimerHandle) -> None:
        self.heartbeat = heartbeat
        self.timer = timer


class GroupCoordinator(QueueListener):
    """The members of all groups, on the event loop that is running when it is created."""

    def __init__(
        self,
        context: BrokerContext,
        *,
        clock: Clock | None = None,
        broker: str = "",
        zone: str = "",
    ) -> None:
        """``clock`` measures the silence of members; default: the broker's clock."""
        self._store = context.store
        self._clock = clock = clock or context.clock
        self._limits = context.limits
        self._events = context.events
        self._broker = broker
        self._zone = zone
        self._loop = asyncio.get_running_loop()
        self._memberships: dict[GroupTopic, Membership] = {}
        self._callers: dict[int, Caller] = {}  # by session
        self._caller_sessions: dict[Caller, dict[tuple[GroupTopic, str], int]] = defaultdict(dict)
        self._waiting: dict[int, _WaitingHeartbeat] = {}
        self._numbers = count(clock.wall_ms() << 20)  # never repeats a number, also after a restart
        self._timer: asyncio.TimerHandle | None = None
        self._timer_ns = 0
        self._budget = RebalanceBudget(clock)
        self._stale: dict[GroupTopic, None] = {}  # to be rebalanced, in this order
        self._rebalance_timer: asyncio.TimerHandle | None = None
        self._is_late = False  # the timer fired late, and was set again to let members be heard

    def membership(self, group_topic: GroupTopic) -> Membership | None:
        """Return the membership of a group for a topic; ``None`` if it has no members."""
        return self._memberships.get(group_topic)

    @property
    def group_topics(self) -> Iterator[GroupTopic]:
        """All groups with members, and the topics that they read."""
        return iter(self._memberships)

    def find_caller(self, member: Member) -> Caller | None:
        """Return the connection of ``member``, if it has one."""
        return self._callers.get(member.session)

    # Sessions -------------------------------------------------------------------------------------

    def join(
        self,
        caller: Caller,
        group: str,
        topic: Topic,
        name: str = "",
        timeout_ms: int = 0,
        strategy: str = "",
        zone: str = "",
        held: Sequence[QueueKey] = (),
    ) -> tuple[Membership, Member]:
        """Add the caller to the group as the member ``name``.

        If it rejoins within the grace period, it keeps its queues. After a broker restart, it
        reclaims the queues in ``held``.
        """
        check_name(group, "group")
        name = name or caller.client_id
        limits = self._limits
        if len(name) > limits.max_member_chars or len(zone) > limits.max_member_chars:
            raise InvalidArgumentError(
                f"the name of the member or its zone is too long: use at most {limits.max_member_chars} characters"
            )
        timeout_ms = timeout_ms or limits.session_timeout_ms
        shortest, longest = limits.min_session_timeout_ms, limits.max_session_timeout_ms
        if not shortest <= timeout_ms <= longest:
            raise InvalidArgumentError(f"session_timeout_ms={timeout_ms}: choose {shortest} … {longest}")
        try:
            chosen = Strategy(strategy or Strategy.AVERAGE)
        except ValueError:
            raise InvalidArgumentError(f"assignment={strategy!r}: choose one of {', '.join(Strategy)}") from None
        group_topic = GroupTopic(group, topic.topic_id)
        membership = self._memberships.get(group_topic)
        if membership is None:
            membership = Membership(
                self._queues(group, topic),
                self._numbers,
                broker=self._broker,
                zone=self._zone,
                budget=self._budget,
            )
        members, memberships = len(membership.members), len(self._caller_sessions.get(caller, ()))
        if name not in membership.members and (
            members >= limits.max_group_members or memberships >= limits.max_memberships
        ):
            raise OverloadedError(
                f"too many members: group {group!r} has {members} members for topic {topic.name!r} (limit "
                f"{limits.max_group_members}), this client has {memberships} memberships (limit "
                f"{limits.max_memberships}). "
                "Stop some consumers",
                _RETRY_AFTER_MS,
            )
        now = self._clock.elapsed_ns()
        gather = limits.gather_ms * 1_000_000
        changes = membership.join(
            name, now, timeout_ms * 1_000_000, strategy=chosen, zone=zone, held=held, gather_ns=gather
        )
        self._memberships[group_topic] = membership
        member = membership.members[name]
        former = self._callers.get(member.session)
        if former is not None and former is not caller:
            self._caller_sessions[former].pop((group_topic, name), None)
        self._callers[member.session] = caller
        self._caller_sessions[caller][group_topic, name] = member.session
        self._publish(group_topic, membership, changes)
        self._arm(membership.next_end_ns or now)
        return membership, member

    def heartbeat(self, heartbeat: Heartbeat) -> None:
        """Renew a session.

        Answer when the member's assignment differs from its ``version``, or when its wait time
        ends.
        """
        session = heartbeat.session
        _, member = self._member(heartbeat.caller, heartbeat.group_topic, heartbeat.member, session)
        self._answer_waiting(session)
        if member.version != heartbeat.version:
            heartbeat.answer()
            return
        # A member that is silent while it waits would be taken for dead.
        wait_s = min(heartbeat.wait_ms / 1000, member.timeout_ns / 3e9)
        timer = self._loop.call_later(wait_s, self._answer_waiting, session)
        self._waiting[session] = _WaitingHeartbeat(heartbeat, timer)

    def release(
        self, caller: Caller, group_topic: GroupTopic, name: str, session: int, generations: Iterable[int]
    ) -> None:
        """Release the queues of ``generations``, which the member was asked to give up."""
        membership, member = self._member(caller, group_topic, name, session)
        self._publish(group_topic, membership, membership.release(member.name, generations))

    def leave(self, caller: Caller, group_topic: GroupTopic, name: str = "") -> None:
        """End the session of a member, if it has one."""
        name = name or caller.client_id
        membership = self._memberships.get(group_topic)
        member = None if membership is None else membership.members.get(name)
        if membership is not None and member is not None and self._callers.get(member.session) is caller:
            self._publish(group_topic, membership, membership.end([name]))

    def caller_gone(self, caller: Caller) -> None:
        """Start the grace period of the members of ``caller``, whose connection has ended."""
        now, grace = self._clock.elapsed_ns(), self._limits.reconnect_grace_ms * 1_000_000
        for (group_topic, name), session in self._caller_sessions.pop(caller, {}).items():
            self._callers.pop(session, None)
            waiting = self._waiting.pop(session, None)
            if waiting is not None:
                waiting.timer.cancel()
            membership = self._memberships.get(group_topic)
            if membership is not None and name in membership.members:
                membership.connection_lost(name, now, grace)
                self._arm(membership.members[name].until_ns)

    def end_all(self, group_topic: GroupTopic) -> None:
        """End the sessions of all members of a group for a topic: they have to join again."""
        membership = self._memberships.get(group_topic)
        if membership is not None:
            self._publish(group_topic, membership, membership.end(list(membership.members)))

    def end_overdue(self) -> None:
        """End the sessions of members that were silent for too long. A timer calls it."""
        now = self._clock.elapsed_ns()
        for group_topic, membership in list(self._memberships.items()):
            changes = membership.end_overdue(now)
            if changes.ended:
                _LOG.info(
                    "group %s lost %d members: their sessions expired, or their connections ended",
                    group_topic.group,
                    len(changes.ended),
                )
            self._publish(group_topic, membership, changes)

    # Offsets --------------------------------------------------------------------------------------

    def check_owner(self, caller: Caller, group: str, topic_id: int, key: QueueKey, generation: int = 0) -> None:
        """Raise unless ``caller`` owns the queue for the group, with ``generation`` if it is not 0.

        Renews the session.
        """
        membership = self._memberships.get(GroupTopic(group, topic_id))
        owned = None if membership is None else membership.owners.get(key)
        if membership is not None and owned is not None and generation in (0, owned.generation):
            member = membership.members[owned.member]
            if self._callers.get(member.session) is caller:
                member.until_ns = self._clock.elapsed_ns() + member.timeout_ns
                return
        raise NotGroupMemberError(
            f"this client does not own queue {key.queue_id} for group {group!r}: it never joined, its session has "
            "expired, or it has released the queue. Join again"
        )

    def commit(
        self, caller: Caller, group: str, topic_id: int, offsets: Iterable[tuple[QueueKey, int, int]]
    ) -> Appended:
        """Commit ``offsets``, as (queue, offset, generation).

        All messages below an offset are done.
        """
        pairs = []
        for key, offset, generation in offsets:
            self.check_owner(caller, group, topic_id, key, generation)
            pairs.append((key, offset))
        return self._store.commit_offsets(group, pairs)

    def committed(self, group: str, key: QueueKey) -> int:
        """Return the group's offset in a queue; −1 if it has none."""
        return self._store.state.group_offsets.get((group, key), -1)

    def retry_key(self, group: str, topic_id: int) -> QueueKey | None:
        """Return the group's retry queue of a topic, if there is one."""
        topic = self._store.state.topic(f"%RETRY%{group}")
        return None if topic is None else QueueKey(topic.topic_id, topic_id)

    def queue_key(self, group: str, topic: Topic, queue_id: int, *, is_retry: bool) -> QueueKey:
        """Return the queue that a request names: one of the topic, or the group's retry queue."""
        if not is_retry:
            return QueueKey(topic.topic_id, queue_id)
        key = self.retry_key(group, topic.topic_id)
        if key is None:
            raise InvalidArgumentError(f"group {group!r} has no retry queue for topic {topic.name!r}")
        return key

    def on_retry_placed(self, group: str, key: QueueKey, end: int) -> None:  # noqa: ARG002
        # It may be the first message of this retry queue: a member has to own the queue.
        group_topic = GroupTopic(group, key.queue_id)  # the queue id of a retry queue is its topic's id
        membership = self._memberships.get(group_topic)
        if membership is not None:
            self._publish(group_topic, membership, membership.add_queue(key))

    # ----------------------------------------------------------------------------------------------

    def _queues(self, group: str, topic: Topic) -> list[QueueKey]:
        keys = [QueueKey(topic.topic_id, queue_id) for queue_id in range(topic.queues)]
        retry = self.retry_key(group, topic.topic_id)
        return keys if retry is None else [*keys, retry]

    def _member(self, caller: Caller, group_topic: GroupTopic, name: str, session: int) -> tuple[Membership, Member]:
        membership = self._memberships.get(group_topic)
        if membership is None or self._callers.get(session) is not caller:
            raise NotGroupMemberError(
                f"this client is not, or no longer, a member of group {group_topic.group!r}: join again"
            )
        return membership, membership.renew_session(name or caller.client_id, session, self._clock.elapsed_ns())

    def _publish(self, group_topic: GroupTopic, membership: Membership, changes: Changes) -> None:
        for key, generation in changes.fenced:
            self._events.on_owner_lost(key, generation)
        for session in changes.ended:
            caller = self._callers.pop(session, None)
            if caller is not None:
                memberships = self._caller_sessions[caller]
                for known in [known for known, number in memberships.items() if number == session]:
                    del memberships[known]
            waiting = self._waiting.pop(session, None)
            if waiting is not None:
                waiting.timer.cancel()
                waiting.heartbeat.refuse(NotGroupMemberError("this member's session has ended: join again"))
        if not membership.members:
            self._memberships.pop(group_topic, None)
        elif membership.is_stale:
            self._stale[group_topic] = None
            if self._rebalance_timer is None:
                self._rebalance_later()
        for name in changes.members:
            self._answer_waiting(membership.members[name].session)

    def _answer_waiting(self, session: int) -> None:
        waiting = self._waiting.pop(session, None)
        if waiting is not None:
            waiting.timer.cancel()
            waiting.heartbeat.answer()

    # Rebalancing that was put off -----------------------------------------------------------------

    def _rebalance_later(self) -> None:
        wait_s = self._budget.wait_ns() / 1e9
        self._rebalance_timer = self._loop.call_later(wait_s, self._rebalance_stale)

    def _rebalance_stale(self) -> None:
        """Rebalance the memberships that had to wait, oldest first, while the budget lasts."""
        self._rebalance_timer = None
        while self._stale:
            group_topic = next(iter(self._stale))
            membership = self._memberships.get(group_topic)
            if membership is not None and membership.is_stale:
                if not self._budget.take(membership.work):
                    self._rebalance_later()
                    return
                self._publish(group_topic, membership, membership.rebalance())
            del self._stale[group_topic]

    # The time at which the next session ends ------------------------------------------------------

    def _arm(self, until_ns: int) -> None:
        if self._timer is not None:
            if self._timer_ns <= until_ns:
                return  # the timer fires earlier, and computes the next end then
            self._timer.cancel()
        self._timer_ns = until_ns
        self._timer = self._loop.call_later(
            max(0.0, (until_ns - self._clock.elapsed_ns()) / 1e9) + 0.001, self._check_sessions
        )

    def _check_sessions(self) -> None:
        self._timer = None
        # If the event loop stood still, requests of members may be unread: read them first.
        if not self._is_late and self._clock.elapsed_ns() - self._timer_ns > _LATE_NS:
            self._is_late = True
            self._arm(self._clock.elapsed_ns() + _LATE_NS)
            return
        self._is_late = False
        self.end_overdue()
        ends = [end for membership in self._memberships.values() if (end := membership.next_end_ns) is not None]
        if ends:
            self._arm(min(ends))

    def close(self) -> None:
        """Answer the waiting heartbeats; no session ends any more."""
        for timer in (self._timer, self._rebalance_timer):
            if timer is not None:
                timer.cancel()
        for session in list(self._waiting):
            self._answer_waiting(session)
