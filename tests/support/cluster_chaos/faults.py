"""Faults of processes, of the network, of disks, of clocks. Each begins, lasts, and is healed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from random import Random
from typing import Final, NamedTuple

from litemq.client.async_client import AsyncClient
from litemq.errors import LiteMQError
from support.cluster_chaos.clock_faults import ClockFaults
from support.cluster_chaos.disk_faults import DiskFaults
from support.cluster_chaos.network_faults import NetworkFaults
from support.cluster_chaos.site import GROUPS, Site
from support.cluster_chaos.targets import Targets
from support.hosts.process import HostProcess

__all__ = ["CATEGORIES", "Fault", "Faults"]

CATEGORIES: Final = ("process", "network", "disk", "clock", "combined")

_SWITCHED_WITHIN_S: Final = 10.0

Act = Callable[[Sequence[HostProcess]], AbstractAsyncContextManager[None]]


class Fault(NamedTuple):
    """A fault. ``begin`` is a context that yields what it hit: nothing if that is empty."""

    category: str
    begin: Callable[[], AbstractAsyncContextManager[str]]
    is_of_whole_group: bool = False  # it waits until a group is whole


class Faults:
    """Faults by name. ``chance`` chooses the processes that they hit."""

    def __init__(self, site: Site, chance: Random, *, has_power: bool) -> None:
        self._site = site
        self._chance = chance
        self._targets = targets = Targets(site, chance)
        self.clocks = ClockFaults(site, targets, chance)
        self.disks = DiskFaults(site, targets, chance, has_power=has_power)
        self.by_name: dict[str, Fault] = {}
        for how, act in (("kill", self._kill), ("freeze", self._freeze), ("terminate", self._terminate)):
            for of in ("master", "follower", "majority of a group", "group", "nameserver", "etcd", "everything"):
                self._add("process", f"{how} {of}", self._process_fault(of, act))
        self._add("process", "kill all nameservers", self._process_fault("all nameservers", self._kill))
        self._add("process", "kill a majority of etcd", self._process_fault("majority of etcd", self._kill))
        self._add("process", "freeze a majority of etcd", self._process_fault("majority of etcd", self._freeze))
        both = self._process_fault("etcd's leader and master", self._kill)
        self._add("combined", "kill etcd's leader with the master", both)
        self._add("process", "planned switch", self._switch)
        for name, begin in NetworkFaults(site, targets, chance).by_name.items():
            self._add("network", name, begin)
        for name, begin in self.disks.power_cuts.items():
            self._add("disk", name, begin)
        for name, begin in self.disks.of_whole_groups.items():
            self._add("disk", name, begin, is_of_whole_group=True)
        for name, begin in self.clocks.by_name.items():
            self._add("clock", name, begin)

    def _add(
        self,
        category: str,
        name: str,
        begin: Callable[[], AbstractAsyncContextManager[str]],
        *,
        is_of_whole_group: bool = False,
    ) -> None:
        self.by_name[name] = Fault(category, begin, is_of_whole_group=is_of_whole_group)

    # Processes ------------------------------------------------------------------------------------

    def _process_fault(self, of: str, act: Act) -> Callable[[], AbstractAsyncContextManager[str]]:
        @asynccontextmanager
        async def fault() -> AsyncIterator[str]:
            running = await self._targets.choose_running(of)
            async with act(running):
                yield " ".join(each.name for each in running)

        return fault

    @asynccontextmanager
    async def _kill(self, targets: Sequence[HostProcess]) -> AsyncIterator[None]:
        for target in targets:
            target.kill()
        yield
        for target in targets:
            target.start()

    @asynccontextmanager
    async def _terminate(self, targets: Sequence[HostProcess]) -> AsyncIterator[None]:
        for target in targets:
            target.terminate()
        yield
        for target in targets:
            target.restart()  # without a majority, a process may not end in time

    @asynccontextmanager
    async def _freeze(self, targets: Sequence[HostProcess]) -> AsyncIterator[None]:
        for target in targets:
            target.freeze()
        yield
        for target in targets:
            target.thaw()

    @asynccontextmanager
    async def _switch(self) -> AsyncIterator[str]:
        """Let the master of a group hand over. During other faults, it may refuse to."""
        try:
            async with asyncio.timeout(_SWITCHED_WITHIN_S), AsyncClient(self._site.url) as mq:
                done = await mq.admin.switch_master(self._chance.choice(GROUPS))
        except (LiteMQError, TimeoutError):
            yield ""
        else:
            yield f"{done.former} to {done.master}, requests paused for {done.pause_ms:.0f} ms"
