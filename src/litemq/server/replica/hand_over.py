"""A planned switch: the master hands over to another replica, or goes on.

1. The master holds new requests back. Those that it has begun are answered as usual.
2. Once the successor has flushed the whole log, the master acknowledges nothing more. If the log
   has grown meanwhile, it waits for the successor again.
3. One compare-and-set at the cluster store begins the next epoch, with the successor as its master.

If this takes longer than a second, the master serves the requests that it has held. A change whose
outcome is unknown is cancelled first: another revision of the group's fact makes it invalid.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from litemq.broker.replication.in_sync_set import InSyncSet, InSyncTracker
from litemq.broker.runtime.caller import Caller
from litemq.broker.runtime.handlers import Handler, Permission
from litemq.broker.runtime.request_header import parse
from litemq.clock import Clock
from litemq.errors import (
    ChangeOutcomeUnknownError,
    ChangeRefusedError,
    InvalidArgumentError,
    LiteMQError,
    NetworkError,
    NotMasterError,
)
from litemq.net.frame import Frame
from litemq.proto.wire_pb2 import (
    ChangeInSyncRequest,
    HandOverRequest,
    Opcode,
    ReplicaFacts,
    ReplicaGroup,
    SwitchMasterAnswer,
    SwitchMasterRequest,
)
from litemq.server.replica.group_link import GroupLink
from litemq.server.replica.held_requests import HeldRequests
from litemq.server.replica.lease import MasterLease
from litemq.storage.replica_store import ReplicaStore

__all__ = ["HandOver"]

_LIMIT_S: Final = 1.0
_POLL_S: Final = 0.002
_RETRY_S: Final = 0.05
_ANSWER_S: Final = 1.0  # of the last answer, once the next epoch has begun
_US: Final = 1_000  # ns
_FULL: Final = "has a disk that is nearly full, and would refuse messages. Free disk space there, or choose another one"
_LOG = logging.getLogger(__name__)


class HandOver:
    """Hand-overs of the master of one epoch. The in-sync set changes only under ``changing``."""

    def __init__(
        self,
        group: str,
        store: ReplicaStore,
        in_sync: InSyncTracker,
        link: GroupLink,
        lease: MasterLease,
        held: HeldRequests,
        clock: Clock,
        *,
        settle: Callable[[InSyncSet], None],
        on_handed_over: Callable[[], None],
    ) -> None:
        """``settle`` gets a set that the cluster store has; ``on_handed_over`` ends the role."""
        self._group = group
        self._store = store
        self._in_sync = in_sync
        self._link = link
        self._lease = lease
        self._held = held
        self._clock = clock
        self._settle = settle
        self._on_handed_over = on_handed_over
        self._epoch = store.last_epoch
        self._task: asyncio.Task[None] | None = None
        self.changing = asyncio.Lock()
        self.handler = Handler(Opcode.SWITCH_MASTER, Permission.CLUSTER_UPDATE, self._on_request)

    def _on_request(self, caller: Caller, frame: Frame) -> None:
        asked = parse(SwitchMasterRequest, frame.header)
        if asked.group != self._group:
            raise InvalidArgumentError(f"this is a broker of the group {self._group}, not of {asked.group[:127]!r}")
        if self._task is not None and not self._task.done():
            raise ChangeRefusedError(f"group {self._group}: another switch is in progress: wait for its end")
        successor = self._successor(asked.replica)
        self._task = asyncio.create_task(self._answer(caller, frame, successor))

    async def close(self) -> None:
        """Let a switch answer, whose hand-over may be the reason for the end of this role."""
        if self._task is not None and not self._task.done():
            try:
                await asyncio.wait([self._task], timeout=_ANSWER_S)
            finally:
                self._task.cancel()
            await asyncio.wait([self._task])

    # The successor --------------------------------------------------------------------------------

    def _successor(self, name: str) -> ReplicaFacts:
        """Return the replica ``name``, or the best one. Raise if it cannot be the master."""
        view = self._link.view or ReplicaGroup()
        replicas = {each.broker_id: each for each in view.replicas}
        if not name:
            ready = [each for each in replicas.values() if self._obstacle(each) is None]
            if not ready:
                full = sorted(name for name, each in replicas.items() if self._obstacle(each) == _FULL)
                if full:
                    raise ChangeRefusedError(
                        f"group {self._group}: the disks of the replicas that could be the next master are nearly full "
                        f"({', '.join(full)}). Free disk space there"
                    )
                raise ChangeRefusedError(
                    f"group {self._group}: no other replica is in sync, so none can become the master. "
                    "Run `litemq cluster status`"
                )
            return max(ready, key=lambda each: (self._flushed(each), each.broker_id))
        chosen = replicas.get(name)
        if chosen is None:
            raise InvalidArgumentError(
                f"group {self._group} has no replica {name[:127]!r}: choose one of {', '.join(sorted(replicas))}"
            )
        obstacle = self._obstacle(chosen)
        if obstacle is not None:
            raise ChangeRefusedError(f"group {self._group}: {name} {obstacle}")
        return chosen

    def _obstacle(self, replica: ReplicaFacts) -> str | None:
        """Return why ``replica`` cannot be the next master now."""
        if replica.store_id == self._store.store_id:
            return "is the master already"
        if replica.store_id not in self._in_sync.current.members:
            return "is not in sync, so it may lack messages. Wait until `litemq cluster status` shows it in sync"
        if self._in_sync.flushed(replica.store_id) is None:
            return "does not follow the master now. Run `litemq cluster status`"
        if replica.lacks_space:
            return _FULL
        return None

    def _flushed(self, replica: ReplicaFacts) -> int:
        flushed = self._in_sync.flushed(replica.store_id)
        return -1 if flushed is None else flushed

    # The switch -----------------------------------------------------------------------------------

    async def _answer(self, caller: Caller, frame: Frame, successor: ReplicaFacts) -> None:
        try:
            answer = await self._switch(successor)
        except LiteMQError as error:
            _LOG.warning("group %s was not handed over to %s: %s", self._group, successor.broker_id, error)
            caller.refuse(frame, error)
        else:
            _LOG.warning("group %s was handed over to %s", self._group, successor.broker_id)
            caller.answer(frame, answer.SerializeToString())
            self._on_handed_over()

    async def _switch(self, successor: ReplicaFacts) -> SwitchMasterAnswer:
        """Hand over to ``successor``, or raise, and go on as before."""
        deadline = asyncio.get_running_loop().time() + _LIMIT_S
        try:
            async with asyncio.timeout_at(deadline):
                await self.changing.acquire()
        except TimeoutError:
            raise ChangeRefusedError(
                f"group {self._group}: the in-sync set is being changed. The present master goes on: try again"
            ) from None
        begun = self._clock.elapsed_ns()
        self._held.hold()
        try:
            await self._wait_flushed(successor, deadline)
            self._lease.suspend()
            await self._wait_flushed(successor, deadline)
            epoch = await self._hand_over(successor, deadline)
        except BaseException:
            self._lease.resume()
            self._held.release()
            raise
        finally:
            self.changing.release()
        paused_us = (self._clock.elapsed_ns() - begun) // _US
        former = next((each for each in self._replicas() if each.store_id == self._store.store_id), ReplicaFacts())
        return SwitchMasterAnswer(former=former.broker_id, master=successor.broker_id, epoch=epoch, paused_us=paused_us)

    def _replicas(self) -> list[ReplicaFacts]:
        return list(self._link.view.replicas) if self._link.view is not None else []

    async def _wait_flushed(self, successor: ReplicaFacts, deadline: float) -> None:
        """Wait until ``successor`` has flushed the whole log."""
        loop = asyncio.get_running_loop()
        await asyncio.sleep(0)  # the requests of this tick are appended at its end
        while self._flushed(successor) < self._store.log_end:
            if loop.time() >= deadline:
                missing = self._store.log_end - max(self._flushed(successor), 0)
                raise ChangeRefusedError(
                    f"group {self._group}: {successor.broker_id} still lacked {missing} bytes of the log after "
                    f"{_LIMIT_S:g} s. The present master goes on: try again with less load, or choose another replica"
                )
            await asyncio.sleep(_POLL_S)

    async def _hand_over(self, successor: ReplicaFacts, deadline: float) -> int:
        """Begin the next epoch at the cluster store; return its number."""
        asked = HandOverRequest(
            group=self._group,
            epoch=self._epoch,
            store_id=self._store.store_id,
            revision=self._in_sync.current.revision,
            successor=successor.store_id,
        )
        reason = f"group {self._group}: the cluster store did not answer in time"
        try:
            async with asyncio.timeout_at(deadline):
                return (await self._link.hand_over(asked)).epoch
        except (TimeoutError, LiteMQError) as error:
            # A refusal is no definite answer, either: another NameServer may be making the change.
            _LOG.info("the outcome of the hand-over of group %s is unknown: %r", self._group, error)
            if not isinstance(error, (TimeoutError, NetworkError, ChangeOutcomeUnknownError)):
                reason = str(error)
        return await self._cancel(successor, reason)

    async def _cancel(self, successor: ReplicaFacts, reason: str) -> int:
        """Make a hand-over with an unknown outcome invalid, and raise ``reason``.

        If the hand-over was made, return its epoch.
        """
        current = self._in_sync.current
        asked = ChangeInSyncRequest(
            group=self._group,
            epoch=self._epoch,
            store_id=self._store.store_id,
            revision=current.revision,
            members=sorted(current.members),
        )
        while True:
            view = self._link.view
            if view is not None and view.epoch > self._epoch:
                if view.holder == successor.store_id:
                    return view.epoch
                raise NotMasterError(f"group {self._group}: another replica was elected meanwhile")
            if view is not None and view.epoch == self._epoch and view.revision > current.revision:
                self._settle(InSyncSet(frozenset(view.members), view.revision))
                break
            try:
                changed = await self._link.change(asked)
            except LiteMQError as error:  # a later view shows whether it was refused
                _LOG.debug("the hand-over was not cancelled: %s", error)
                await asyncio.sleep(_RETRY_S)
            else:
                self._settle(InSyncSet(frozenset(changed.members), changed.revision))
                break
        raise ChangeRefusedError(f"{reason}. The present master goes on: try again")
