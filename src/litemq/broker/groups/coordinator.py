"""Groups: who reads a topic for a group, and how far the group has come.

What happens to members is decided by ``Membership``; here are their connections, the heartbeats that wait for something new, and the time at
which the next session ends. Offsets are the store's: they outlive members and brokers.
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
from litemq.broker.runtime.caller import Caller
from litemq.broker.runtime.context import BrokerContext
from litemq.broker.runtime.queue_events import QueueListener
from litemq.clock import Clock
from litemq.errors import InvalidArgumentError, LiteMQError, NotGroupMemberError, OverloadedError
from litemq.storage.state import QueueKey, TopicFacts
from litemq.storage.store import Appended
from litemq.types import check_name

__all__ = ["Groups", "Heartbeat", "Place"]

_LATE_NS: Final = 200_000_000
_RETRY_AFTER_MS: Final = 1_000
_LOG = logging.getLogger(__name__)


class Place(NamedTuple):
    """A group and a topic that it reads."""

    group: str
    topic_id: int


class Heartbeat(Protocol):
    """A member's heartbeat, which knows how to answer itself."""

    @property
    def caller(self) -> Caller: ...

    @property
    def place(self) -> Place: ...

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


class _Waiting:
    """A heartbeat that has not been answered yet."""

    __slots__ = ("heartbeat", "timer")

    def __init__(self, heartbeat: Heartbeat, timer: asyncio.TimerHandle) -> None:
        self.heartbeat = heartbeat
        self.timer = timer


