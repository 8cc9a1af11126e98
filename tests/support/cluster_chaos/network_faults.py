"""Faults of the network: partitions, and slow and lossy links."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from random import Random

from support.cluster_chaos.site import CLIENTS, GROUPS, Site
from support.cluster_chaos.targets import Targets
from support.hosts.network import CUT, Link

__all__ = ["NetworkFaults"]

Links = dict[tuple[str, str], Link]


class NetworkFaults:
    """Faults by name. Several may last at the same time: a packet has the limits of all of them."""

    def __init__(self, site: Site, targets: Targets, chance: Random) -> None:
        self._site = site
        self._targets = targets
        self._chance = chance
        self._active: list[Links] = []
        self.by_name: dict[str, Callable[[], AbstractAsyncContextManager[str]]] = {
            name: self._fault(links)
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
            )
        }

    def _fault(
        self, links: Callable[[], Awaitable[tuple[Links, str]]]
    ) -> Callable[[], AbstractAsyncContextManager[str]]:
        @asynccontextmanager
        async def fault() -> AsyncIterator[str]:
            limits, text = await links()
            self._active.append(limits)
            self._site.network.set_links(self._limits())
            try:
                yield text
            finally:
                self._active = [each for each in self._active if each is not limits]
                self._site.network.set_links(self._limits())

        return fault

    def _limits(self) -> Links:
        """Return the limits of all faults together."""
        limits: Links = {}
        for links in self._active:
            for pair, link in links.items():
                limits[pair] = _both(limits[pair], link) if pair in limits else link
        return limits

    # Links ----------------------------------------------------------------------------------------

    def _split(self, *between: str) -> tuple[set[str], set[str]]:
        """Return two random halves of all hosts but those ``between``."""
        names = [name for name in self._site.network.hosts if name not in between]
        one = set(self._chance.sample(names, len(names) // 2))
        return one, set(names) - one

    async def _one(self) -> tuple[Links, str]:
        alone = self._chance.choice([*self._site.processes])
        return _apart({alone}, self._others(alone)), alone

    async def _halves(self) -> tuple[Links, str]:
        one, other = self._split()
        return _apart(one, other), " ".join(sorted(one))

    async def _bridge(self) -> tuple[Links, str]:
        bridge = self._chance.choice([*self._site.processes])
        one, other = self._split(bridge)
        return _apart(one, other), f"{' '.join(sorted(one))}, joined by {bridge}"

    async def _one_way(self) -> tuple[Links, str]:
        is_master = self._chance.random() < 0.5
        deaf = (await self._targets.master()).name if is_master else self._chance.choice([*self._site.processes])
        others = self._others(deaf)
        if self._chance.random() < 0.5:
            return _between(others, {deaf}, CUT), f"{deaf} receives nothing"
        return _between({deaf}, others, CUT), f"{deaf} sends nothing"

    async def _clients_only(self) -> tuple[Links, str]:
        servers = {each.name for each in self._site.replicas(self._chance.choice(GROUPS))}
        if self._chance.random() < 0.5:
            servers = {(await self._targets.master()).name}
        return _apart({CLIENTS}, servers), " ".join(sorted(servers))

    async def _one_nameserver(self) -> tuple[Links, str]:
        master, nameserver = (await self._targets.master()).name, self._chance.choice(self._site.nameservers).name
        return _apart({master}, self._others(master, nameserver)), f"{master} with {nameserver}"

    async def _everywhere(self, link: Link) -> tuple[Links, str]:
        names = set(self._site.network.hosts)
        return _between(names, names, link), "all"

    def _others(self, *names: str) -> set[str]:
        return set(self._site.network.hosts) - set(names)


def _apart(one: set[str], other: set[str]) -> Links:
    return _between(one, other, CUT) | _between(other, one, CUT)


def _between(senders: Iterable[str], receivers: set[str], link: Link) -> Links:
    return {(sender, receiver): link for sender in senders for receiver in receivers if sender != receiver}


def _both(one: Link, other: Link) -> Link:
    """Return the limits of a link with two faults."""
    rates = [link.kbit_per_s for link in (one, other) if link.kbit_per_s]
    loss = 1 - (1 - one.loss) * (1 - other.loss)
    return Link(one.delay_ms + other.delay_ms, loss, min(rates, default=0.0))
