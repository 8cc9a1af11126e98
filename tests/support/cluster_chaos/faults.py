"""Faults of processes, of the network, of disks, of clocks. Each begins, lasts, and is healed."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from random import Random
from typing import Final, NamedTuple

from support.cluster_chaos.clock_faults import ClockFaults
from support.cluster_chaos.flips import flip_bit
from support.cluster_chaos.network_faults import NetworkFaults
from support.cluster_chaos.site import Site
from support.cluster_chaos.targets import Targets
from support.hosts.process import HostProcess

__all__ = ["Fault", "Faults"]

_WHOLE_WITHIN_S: Final = 120.0

Act = Callable[[Sequence[HostProcess]], AbstractAsyncContextManager[None]]


class Fault(NamedTuple):
    """A fault. ``begin`` is a context that yields what it hit: nothing if that is empty."""

    category: str
    begin: Callable[[], AbstractAsyncContextManager[str]]


class Faults:
    """Faults by name. ``chance`` chooses the processes that they hit."""

    def __init__(self, site: Site, chance: Random, *, has_power: bool) -> None:
        self._site = site
        self._chance = chance
        self._targets = targets = Targets(site, chance)
        self.clocks = ClockFaults(site, targets, chance)
        self.by_name: dict[str, Fault] = {}
        for how, act in (("kill", self._kill), ("freeze", self._freeze), ("terminate", self._terminate)):
            for of in ("master", "follower", "majority of a group", "group", "nameserver", "etcd", "everything"):
                self._add("process", f"{how} {of}", self._process_fault(of, act))
        self._add("process", "kill all nameservers", self._process_fault("all nameservers", self._kill))
        self._add("process", "kill a majority of etcd", self._process_fault("majority of etcd", self._kill))
        self._add("process", "freeze a majority of etcd", self._process_fault("majority of etcd", self._freeze))
        both = self._process_fault("etcd's leader and master", self._kill)
        self._add("combined", "kill etcd's leader with the master", both)
        for name, begin in NetworkFaults(site, targets, chance).by_name.items():
            self._add("network", name, begin)
        self._add("disk", "wiped disk", self._wiped_disk)
        self._add("disk", "flipped bit", self._flipped_bit)
        if has_power:
            for of in ("master", "follower", "group", "all brokers"):
                self._add("disk", f"power cut of {of}", self._process_fault(of, self._cut_power))
        for name, begin in self.clocks.by_name.items():
            self._add("clock", name, begin)

    def _add(self, category: str, name: str, begin: Callable[[], AbstractAsyncContextManager[str]]) -> None:
        self.by_name[name] = Fault(category, begin)

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

    # Disks ----------------------------------------------------------------------------------------

    @asynccontextmanager
    async def _cut_power(self, targets: Sequence[HostProcess]) -> AsyncIterator[None]:
        for target in targets:
            self._site.disks[target.name].cut_power()
            target.kill()
        yield
        for target in targets:
            self._site.disks[target.name].restore_power()
            target.start()

    @asynccontextmanager
    async def _wiped_disk(self) -> AsyncIterator[str]:
        """Give a replica of a whole group an empty disk: its group survives the loss of one."""
        target = self._chance.choice(self._site.brokers)
        if await self._site.wait_whole(_WHOLE_WITHIN_S, [target.name[0]]):
            yield ""
            return
        target.kill()
        self._site.disks[target.name].wipe()
        yield target.name
        target.start()
        await self._site.wait_whole(_WHOLE_WITHIN_S, [target.name[0]])

    @asynccontextmanager
    async def _flipped_bit(self) -> AsyncIterator[str]:
        """Flip a bit of a flushed record in the log of one replica: the others can repair it."""
        target = self._chance.choice(self._site.brokers)
        if await self._site.wait_whole(_WHOLE_WITHIN_S, [target.name[0]]):
            yield ""
            return
        target.kill()
        view = (await self._site.views()).get(target.name[0])
        log_end = min((each.log_end for each in view.replicas), default=0) if view is not None else 0
        yield flip_bit(self._site.disks[target.name].path / "data" / "commitlog", log_end // 2, self._chance)
        target.start()
        await self._site.wait_whole(_WHOLE_WITHIN_S, [target.name[0]])
