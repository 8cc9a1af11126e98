"""Views of groups for their replicas: at once, or as soon as a group changes."""

from __future__ import annotations

import asyncio
import time

from litemq.clock import Clock
from litemq.nameserver.cluster_store.groups import GroupStore
from litemq.nameserver.reported_group import Caller, ReportedGroup
from litemq.nameserver.store_health import StoreHealth
from litemq.net.frame import Frame
from litemq.proto.wire_pb2 import ReplicaGroup

__all__ = ["GroupViews"]


class GroupViews:
    """Answers callers with views of groups, whose versions rise."""

    def __init__(self, store: GroupStore, clock: Clock, health: StoreHealth) -> None:
        self._store = store
        self._clock = clock
        self._health = health
        self._loop = asyncio.get_running_loop()
        self._versions = time.time_ns()  # differs from those of an earlier process

    def next_version(self) -> int:
        """Return a version that no view had before."""
        self._versions += 1
        return self._versions

    def view(self, group: ReportedGroup) -> ReplicaGroup:
        """Return ``group`` as it is now."""
        return group.view(self._clock.elapsed_ns(), self._health.problem, self._store.identity)

    def answer_later(self, group: ReportedGroup, caller: Caller, frame: Frame, wait_s: float) -> None:
        """Answer ``caller`` when ``group`` has changed, or after ``wait_s``."""
        timer: asyncio.TimerHandle
        timer = self._loop.call_later(wait_s, lambda: self._end_wait(group, timer))
        group.waiting[timer] = caller, frame

    def _end_wait(self, group: ReportedGroup, timer: asyncio.TimerHandle) -> None:
        caller, frame = group.waiting.pop(timer)
        caller.answer(frame, self.view(group).SerializeToString())

    def changed(self, group: ReportedGroup) -> None:
        """Answer all who wait for a change of ``group``."""
        group.version = self.next_version()
        view = self.view(group).SerializeToString()
        for timer, (caller, frame) in group.waiting.items():
            timer.cancel()
            caller.answer(frame, view)
        group.waiting.clear()

    @staticmethod
    def drop(group: ReportedGroup, caller: Caller | None = None) -> None:
        """End the waits of ``caller``, or of all, without an answer."""
        for timer, (each, _) in list(group.waiting.items()):
            if caller is None or each is caller:
                timer.cancel()
                del group.waiting[timer]
