"""A ``GroupStore`` in a SQLite file, for a cluster with one NameServer.

Facts are on disk before a request returns. Leases are in memory: after a start, each group counts
as leased for as long as its last lease was granted for. Leases that had ended before the store was
closed do not count.

One thread makes all calls of SQLite. The event loop makes all decisions: a lock per group keeps
changes of a group apart.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import secrets
from collections import deque
from collections.abc import AsyncGenerator, Coroutine
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final, Self, TypeVar

from litemq.clock import Clock
from litemq.errors import (
    ChangeOutcomeUnknownError,
    ClusterStoreError,
    DiskFullError,
    GroupFactsLostError,
    LiteMQError,
    MasterLeaseLostError,
    StorageError,
    StoreFailedError,
)
from litemq.nameserver.cluster_store.group_file import GroupFile, StoredFact
from litemq.nameserver.cluster_store.groups import (
    MAX_GROUPS,
    GroupFact,
    GroupState,
    check_change,
    check_creation,
    check_election,
    check_lease_ms,
    check_recovery,
    refusal,
    with_revision,
)

__all__ = ["EmbeddedGroupStore"]

_LOG = logging.getLogger(__name__)
_MOST_UNREAD: Final = 4 * MAX_GROUPS  # states for a watcher, before older ones of a group are left out
T = TypeVar("T")


class _Group:
    """A group in memory. ``lease_until`` is on the elapsed-time clock (ns); ``None``: no lease."""

    __slots__ = ("changing", "fact", "lease_ms", "lease_until")

    def __init__(self, stored: StoredFact, now: int) -> None:
        self.fact, self.lease_ms = stored
        self.lease_until: int | None = None
        self.changing = asyncio.Lock()
        if stored.lease_ms:
            self.grant(now)

    @property
    def stored_lease_ms(self) -> int:
        return 0 if self.lease_until is None else self.lease_ms

    def grant(self, now: int) -> None:
        self.lease_until = now + self.lease_ms * 1_000_000

    @property
    def state(self) -> GroupState:
        return GroupState(self.fact, self.lease_until is not None)


class _Watcher:
    """The states that one iterator has not returned yet."""

    def __init__(self) -> None:
        self.unread: deque[GroupState] = deque()
        self.has_news = asyncio.Event()

    def put(self, state: GroupState) -> None:
        self.unread.append(state)
        if len(self.unread) > _MOST_UNREAD:
            self.unread = deque({state.fact.name: state for state in self.unread}.values())
        self.has_news.set()


class EmbeddedGroupStore:
    """The groups of one NameServer. Open it with ``open``, on the event loop that will use it."""

    def __init__(self, file: GroupFile, worker: ThreadPoolExecutor, clock: Clock) -> None:
        self._file = file
        self._worker = worker
        self._clock = clock
        self._groups = {name: _Group(stored, clock.elapsed_ns()) for name, stored in file.stored.items()}
        self._creating = asyncio.Lock()
        self._watchers: set[_Watcher] = set()
        self._tasks: set[asyncio.Task[Any]] = set()
        self._failure: StorageError | None = None
        self._is_closed = False
        self._identity = secrets.token_bytes(16)  # of this process: no other one has these facts
        self._timer: asyncio.TimerHandle | None = None
        self._expire_all()

    @classmethod
    async def open(cls, path: Path, clock: Clock) -> Self:
        """Open or create the file ``path``.

        If it is damaged, it is renamed; until ``recover``, the store then refuses every group.
        """
        worker = ThreadPoolExecutor(max_workers=1, thread_name_prefix="litemq-groups")
        try:
            file = await asyncio.get_running_loop().run_in_executor(worker, GroupFile, path)
        except BaseException:
            worker.shutdown(wait=False)
            raise
        return cls(file, worker, clock)

    # Reads ----------------------------------------------------------------------------------------

    @property
    def place(self) -> str:
        return str(self._file.path)

    @property
    def identity(self) -> bytes:
        return self._identity

    async def groups(self) -> list[GroupState]:
        self._expire_all()
        return [self._groups[name].state for name in sorted(self._groups)]

    async def read(self, name: str) -> GroupState | None:
        group = self._find(name)
        if group is None:
            return None
        self._expire(group)
        return group.state

    async def watch(self) -> AsyncGenerator[GroupState, None]:
        watcher = _Watcher()
        for state in await self.groups():
            watcher.put(state)
        self._watchers.add(watcher)
        try:
            while not self._is_closed:
                while watcher.unread:
                    yield watcher.unread.popleft()
                watcher.has_news.clear()
                if not self._is_closed:
                    await watcher.has_news.wait()
        finally:
            self._watchers.discard(watcher)

    # Changes --------------------------------------------------------------------------------------

    async def create(self, fact: GroupFact) -> GroupFact:
        check_creation(fact)
        if self._file.is_lost and fact.name not in self._groups:
            raise self._lost(fact.name)
        return await self._complete(self._add(fact, 0))

    async def recover(self, fact: GroupFact, lease_ms: int, outdated: GroupFact | None = None) -> GroupFact:
        check_lease_ms(lease_ms)
        check_recovery(outdated, fact)
        if outdated is not None:
            return await self._complete(self._replace(outdated, fact, lease_ms, ends_lease=True))
        return await self._complete(self._add(fact, lease_ms))

    async def change(self, before: GroupFact, after: GroupFact) -> GroupFact:
        check_change(before, after)
        return await self._complete(self._replace(before, after))

    async def elect(self, before: GroupFact, after: GroupFact, lease_ms: int) -> GroupFact:
        check_election(before, after)
        check_lease_ms(lease_ms)
        return await self._complete(self._replace(before, after, lease_ms))

    async def hand_over(self, before: GroupFact, after: GroupFact, lease_ms: int) -> GroupFact:
        check_election(before, after)
        check_lease_ms(lease_ms)
        return await self._complete(self._replace(before, after, lease_ms, ends_lease=True))

    async def _add(self, fact: GroupFact, lease_ms: int) -> GroupFact:
        async with self._creating:
            known = self._groups.get(fact.name)
            if known is not None:
                raise refusal(fact.name, None, known.state)
            if len(self._groups) >= MAX_GROUPS:
                raise ClusterStoreError(f"the cluster store has {MAX_GROUPS} groups: it cannot accept {fact.name}")
            stored = StoredFact(with_revision(fact, fact.revision + 1), lease_ms)
            await self._put(stored)
            self._groups[fact.name] = group = _Group(stored, self._clock.elapsed_ns())
            self._publish(group)
            return group.fact

    async def _replace(
        self, before: GroupFact, after: GroupFact, lease_ms: int = 0, *, ends_lease: bool = False
    ) -> GroupFact:
        """Make a change. An election has a ``lease_ms``, and needs that no lease exists."""
        group = self._find(before.name)
        if group is None:
            raise refusal(before.name, before, None)
        async with group.changing:
            self._expire(group)
            is_current = (before.epoch, before.revision) == (group.fact.epoch, group.fact.revision)
            is_barred = lease_ms and not ends_lease and group.lease_until is not None
            if not is_current or is_barred:
                raise refusal(before.name, before, group.state)
            fact = with_revision(after, before.revision + 1)
            await self._put(StoredFact(fact, lease_ms or group.stored_lease_ms))
            group.fact = fact
            if lease_ms:
                group.lease_ms = lease_ms
                group.grant(self._clock.elapsed_ns())
            self._publish(group)
            return fact

    async def _put(self, stored: StoredFact) -> None:
        if self._failure is not None:
            raise StoreFailedError(
                f"an earlier write to {self._file.path} failed ({self._failure}): restart the NameServer"
            )
        try:
            await asyncio.get_running_loop().run_in_executor(self._worker, self._file.put, stored)
        except DiskFullError:
            raise
        except StorageError as error:
            self._failure = error
            _LOG.error("%s. Restart the NameServer: until then, it changes no group", error)
            raise ChangeOutcomeUnknownError(f"group {stored.fact.name}: {error}") from error

    async def _complete(self, change: Coroutine[Any, Any, T]) -> T:
        """Run ``change`` to its end, even if the caller is cancelled: memory then matches disk."""
        if self._is_closed:
            change.close()
            raise ClusterStoreError("the cluster store is closed")
        task = asyncio.get_running_loop().create_task(change)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return await asyncio.shield(task)

    # Leases ---------------------------------------------------------------------------------------

    async def renew(self, name: str, epoch: int, holder: bytes) -> int:
        group = self._groups.get(name)
        if group is not None:
            async with group.changing:
                if self._is_holder(group, epoch, holder):
                    group.grant(self._clock.elapsed_ns())
                    return group.lease_ms
        raise MasterLeaseLostError(
            f"group {name}: replica {holder.hex()} has no lease in epoch {epoch}: it must stop as the master"
        )

    async def release(self, name: str, epoch: int, holder: bytes) -> None:
        group = self._groups.get(name)
        if group is None:
            return
        async with group.changing:
            if self._is_holder(group, epoch, holder):
                group.lease_until = None
                self._publish(group)

    def _is_holder(self, group: _Group, epoch: int, holder: bytes) -> bool:
        self._expire(group)
        is_same = bool(holder) and (epoch, holder) == (group.fact.epoch, group.fact.holder)
        return is_same and group.lease_until is not None

    def _expire(self, group: _Group) -> None:
        if group.lease_until is not None and group.lease_until <= self._clock.elapsed_ns():
            group.lease_until = None
            self._publish(group)

    def _expire_all(self) -> None:
        """End the leases that are over, and do so again when the next one may be."""
        self._stop_timer()
        for group in self._groups.values():
            self._expire(group)
        self._set_timer()

    def _set_timer(self) -> None:
        ends = [group.lease_until for group in self._groups.values() if group.lease_until is not None]
        if ends and self._timer is None and not self._is_closed:
            wait_s = max(0.001, (min(ends) - self._clock.elapsed_ns()) / 1e9)
            self._timer = asyncio.get_running_loop().call_later(wait_s, self._expire_all)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _publish(self, group: _Group) -> None:
        for watcher in self._watchers:
            watcher.put(group.state)
        if group.lease_until is not None:  # it may end before the other leases
            self._stop_timer()
            self._set_timer()

    # ----------------------------------------------------------------------------------------------

    def _find(self, name: str) -> _Group | None:
        group = self._groups.get(name)
        if group is None and self._file.is_lost:
            raise self._lost(name)
        return group

    def _lost(self, name: str) -> GroupFactsLostError:
        return GroupFactsLostError(
            f"a damaged {self._file.path.name} lost the facts of its groups, which may have included {name}: "
            f"run `litemq cluster recover {name}`"
        )

    async def close(self) -> None:
        """Finish changes in flight, note the leases that have ended, end all watches."""
        if self._is_closed:
            return
        self._is_closed = True
        self._stop_timer()
        for watcher in self._watchers:
            watcher.has_news.set()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        stored = self._file.stored
        with contextlib.suppress(LiteMQError):  # then they count after a start
            for group in self._groups.values():
                self._expire(group)
                if group.lease_until is None and stored[group.fact.name].lease_ms:
                    await self._put(StoredFact(group.fact, 0))
        await asyncio.get_running_loop().run_in_executor(self._worker, self._file.close)
        self._worker.shutdown()
