"""The choice of the processes that a fault hits."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from random import Random

from support.cluster_chaos.site import CLIENTS, GROUPS, Site
from support.hosts.process import HostProcess

__all__ = ["Targets"]


class Targets:
    """Chooses processes of ``site`` by chance."""

    def __init__(self, site: Site, chance: Random) -> None:
        self._site = site
        self._chance = chance

    async def master(self) -> HostProcess:
        """Return the master of a group; a replica if the group has none."""
        group = self._chance.choice(GROUPS)
        return await self._site.master(group) or self._chance.choice(self._site.replicas(group))

    async def follower(self) -> HostProcess:
        master = await self.master()
        return self._chance.choice([each for each in self._site.replicas(master.name[0]) if each is not master])

    async def choose(self, of: str) -> list[HostProcess]:
        """Return the processes that ``of`` describes."""
        site, chance = self._site, self._chance
        match of:
            case "master":
                return [await self.master()]
            case "follower":
                return [await self.follower()]
            case "broker":
                return [chance.choice(site.brokers)]
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
                return [leader or chance.choice(site.etcd), await self.master()]
            case "everything":
                return list(site.processes.values())
        raise AssertionError(of)

    async def choose_running(self, of: str) -> list[HostProcess]:
        """Return those of ``choose`` that run; they may be frozen."""
        return [each for each in await self.choose(of) if each.is_running]

    def _in_network(self, call: Callable[[], HostProcess | None]) -> HostProcess | None:
        self._site.network.hosts[CLIENTS].enter()
        return call()
