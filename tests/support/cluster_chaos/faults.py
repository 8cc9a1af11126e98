"""Faults of processes, of the network and of disks. Each begins, lasts, and is healed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from random import Random
from typing import Final

from support.cluster_chaos.flips import flip_bit
from support.cluster_chaos.site import CLIENTS, GROUPS, Site
from support.hosts.network import CUT, Link
from support.hosts.process import HostProcess

__all__ = ["Faults"]

_WHOLE_WITHIN_S: Final = 120.0

Links = dict[tuple[str, str], Link]
Fault = Callable[[], AbstractAsyncContextManager[str]]


class Faults:
    """Faults by name. Each is a context that yields what it hit; ``chance`` chooses the targets."""

    def __init__(self, site: Site, chance: Random, *, has_power: bool, flips_bits: bool) -> None:
        self._site = site
        self._chance = chance
        self.by_name: dict[str, Fault] = {}
        for how, act in (("kill", self._kill), ("freeze", self._freeze), ("terminate", self._terminate)):
            for of in ("master", "follower", "majority of a group", "group", "nameserver", "etcd", "everything"):
                self.by_name[f"{how} {of}"] = self._process_fault(of, act)
        self.by_name["kill all nameservers"] = self._process_fault("all nameservers", self._kill)
        self.by_name["kill a majority of etcd"] = self._process_fault("majority of etcd", self._kill)
        self.by_name["freeze a majority of etcd"] = self._process_fault("majority of etcd", self._freeze)
        self.by_name["kill etcd's leader with the master"] = self._process_fault("etcd's leader and master", self._kill)
        for name, links in (
            ("partition: one", self._one),
            ("partition: halves", self._halves),
            ("partition: bridge", self._bridge),
            ("partition: one way", self._one_way),
            ("partition: clients only", self._clients_only),
            ("partition: master with one nameserver", self._one_nameserver),
            ("network: 100 ms delay", partial(self._everywhere, Link(delay_ms=100))),
            ("network: 5% loss", partial(self._everywhere, Link(loss=0.05))),
            ("network: 3 Mbit/s", partial(self._everywhere, Link(kbit_per_s=3_000))),
        ):
            self.by_name[name] = self._network_fault(links)
        self.by_name["wiped disk"] = self._wiped_disk
        if flips_bits:
            self.by_name["flipped bit"] = self._flipped_bit
        if has_power:
            for of in ("master", "follower", "group", "all brokers"):
                self.by_name[f"power cut of {of}"] = self._process_fault(of, self._cut_power)

    # Targets --------------------------------------------------------------------------------------

    async def _master(self) -> HostProcess:
        group = self._chance.choice(GROUPS)
        return await self._site.master(group) or self._chance.choice(self._site.replicas(group))

    async def _targets(self, of: str) -> list[HostProcess]:
        site, chance = self._site, self._chance
        match of:
            case "master":
                return [await self._master()]
            case "follower":
                master = await self._master()
                return [chance.choice([each for each in site.replicas(master.name[0]) if each is not master])]
            case "majority of a group":
                return chance.sample(site.replicas(chance.choice(GROUPS)), 2)
            case "group":
                return site.replicas(chance.choice(GROUPS))
            case "all brokers":
                return site.brokers
            case "nameserver":
                return [chance.choice(site.nameservers)]
            case "all nameservers":
                return site.nameservers
            case "etcd":
                return [chance.choice(site.etcd)]
            case "majority of etcd":
                return chance.sample(site.etcd, 2)
            case "etcd's leader and master":
                leader = await asyncio.to_thread(self._in_network, site.etcd_leader)
                return [leader or chance.choice(site.etcd), await self._master()]
            case "everything":
                return list(site.processes.values())
        raise AssertionError(of)

    def _in_network(self, call: Callable[[], HostProcess | None]) -> HostProcess | None:
        self._site.network.hosts[CLIENTS].enter()
        return call()

    # Processes ------------------------------------------------------------------------------------

    def _process_fault(
        self, of: str, act: Callable[[Sequence[HostProcess]], AbstractAsyncContextManager[None]]
    ) -> Fault:
        @asynccontextmanager
        async def fault() -> AsyncIterator[str]:
            targets = await self._targets(of)
            running = [each for each in targets if each.is_running]
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
            target.kill()  # without a majority, a process may not end in time
            target.start()

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
            yield "nothing: the group is not whole"
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
            yield "nothing: the group is not whole"
            return
        target.kill()
        view = (await self._site.views()).get(target.name[0])
        log_end = min((each.log_end for each in view.replicas), default=0) if view is not None else 0
        yield flip_bit(self._site.disks[target.name].path / "data" / "commitlog", log_end // 2, self._chance)
        target.start()
        await self._site.wait_whole(_WHOLE_WITHIN_S, [target.name[0]])

    # The network ----------------------------------------------------------------------------------

    def _network_fault(self, links: Callable[[], Awaitable[tuple[Links, str]]]) -> Fault:
        @asynccontextmanager
        async def fault() -> AsyncIterator[str]:
            limits, text = await links()
            self._site.network.set_links(limits)
            try:
                yield text
            finally:
                self._site.network.set_links({})

        return fault

    def _split(self, *between: str) -> tuple[set[str], set[str]]:
        """Return two random halves of all hosts but those ``between``."""
        names = [name for name in self._site.network.hosts if name not in between]
        one = set(self._chance.sample(names, len(names) // 2))
        return one, set(names) - one

    async def _one(self) -> tuple[Links, str]:
        alone = self._chance.choice([*self._site.processes])
        return self._apart({alone}, self._others(alone)), alone

    async def _halves(self) -> tuple[Links, str]:
        one, other = self._split()
        return self._apart(one, other), " ".join(sorted(one))

    async def _bridge(self) -> tuple[Links, str]:
        bridge = self._chance.choice([*self._site.processes])
        one, other = self._split(bridge)
        return self._apart(one, other), f"{' '.join(sorted(one))}, joined by {bridge}"

    async def _one_way(self) -> tuple[Links, str]:
        deaf = (
            (await self._master()).name if self._chance.random() < 0.5 else self._chance.choice([*self._site.processes])
        )
        others = self._others(deaf)
        if self._chance.random() < 0.5:
            return _between(others, {deaf}, CUT), f"{deaf} receives nothing"
        return _between({deaf}, others, CUT), f"{deaf} sends nothing"

    async def _clients_only(self) -> tuple[Links, str]:
        servers = {each.name for each in self._site.replicas(self._chance.choice(GROUPS))}
        if self._chance.random() < 0.5:
            servers = {(await self._master()).name}
        return self._apart({CLIENTS}, servers), " ".join(sorted(servers))

    async def _one_nameserver(self) -> tuple[Links, str]:
        master, nameserver = (await self._master()).name, self._chance.choice(self._site.nameservers).name
        return self._apart({master}, self._others(master, nameserver)), f"{master} with {nameserver}"

    async def _everywhere(self, link: Link) -> tuple[Links, str]:
        names = set(self._site.network.hosts)
        return _between(names, names, link), "all"

    def _others(self, *names: str) -> set[str]:
        return set(self._site.network.hosts) - set(names)

    @staticmethod
    def _apart(one: set[str], other: set[str]) -> Links:
        return _between(one, other, CUT) | _between(other, one, CUT)


def _between(senders: Iterable[str], receivers: set[str], link: Link) -> Links:
    return {(sender, receiver): link for sender in senders for receiver in receivers if sender != receiver}
