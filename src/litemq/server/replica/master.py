"""The role of the master: the broker's services, the lease, and the changes of the in-sync set."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Iterable
from typing import Final

from litemq.broker.broker import Broker, BrokerIdentity
from litemq.broker.replication.in_sync_set import InSyncSet, InSyncTracker
from litemq.broker.replication.shipping import Shipping
from litemq.broker.runtime.handlers import Handler
from litemq.clock import Clock
from litemq.errors import LiteMQError, MasterLeaseLostError, NotMasterError
from litemq.proto.wire_pb2 import ChangeInSyncRequest, RenewMasterRequest, ReplicaGroup
from litemq.server.broker_config import BrokerConfig, check_address, loss_warning
from litemq.server.broker_setup import broker_facts, broker_limits
from litemq.server.registration import Registration
from litemq.server.replica.group_link import GroupLink
from litemq.server.replica.hand_over import HandOver
from litemq.server.replica.held_requests import HeldRequests
from litemq.server.replica.lease import MasterLease
from litemq.storage.replica_store import ReplicaStore

__all__ = ["MasterRole"]

_RENEW_S: Final = 0.5
_CHECK_S: Final = 0.1  # of the in-sync set
_RETRY_S: Final = 0.1
_LOG = logging.getLogger(__name__)


class MasterRole:
    """The master of one epoch. ``serve`` gets its broker, and ``None`` at the end."""

    def __init__(
        self,
        config: BrokerConfig,
        store: ReplicaStore,
        link: GroupLink,
        clock: Clock,
        *,
        port: int,
        held: HeldRequests,
        serve: Callable[[Broker | None], None],
        handlers: Iterable[Handler] = (),
    ) -> None:
        """``handlers`` are the requests that each replica serves."""
        self._config = config
        self._store = store
        self._link = link
        self._clock = clock
        self._port = port
        self._held = held
        self._serve = serve
        self._handlers = tuple(handlers)

    async def run(self, elected: ReplicaGroup) -> None:
        """Be the master of the epoch of ``elected`` until another one is elected, or cancelled."""
        config, store, clock = self._config, self._store, self._clock
        self._epoch = elected.epoch
        begun = store.begin_writing(elected.epoch, unclean=elected.unclean_epoch > store.last_epoch)
        self._in_sync = InSyncTracker(
            store.store_id,
            begun.end,
            _set_of(elected),
            min_in_sync=elected.min_in_sync,
            max_lag_ns=config.replica_lag_ms * 1_000_000,
            now=clock.elapsed_ns(),
        )
        self._shipping = Shipping(
            store,
            self._in_sync,
            clock,
            group=config.broker_name,
            catch_up_bytes_per_s=config.catch_up_bytes_per_s,
            names=self._link,
        )
        self._lease = MasterLease(clock)
        store.has_lease = self._lease.is_valid
        self._lost = asyncio.Event()
        self._hand_over = HandOver(
            config.broker_name,
            store,
            self._in_sync,
            self._link,
            self._lease,
            self._held,
            clock,
            settle=self._shipping.settle,
            on_handed_over=self._lost.set,
        )
        started_at = clock.wall_ms()
        nameservers = [check_address("nameservers", server) for server in config.nameservers]
        registration = Registration(
            nameservers, lambda: broker_facts(config, broker, self._port, started_at, epoch=self._epoch)
        )
        broker = Broker(
            store,
            clock,
            broker_limits(config),
            announcer=registration,
            identity=BrokerIdentity(config.broker_name, config.zone),
        )
        broker.ship(self._shipping, self._hand_over.handler, *self._handlers)
        _LOG.warning("%s is the master of group %s in epoch %d", config.broker_id, config.broker_name, self._epoch)
        self._warn_of_loss()
        self._serve(broker)
        registering = asyncio.create_task(registration.run())
        keeping = [asyncio.create_task(work) for work in (self._replaced(), self._keep_lease(), self._keep_set())]
        try:
            ended, _ = await asyncio.wait(keeping, return_when=asyncio.FIRST_COMPLETED)
            for task in ended:
                task.result()  # a role without one of them is no role
        finally:
            # Before the first await: a later view of the group may cancel this role while it ends.
            self._lease.end()  # first: nothing that ends here may acknowledge
            self._serve(None)
            broker.close()
            store.stop_writing(NotMasterError("this broker is no longer the master of its group"))
            _LOG.warning("%s is no longer the master of group %s", config.broker_id, config.broker_name)
            for task in (registering, *keeping):  # it stays registered: clients wait for the next master
                task.cancel()
            await self._hand_over.close()
            await asyncio.wait([registering, *keeping])
            await self._release()

    def _warn_of_loss(self) -> None:
        """Say what stops when a replica is lost, if the group cannot lose one."""
        config = self._config
        if config.replicas - 1 < config.min_in_sync:
            _LOG.warning("group %s: %s", config.broker_name, loss_warning(config.replicas, config.min_in_sync))

    async def _replaced(self) -> None:
        """Wait until another epoch has begun, or the lease is definitely lost."""
        while not self._lost.is_set():
            view = self._link.view
            if view is not None and view.epoch > self._epoch:
                return
            if view is not None and view.epoch == self._epoch:
                self._shipping.settle(_set_of(view))
            self._shipping.check_replicas()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_CHECK_S):
                    await self._lost.wait()

    # The lease ------------------------------------------------------------------------------------

    async def _keep_lease(self) -> None:
        asked = RenewMasterRequest(group=self._config.broker_name, epoch=self._epoch, store_id=self._store.store_id)
        logged = ""
        while True:
            sent_at = self._clock.elapsed_ns()
            try:
                self._lease.renewed(sent_at, await self._link.renew(asked))
                logged = ""
                await asyncio.sleep(_RENEW_S)
            except MasterLeaseLostError as error:
                _LOG.warning("%s", error)
                self._lost.set()
                return
            except LiteMQError as error:
                if str(error) != logged:
                    logged = str(error)
                    _LOG.warning("the lease of the master was not renewed, retrying: %s", error)
                await asyncio.sleep(_RETRY_S)

    async def _release(self) -> None:
        """End the lease, unless another one replaced it: another replica is elected at once."""
        asked = RenewMasterRequest(
            group=self._config.broker_name, epoch=self._epoch, store_id=self._store.store_id, releases=True
        )
        with contextlib.suppress(LiteMQError):  # then the lease ends by itself
            await self._link.renew(asked)

    # The in-sync set ------------------------------------------------------------------------------

    async def _keep_set(self) -> None:
        """Propose the changes of the in-sync set that its members' progress asks for."""
        while True:
            async with self._hand_over.changing:  # what a newcomer needs may grow while a switch has the lock
                wanted = self._shipping.propose()
                if wanted is not None:
                    await self._change(wanted)
            await asyncio.sleep(_CHECK_S)

    async def _change(self, members: frozenset[bytes]) -> None:
        """Make the proposed change. Until there is a definite answer, both sets count."""
        before = self._in_sync.current
        asked = ChangeInSyncRequest(
            group=self._config.broker_name,
            epoch=self._epoch,
            store_id=self._store.store_id,
            revision=before.revision,
            members=sorted(members),
        )
        while self._in_sync.proposed is not None:  # ``_replaced`` settles it if a NameServer shows a later set
            try:
                changed = await self._link.change(asked)
            except LiteMQError as error:  # definite or not: a later revision will show
                _LOG.debug("the in-sync set was not changed: %s", error)
                await asyncio.sleep(_RETRY_S)
            else:
                self._shipping.settle(_set_of(changed))
                _LOG.info("the in-sync set has %d member%s", len(members), "" if len(members) == 1 else "s")


def _set_of(view: ReplicaGroup) -> InSyncSet:
    return InSyncSet(frozenset(view.members), view.revision)
