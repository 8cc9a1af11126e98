"""The process of a replica: open the store, listen, and take the role that the group gives it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any, Final, NamedTuple

from litemq import __version__
from litemq.broker.broker import Broker, check_for_broker
from litemq.broker.replication.stretches import StretchRequests
from litemq.broker.runtime.broker_clock import BrokerClock
from litemq.broker.runtime.handlers import HandlerTable
from litemq.clock import SystemClock
from litemq.errors import (
    ConnectionLostError,
    CorruptStoreError,
    LiteMQError,
    NotMasterError,
    StorageError,
    StoreFailedError,
)
from litemq.nameserver.cluster_store.groups import Confirmed
from litemq.net.frame import Frame
from litemq.net.server import FrameServer, Session
from litemq.proto.wire_pb2 import ReplicaGroup, ReplicaReport
from litemq.server.broker_config import BrokerConfig, check_address
from litemq.server.broker_setup import frame_limits
from litemq.server.heap import trim_heap_regularly
from litemq.server.replica.directory import ReplicaDirectory
from litemq.server.replica.follower import FollowerRole
from litemq.server.replica.follower_reads import FollowerReads
from litemq.server.replica.group_link import GroupLink
from litemq.server.replica.held_requests import HeldRequests
from litemq.server.replica.log_repairs import LogRepairs
from litemq.server.replica.master import MasterRole
from litemq.storage.files.disk import DISK, Disk
from litemq.storage.replica_store import OUTDATED, ReplicaStore
from litemq.types import MAX_PROBLEM_CHARS

__all__ = ["run_replica"]

_REOPEN_PAUSE_S: Final = 1.0
_LOG = logging.getLogger(__name__)


class _Role(NamedTuple):
    """What the group wants of this replica in ``epoch``. Without an address, it only waits."""

    epoch: int
    is_master: bool
    address: tuple[str, int] | None

    def replaces(self, role: _Role | None) -> bool:
        """Return whether ``role`` ends for this one.

        A NameServer that was started again may not know the address of the master yet.
        """
        knows_less = role is not None and self == role._replace(address=None) and not self.is_master
        return self != role and not knows_less


async def run_replica(
    config: BrokerConfig,
    ready: Callable[[str, int], None],
    stop: asyncio.Event,
    on_master: Callable[[int], None] = lambda _epoch: None,
    *,
    disk: Disk = DISK,
) -> None:
    """Serve until ``stop`` is set. Call ``ready`` with the address once others can connect.

    ``on_master`` is called with the epoch when this replica becomes the master.
    """
    clock = BrokerClock(SystemClock())
    replica = _Replica(config, clock, on_master, disk)
    await replica.directory.open()
    try:
        server = FrameServer(
            replica.handle,
            software=f"litemq {__version__}",
            limits=frame_limits(config),
            on_session_end=replica.caller_gone,
        )
        try:
            address = await server.start(config.host, config.port, insecure=config.insecure)
            replica.address = (config.reachable_host, address[1])
            ready(*address)
            await replica.run(stop)
        finally:
            await server.close()
    finally:
        await replica.directory.close()


class _Replica:
    """A replica, on the event loop on which it is created."""

    def __init__(self, config: BrokerConfig, clock: BrokerClock, on_master: Callable[[int], None], disk: Disk) -> None:
        self._config = config
        self._clock = clock
        self._link = GroupLink([check_address("nameservers", each) for each in config.nameservers], self._report)
        self._on_master = on_master
        self._broker: Broker | None = None
        self._held = HeldRequests(self.handle)
        self._is_stopping = False
        self._outdated = ""
        self._failure = ""  # why this replica stops by itself
        self._follower: FollowerRole | None = None
        self._failed = asyncio.Event()
        loop = asyncio.get_running_loop()
        self.directory = ReplicaDirectory(config, clock, disk, lambda _: loop.call_soon_threadsafe(self._failed.set))
        directory = self.directory
        self._repairs = LogRepairs(directory, self._link, group=config.broker_name, broker_id=config.broker_id)
        self._stretches = StretchRequests(config.broker_name, directory)
        self._handlers = HandlerTable((self._stretches.handler,))  # of both roles
        self._reads = FollowerReads(directory, config, clock)
        directory.on_close = self._reads.close
        self.address = ("", 0)

    # Requests -------------------------------------------------------------------------------------

    def handle(self, session: Session, frames: list[Frame]) -> None:
        """Handle the requests of one connection, or refuse them if this is not the master."""
        if self._held.is_holding:
            frames = self._held.add(session, frames)
        if not frames:
            return
        if self._broker is not None:
            self._broker.handle(session, frames)
            return
        is_lost = False
        for frame in frames:
            handler = self._handlers.get(frame.opcode) or self._reads.handler(session, frame.opcode)
            try:
                if handler is None:
                    check_for_broker(frame.opcode)
                    raise NotMasterError(f"this broker is not the master of its group: {self._hint()}")
                handler.call(session, frame)
            except LiteMQError as error:
                session.refuse(frame, error)
            is_lost |= handler is None and not self._reads.are_wanted(session)
        if is_lost:
            session.close(ConnectionLostError("this broker is not the master"))  # so that the client looks for it

    def _hint(self) -> str:
        view = self._link.view
        if view is None:
            return "no NameServer has answered yet"
        master = next((each for each in view.replicas if each.store_id == view.holder), None)
        if view.is_leased and master is not None and master.store_id != self.directory.store_id:
            return f"ask {master.broker_id} at {master.host}:{master.port}"
        return view.obstacle or "there is none yet"

    def caller_gone(self, session: Session) -> None:
        """A connection has ended."""
        self._held.caller_gone(session)
        self._reads.caller_gone(session)
        if self._broker is not None:
            self._broker.caller_gone(session)

    def _serve(self, broker: Broker | None) -> None:
        self._broker = broker
        self._held.release()
        if broker is not None and self.directory.store is not None:
            self._on_master(self.directory.store.last_epoch)

    # The role -------------------------------------------------------------------------------------

    async def run(self, stop: asyncio.Event) -> None:
        """Take one role after another until ``stop`` is set, or the store fails."""
        link, trimming = asyncio.create_task(self._link.run()), asyncio.create_task(trim_heap_regularly())
        counting = asyncio.create_task(self.directory.cut_off.recount())
        roles = asyncio.create_task(self._take_roles())
        repairs = asyncio.create_task(self._repairs.run())
        ends = [asyncio.create_task(stop.wait()), asyncio.create_task(self._failed.wait())]
        try:
            await asyncio.wait([link, roles, repairs, *ends], return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._is_stopping = True
            if stop.is_set() and self._follower is not None:
                await self._follower.leave()
            await _ended(roles)  # first: a master needs the link to release its lease
            self._failure = self._failure_of(roles, repairs)
            await self._link.report_stop()
            for task in (*ends, repairs, trimming, counting, link):
                await _ended(task)
            self._stretches.close()
        for task in (roles, link, repairs):
            if not task.cancelled():
                task.result()
        store = self.directory.store
        if store is not None and store.write_failure is not None:
            raise StoreFailedError(store.write_failure)

    def _failure_of(self, *tasks: asyncio.Task[None]) -> str:
        """Return why this replica stops by itself: one of ``tasks``, or its store, has failed."""
        store = self.directory.store
        errors = [task.exception() for task in tasks if task.done() and not task.cancelled()]
        reasons = [*errors, store.write_failure if store is not None else None]
        return next((f"it has stopped: {reason}" for reason in reasons if reason is not None), "")

    async def _take_roles(self) -> None:
        role: _Role | None = None
        task: asyncio.Task[None] | None = None
        try:
            while True:
                changed = asyncio.create_task(self._link.wait_changed())
                waiting = {changed} if task is None else {changed, task}
                try:
                    await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
                finally:
                    changed.cancel()
                if task is not None and task.done():
                    task.result()
                    role = task = None
                view = self._link.view
                wanted = self._wanted(view) if view is not None else None
                if view is not None and wanted is not None and wanted.replaces(role):
                    if task is not None:
                        await _ended(task)
                    role, task = wanted, self._begin(wanted, view)
        finally:
            if task is not None:
                await _ended(task)

    def _wanted(self, view: ReplicaGroup) -> _Role | None:
        """Return the role that ``view`` gives this replica; ``None``: it goes on as it is."""
        store = self.directory.store
        if store is not None and self._is_outdated(store, view):
            return _Role(view.epoch, is_master=False, address=None)
        if view.holder == self.directory.store_id:
            if store is not None and not store.follows and store.last_epoch == view.epoch:
                return _Role(view.epoch, is_master=True, address=None)
            if store is not None and view.is_leased and view.epoch > store.begun_epoch:
                return _Role(view.epoch, is_master=True, address=None)
            return _Role(view.epoch, is_master=False, address=None)  # it was restarted: it waits for an election
        master = next((each for each in view.replicas if each.store_id == view.holder), None)
        address = (master.host, master.port) if master is not None else None
        return _Role(view.epoch, is_master=False, address=address)

    def _is_outdated(self, store: ReplicaStore, view: ReplicaGroup) -> bool:
        """Return whether ``view`` has this store in the in-sync set, and it lacks what the set has.

        It does not follow as a member: until it has caught up, it could be elected.
        """
        has_all = Confirmed(view.confirmed, view.confirmed_epoch).is_in(store.last_epoch, store.log_end)
        is_outdated = store.follows and not has_all and store.store_id in view.members
        problem = OUTDATED.format(end=store.log_end, confirmed=view.confirmed) if is_outdated else ""
        if problem and not self._outdated:
            _LOG.error("%s", problem)
        self._outdated = problem
        return is_outdated

    def _begin(self, role: _Role, view: ReplicaGroup) -> asyncio.Task[None] | None:
        config, store = self._config, self.directory.store
        self._link.has_role = True
        self._follower = None
        if role.is_master and store is not None:
            master = MasterRole(
                config,
                store,
                self._link,
                self._clock,
                port=self.address[1],
                held=self._held,
                serve=self._serve,
                handlers=self._handlers.values(),
            )
            return asyncio.create_task(self._lead(master, view))
        if role.address is None:
            return asyncio.create_task(self._reopen()) if self.directory.is_closed else None
        self._follower = FollowerRole(
            self.directory, self._reads, role.address, group=config.broker_name, broker_id=config.broker_id
        )
        return asyncio.create_task(self._follower.run())

    async def _reopen(self) -> None:
        """Open the directory that an interrupted copy has closed: its log counts in an election."""
        while True:
            try:
                await self.directory.open()
                return
            except CorruptStoreError:
                raise
            except StorageError as error:
                _LOG.warning("cannot open the store again, retrying: %s", error)
                await asyncio.sleep(_REOPEN_PAUSE_S)

    async def _lead(self, master: MasterRole, view: ReplicaGroup) -> None:
        self._reads.close()  # no read is served in between: the master begins at once
        await master.run(view)

    def _report(self) -> ReplicaReport:
        config, store = self._config, self.directory.store
        host, port = self.address
        return ReplicaReport(
            group=config.broker_name,
            store_id=self.directory.store_id,
            broker_id=config.broker_id,
            host=host,
            port=port,
            last_epoch=store.last_epoch if store is not None else 0,
            log_end=store.log_end if store is not None else 0,
            wall_ms=self._clock.wall_ms(),
            replicas=config.replicas,
            min_in_sync=config.min_in_sync,
            segment_bytes=config.file_size,
            is_stopping=self._is_stopping,
            damaged_stretches=self._repairs.damaged_stretches,
            cannot_open=self.directory.cannot_open,
            confirm=store.confirm_offset if store is not None else 0,
            bytes_cut=self.directory.cut_off.size,
            cut_at_ms=self.directory.cut_off.latest_ms,
            flushed=store.flushed_offset if store is not None else 0,
            confirm_epoch=store.confirm_epoch if store is not None else 0,
            problem=self._problem[:MAX_PROBLEM_CHARS],
            lacks_space=self._lacks_space,
            known_epoch=self._link.latest.epoch,
            known_revision=self._link.latest.revision,
        )

    @property
    def _lacks_space(self) -> bool:
        follower, store = self._follower, self.directory.store
        return (follower is not None and follower.lacks_space) or (store is not None and bool(store.disk_refusal))

    @property
    def _problem(self) -> str:
        """Why this replica cannot write or follow, or why it stops; empty: it can."""
        follows = self._follower.problem if self._follower is not None else ""
        store = self.directory.store
        disk = store.disk_refusal if store is not None else ""
        if self._failure or self._outdated:
            return self._failure or self._outdated
        return "; ".join(filter(None, (disk, follows)))  # a full disk may be why it does not follow


async def _ended(task: asyncio.Task[Any]) -> None:
    """Cancel ``task``, and wait until it has ended, in whatever way."""
    task.cancel()
    await asyncio.wait([task])
