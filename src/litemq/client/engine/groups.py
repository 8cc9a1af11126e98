"""Groups, their members and offset resets, as immutable values."""

from __future__ import annotations

from typing import NamedTuple

__all__ = [
    "GroupDescription",
    "GroupJoin",
    "GroupQueue",
    "GroupSummary",
    "MemberInfo",
    "ResetInfo",
    "ResetPlan",
    "ResetStep",
]


class GroupSummary(NamedTuple):
    """A group in a list of groups."""

    group: str
    paused: bool
    members: int  # connected consumers in queue mode; consumers in lease mode are not counted
    lag: int  # messages that are not consumed
    topics: tuple[str, ...]


class GroupQueue(NamedTuple):
    """The progress of a group in one queue."""

    broker: str
    topic: str
    queue_id: int
    is_retry: bool  # the group's own queue of messages to retry
    committed: int  # all messages below it are consumed; -1: the group has not started here
    next: int  # the offset of the next message
    lag: int  # messages that are not consumed
    in_flight: int  # of those, the leased ones
    member: str  # the member that reads the queue; empty: none
    oldest: int  # when the oldest message of the lag was stored, in ms since 1970; 0: no lag
    lost: int = 0  # unread messages that retention has deleted
    lost_at: int = 0  # when it deleted the last of them, in ms since 1970; 0: never

    @property
    def ready(self) -> int:
        """Return the number of messages that can be delivered now."""
        return self.lag - self.in_flight


class MemberInfo(NamedTuple):
    """A consumer in queue mode, on one broker."""

    broker: str
    topic: str
    member: str
    peer: str
    queues: int
    zone: str
    is_connected: bool  # False: within the grace period after its connection was lost


class ResetInfo(NamedTuple):
    """A reset of a group's offsets."""

    reset_id: str
    at: int  # ms since 1970
    undoes: str  # the reset that this one undid; empty: none
    queues: int


class GroupDescription(NamedTuple):
    """A group on all brokers: its queues, members and resets."""

    group: str
    paused: bool
    queues: tuple[GroupQueue, ...]
    members: tuple[MemberInfo, ...]
    resets: tuple[ResetInfo, ...]
    waiting_tries: int  # failed messages that wait for their next attempt

    @property
    def lag(self) -> int:
        """Return the number of unconsumed messages, without those in ``waiting_tries``."""
        return sum(queue.lag for queue in self.queues)

    @property
    def lost(self) -> int:
        """Return the number of messages that retention deleted before the group read them."""
        return sum(queue.lost for queue in self.queues)

    @property
    def lost_at(self) -> int:
        """Return when it deleted the last of them, in ms since 1970; 0: never."""
        return max((queue.lost_at for queue in self.queues), default=0)


class ResetStep(NamedTuple):
    """The committed offset of one queue before and after a reset; -1: none."""

    broker: str
    queue_id: int
    before: int
    after: int
    next: int  # the offset of the next message


class ResetPlan(NamedTuple):
    """A reset of a group's offsets, planned or done. ``reset_id`` identifies it for an undo."""

    topic: str
    group: str
    reset_id: str
    steps: tuple[ResetStep, ...]
    members: int  # connected consumers: if there are any, the reset needs ``force``
    in_flight: int  # leased messages: if there are any, the reset needs ``force``

    @property
    def messages(self) -> int:
        """Return the number of messages to be delivered again (positive) or skipped (negative).

        Queues without an offset before or after the reset do not count.
        """
        return sum(step.before - step.after for step in self.steps if min(step.before, step.after) >= 0)


class GroupJoin(NamedTuple):
    """A consumer's membership of a group for one topic, as it joins."""

    topic: str
    group: str
    member: str
    session_timeout_ms: int
    strategy: str
    zone: str
