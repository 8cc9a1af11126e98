"""Catching up: a stopped follower and one with a wiped disk get the log that they lack."""

from __future__ import annotations

import asyncio
import time
from typing import Final

from litemq import AsyncClient
from litemq.bench.baselines.cpu_time import cpu_seconds
from litemq.bench.replica_group import GroupSettings, ReplicaGroup, ServerProcess, running_group
from litemq.bench.workloads.group_watch import GroupWatch, master_of, poll, replica_of, watching
from litemq.bench.workloads.load import measure_send
from litemq.errors import LiteMQError
from litemq.net.event_loop import run

__all__ = ["CatchUp", "WipedDisk"]

_TOPIC: Final = "backlog"
_BODY_BYTES: Final = 1024
_RECORD_BYTES: Final = 1250  # a message's body, and all that is stored with it
_MB: Final = 1_000_000
_SETTLE_S: Final = 1.0  # until the replicas have reported the end of their logs
_COPIED: Final = "copied the master's log"


class CatchUp:
    """A follower is stopped, ``megabytes`` are written, and it is started again."""

    def __init__(self, megabytes: float) -> None:
        self._megabytes = megabytes
        self.per_cpu_s = 1.0  # MB in a second of the follower's CPU time: the rate if nothing else runs

    def rate(self) -> float:
        """Return MB/s, from the moment at which the follower listens until it is in sync."""
        with running_group() as group:
            return run(self._measure(group))

    async def _measure(self, group: ReplicaGroup) -> float:
        async with watching(group) as watch:
            name, follower = await _stopped_follower(group, watch)
            await _fill(group, self._megabytes)
            await asyncio.sleep(_SETTLE_S)
            view = await watch.view()
            lacks = replica_of(view, master_of(view)).log_end - replica_of(view, name).log_end
            seconds, cpu = await _started(follower, group, watch)
            self.per_cpu_s = lacks / cpu / _MB
            return lacks / seconds / _MB


class WipedDisk:
    """A follower loses its disk, and copies the log of its master.

    The master has dropped its oldest segments, or the follower would not need a copy. Segments have
    64 MB (8 MB at a small scale), so that there is something to drop. Retention runs each minute.
    """

    def __init__(self, megabytes: float) -> None:
        segment = 64 if megabytes >= 256 else 8
        self._megabytes = max(megabytes, 2 * segment)
        self._settings = GroupSettings(
            replica=("--file-size", f"{segment}MB", "--max-log-size", f"{round(self._megabytes)}MB")
        )

    def rate(self) -> float:
        """Return MB/s, from the moment at which the follower listens until it is in sync."""
        with running_group(self._settings) as group:
            return run(self._measure(group))

    async def _measure(self, group: ReplicaGroup) -> float:
        async with watching(group) as watch:
            _, follower = await _stopped_follower(group, watch)
            await _fill(group, 1.5 * self._megabytes)
            view = await watch.view()
            master = group.replicas[master_of(view)]
            await poll(lambda: master.log_start > 0, "the master has dropped a segment")
            await asyncio.sleep(_SETTLE_S)
            view = await watch.view()
            size = replica_of(view, master_of(view)).log_end - master.log_start
            follower.wipe()
            seconds, _ = await _started(follower, group, watch)
            if _COPIED not in follower.output:
                raise LiteMQError(f"the follower did not copy the log: {follower.output}")
            return size / seconds / _MB


async def _stopped_follower(group: ReplicaGroup, watch: GroupWatch) -> tuple[str, ServerProcess]:
    """Stop a follower, and wait until it has left the in-sync set."""
    view = await watch.view()
    name = next(name for name in group.replicas if name != master_of(view))
    group.replicas[name].terminate()
    group.replicas[name].wait_ended()
    await watch.wait_in_sync(len(group.replicas) - 1)
    return name, group.replicas[name]


async def _fill(group: ReplicaGroup, megabytes: float) -> None:
    """Write ``megabytes`` of log, in messages of 1 KiB."""
    async with AsyncClient(group.url) as mq:
        await mq.admin.create_topic(_TOPIC, queues=4)
    messages = int(megabytes * _MB / _RECORD_BYTES)
    sent = await measure_send(
        group.url, topic=_TOPIC, connections=1, size=_BODY_BYTES, messages=messages, durability="disk", batch=True
    )
    if sent.failed:
        raise LiteMQError(f"{sent.failed} messages failed: {sent.first_error}")


async def _started(follower: ServerProcess, group: ReplicaGroup, watch: GroupWatch) -> tuple[float, float]:
    """Start a follower; return the seconds, and those of its CPU, from listening to in sync."""
    follower.start()
    await poll(lambda: follower.is_listening, "the follower listens")
    begin, cpu = time.monotonic(), cpu_seconds(follower.pid)
    await watch.wait_in_sync(len(group.replicas))
    return time.monotonic() - begin, cpu_seconds(follower.pid) - cpu
