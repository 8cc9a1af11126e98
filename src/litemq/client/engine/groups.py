"""What is told of groups, in plain values."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["GroupDescription", "GroupQueue", "GroupSummary", "Joining", "MemberFact", "ResetFact", "ResetPlan", "ResetStep"]


class GroupSummary(NamedTuple):
    """A group among others."""

    group: str
    paused: bool
    members: int  # consumers in queue mode that are connected; those that lease messages are not counted
    lag: int  # messages that are not done
    topics: tuple[str, ...]


class GroupQueue(NamedTuple):
    """How far a group has come in one queue."""

    broker: str
    topic: str
    queue_id: int
    is_retry: bool  # the group's own queue of messages that are tried again
    committed: int  # everything below is done; -1: the group has not begun here
    next: int
    lag: int  # messages that are not done
    in_flight: int  # of those, the ones that are leased now
    member: str  # who reads it; empty: nobody
    oldest: int  # when the oldest of them was stored, in ms since 1970; 0: there is none

    @property
    def ready(self) -> int:
        """Those that can be had at once."""
        return self.lag - self.in_flight


class MemberFact(NamedTuple):
    """A consumer in queue mode, on one broker."""

    broker: str
    topic: str
    member: str
    peer: str
    queues: int
    zone: str
    is_connected: bool  # or has just lost its connection, and a moment to come back


class ResetFact(NamedTuple):
    """A time that somebody set a group's offsets."""

    reset_id: str
    at: int  # ms since 1970
    undoes: str  # the reset that this one took back
    queues: int


class GroupDescription(NamedTuple):
    """Everything that is known about a group."""

    group: str
    paused: bool
    queues: tuple[GroupQueue, ...]
    members: tuple[MemberFact, ...]
    resets: tuple[ResetFact, ...]
    waiting_tries: int  # messages that failed, and are tried again when it is time

    @property
    def lag(self) -> int:
        """Messages that are not done, those that wait for another try apart."""
        return sum(queue.lag for queue in self.queues)


class ResetStep(NamedTuple):
    """One queue's offset, before and after; -1: none."""

    broker: str
    queue_id: int
    before: int
    after: int
    next: int


class ResetPlan(NamedTuple):
    """What setting a group's offsets does, or did. ``reset_id`` is what it is undone by."""

    topic: str
    group: str
    reset_id: str
    steps: tuple[ResetStep, ...]
    members: int  # consumers that are connected: while there are any, it has to be forced
    in_flight: int  # messages that are leased: the same

    @property
    def messages(self) -> int:
        """How many come again (above 0), or are left out (below 0); a group that had not begun counts from where it is set to."""
        return sum(step.before - step.after for step in self.steps if min(step.before, step.after) >= 0)


class Joining(NamedTuple):
    """How one joins."""

    topic: str
    group: str
    member: str
    session_timeout_ms: int
    strategy: str
    zone: str