class Groups(QueueListener):
    """The members that are connected now, on the event loop that is running when it is made."""

    def __init__(
        self,
        context: BrokerContext,
        *,
        clock: Clock | None = None,
        broker: str = "",
        zone: str = "",
    ) -> None:
        """``clock`` measures the silence of members, if it is another than the broker's."""
        self._store = context.store
        self._clock = clock = clock or context.clock
        self._limits = context.limits
        self._events = context.events
        self._broker = broker
        self._zone = zone
        self._loop = asyncio.get_running_loop()
        self._places: dict[Place, Membership] = {}
        self._callers: dict[int, Caller] = {}  # of sessions
        self._of_caller: dict[Caller, dict[tuple[Place, str], int]] = defaultdict(dict)
        self._waiting: dict[int, _Waiting] = {}
        self._numbers = count(clock.wall_ms() << 20)  # no number of an earlier life comes again
        self._timer: asyncio.TimerHandle | None = None
        self._timer_ns = 0
        self._is_late = False

    def members(self, place: Place) -> Membership | None:
        """Those who read a topic for a group, if there are any."""
        return self._places.get(place)

    @property
    def places(self) -> Iterator[Place]:
        """All groups with members, and what they read."""
        return iter(self._places)

    def caller_of(self, member: Member) -> Caller | None:
        """A member's connection, if it has one now."""
        return self._callers.get(member.session)

    # Coming, staying, going ---------------------------------------------------------------------------------------------------

    def join(
        self,
        caller: Caller,
        group: str,
        topic: TopicFacts,
        name: str = "",
        timeout_ms: int = 0,
        strategy: str = "",
        zone: str = "",
        held: Sequence[QueueKey] = (),
    ) -> tuple[Membership, Member]:
        """Make a caller a member of the group for a topic. One that comes back in time has what it had, or what it ``held`` before."""
        check_name(group, "group")
        name = name or caller.client_id
        limits = self._limits
        if len(name) > limits.max_member_chars or len(zone) > limits.max_member_chars:
            raise InvalidArgumentError(f"names of members and zones have at most {limits.max_member_chars} characters")
        timeout_ms = timeout_ms or limits.session_timeout_ms
        least, most = limits.min_session_timeout_ms, limits.max_session_timeout_ms
        if not least <= timeout_ms <= most:
            raise InvalidArgumentError(f"session_timeout_ms={timeout_ms}: this broker takes {least} … {most}")
        try:
            chosen = Strategy(strategy or Strategy.AVERAGE)
        except ValueError:
            raise InvalidArgumentError(f"assignment={strategy!r}: choose one of {', '.join(Strategy)}") from None
        place = Place(group, topic.topic_id)
        membership = self._places.get(place)
        if membership is None:
            membership = Membership(self._queues(group, topic), self._numbers, broker=self._broker, zone=self._zone)
        there, of_caller = len(membership.members), len(self._of_caller.get(caller, ()))
        if name not in membership.members and (there >= limits.max_group_members or of_caller >= limits.max_memberships):
            raise OverloadedError(
                f"group {group!r} has {there} members for {topic.name!r}, this client is a member {of_caller} times: "
                "that is as many as this broker takes",
                _RETRY_AFTER_MS,
            )
        now = self._clock.elapsed_ns()
        gather = limits.gather_ms * 1_000_000
        changes = membership.join(name, now, timeout_ms * 1_000_000, strategy=chosen, zone=zone, held=held, gather_ns=gather)
        self._places[place] = membership
        member = membership.members[name]
        former = self._callers.get(member.session)
        if former is not None and former is not caller:
            self._of_caller[former].pop((place, name), None)
        self._callers[member.session] = caller
        self._of_caller[caller][place, name] = member.session
        self._tell(place, membership, changes)
        self._arm(membership.next_end_ns or now)
        return membership, member

    def heartbeat(self, heartbeat: Heartbeat) -> None:
        """A member is there. It is answered when its assignment is another than the version that it knows, or when it has waited."""
        session = heartbeat.session
        _, member = self._member(heartbeat.caller, heartbeat.place, heartbeat.member, session)
        self._answer_waiting(session)
        if member.version != heartbeat.version:
            heartbeat.answer()
            return
        # A member that is silent while it waits would be taken for dead.
        wait_s = min(heartbeat.wait_ms / 1000, member.timeout_ns / 3e9)
        timer = self._loop.call_later(wait_s, self._answer_waiting, session)
        self._waiting[session] = _Waiting(heartbeat, timer)

    def release(self, caller: Caller, place: Place, name: str, session: int, generations: Iterable[int]) -> None:
        """A member gives up queues that it was asked for."""
        membership, member = self._member(caller, place, name, session)
        self._tell(place, membership, membership.release(member.name, generations))

    def leave(self, caller: Caller, place: Place, name: str = "") -> None:
        """Give a place back; nothing happens where there is none."""
        name = name or caller.client_id
        membership = self._places.get(place)
        member = None if membership is None else membership.members.get(name)
        if membership is not None and member is not None and self._callers.get(member.session) is caller:
            self._tell(place, membership, membership.end([name]))

    def caller_gone(self, caller: Caller) -> None:
        """A caller's connection has ended: its members have a moment to come back."""
        now, grace = self._clock.elapsed_ns(), self._limits.reconnect_grace_ms * 1_000_000
        for (place, name), session in self._of_caller.pop(caller, {}).items():
            self._callers.pop(session, None)
            waiting = self._waiting.pop(session, None)
            if waiting is not None:
                waiting.timer.cancel()
            membership = self._places.get(place)
            if membership is not None and name in membership.members:
                membership.lost(name, now, grace)
                self._arm(membership.members[name].until_ns)

    def end_all(self, place: Place) -> None:
        """Fence everybody who reads a topic for a group: they have to join again."""
        membership = self._places.get(place)
        if membership is not None:
            self._tell(place, membership, membership.end(list(membership.members)))

    def end_overdue(self) -> None:
        """End the sessions of all who were silent for too long; by itself, this happens when it is time."""
        now = self._clock.elapsed_ns()
        for place, membership in list(self._places.items()):
            changes = membership.end_overdue(now)
            if changes.ended:
                _LOG.info("group %s lost %d of its members: they were silent, or their connections ended", place.group, len(changes.ended))
            self._tell(place, membership, changes)

    # What members may do ------------------------------------------------------------------------------------------------------

    def check_owner(self, caller: Caller, group: str, topic_id: int, key: QueueKey, generation: int = 0) -> None:
        """Raises unless this caller has the queue for the group, by this generation if it names one. Whoever asks is alive."""
        membership = self._places.get(Place(group, topic_id))
        owned = None if membership is None else membership.owners.get(key)
        if membership is not None and owned is not None and generation in (0, owned.generation):
            member = membership.members[owned.member]
            if self._callers.get(member.session) is caller:
                member.until_ns = self._clock.elapsed_ns() + member.timeout_ns
                return
        raise NotGroupMemberError(
            f"this client does not have queue {key.queue_id} for group {group!r}: it never joined, was silent for too long, or gave it up"
        )

    def commit(self, caller: Caller, group: str, topic_id: int, offsets: Iterable[tuple[QueueKey, int, int]]) -> Appended:
        """How far the group has come, as (queue, offset, generation): everything below is done."""
        pairs = []
        for key, offset, generation in offsets:
            self.check_owner(caller, group, topic_id, key, generation)
            pairs.append((key, offset))
        return self._store.commit_offsets(group, pairs)

    def committed(self, group: str, key: QueueKey) -> int:
        """The group's offset in a queue; −1, if there is none."""
        return self._store.state.group_offsets.get((group, key), -1)

    def retry_key(self, group: str, topic_id: int) -> QueueKey | None:
        """The group's retry queue of a topic, where there is one."""
        topic = self._store.state.topic(f"%RETRY%{group}")
        return None if topic is None else QueueKey(topic.topic_id, topic_id)

    def key_of(self, group: str, topic: TopicFacts, queue_id: int, *, is_retry: bool) -> QueueKey:
        """The queue that a request means: one of the topic, or the group's retry queue of it."""
        if not is_retry:
            return QueueKey(topic.topic_id, queue_id)
        key = self.retry_key(group, topic.topic_id)
        if key is None:
            raise InvalidArgumentError(f"group {group!r} has no retry queue for {topic.name!r}")
        return key

    def on_retry_placed(self, group: str, key: QueueKey, end: int) -> None:  # noqa: ARG002
        # It may be the first message of this retry queue: a member has to own the queue.
        place = Place(group, key.queue_id)  # the queue has the topic's number
        membership = self._places.get(place)
        if membership is not None:
            self._tell(place, membership, membership.add_queue(key))

    # ---------------------------------------------------------------------------------------------------------------------------

    def _queues(self, group: str, topic: TopicFacts) -> list[QueueKey]:
        keys = [QueueKey(topic.topic_id, queue_id) for queue_id in range(topic.queues)]
        retry = self.retry_key(group, topic.topic_id)
        return keys if retry is None else [*keys, retry]

    def _member(self, caller: Caller, place: Place, name: str, session: int) -> tuple[Membership, Member]:
        membership = self._places.get(place)
        if membership is None or self._callers.get(session) is not caller:
            raise NotGroupMemberError(f"this client is no member of group {place.group!r}, or no longer: join again")
        return membership, membership.heard(name or caller.client_id, session, self._clock.elapsed_ns())

    def _tell(self, place: Place, membership: Membership, changes: Changes) -> None:
        for key, generation in changes.fenced:
            self._events.on_owner_lost(key, generation)
        for session in changes.ended:
            caller = self._callers.pop(session, None)
            if caller is not None:
                memberships = self._of_caller[caller]
                for known in [known for known, number in memberships.items() if number == session]:
                    del memberships[known]
            waiting = self._waiting.pop(session, None)
            if waiting is not None:
                waiting.timer.cancel()
                waiting.heartbeat.refuse(NotGroupMemberError("this member's session has ended: join again"))
        if not membership.members:
            self._places.pop(place, None)
        for name in changes.members:
            self._answer_waiting(membership.members[name].session)

    def _answer_waiting(self, session: int) -> None:
        waiting = self._waiting.pop(session, None)
        if waiting is not None:
            waiting.timer.cancel()
            waiting.heartbeat.answer()

    # The time at which the next session ends ---------------------------------------------------------------------------------------

    def _arm(self, until_ns: int) -> None:
        if self._timer is not None:
            if self._timer_ns <= until_ns:
                return  # heartbeats put ends off all the time: it is looked again then
            self._timer.cancel()
        self._timer_ns = until_ns
        self._timer = self._loop.call_later(max(0.0, (until_ns - self._clock.elapsed_ns()) / 1e9) + 0.001, self._look)

    def _look(self) -> None:
        self._timer = None
        # Silence counts only while this side listened: if it did not, what members said in between is read first.
        if not self._is_late and self._clock.elapsed_ns() - self._timer_ns > _LATE_NS:
            self._is_late = True
            self._arm(self._clock.elapsed_ns() + _LATE_NS)
            return
        self._is_late = False
        self.end_overdue()
        ends = [end for membership in self._places.values() if (end := membership.next_end_ns) is not None]
        if ends:
            self._arm(min(ends))

    def close(self) -> None:
        """Answer those who wait; nothing ends any more."""
        if self._timer is not None:
            self._timer.cancel()
        for session in list(self._waiting):
            self._answer_waiting(session)
