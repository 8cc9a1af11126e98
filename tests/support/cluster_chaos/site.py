"""A cluster on hosts of its own: NameServers, etcd, and replicated groups of brokers."""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
import urllib.request
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from litemq.errors import LiteMQError
from litemq.net.client import Peer
from litemq.proto.wire_pb2 import Opcode, ReplicaGroup, ReplicaGroupsAnswer
from support.hosts import clock as clock_program
from support.hosts.clock import HostClock
from support.hosts.disk import Disk
from support.hosts.network import Network
from support.hosts.process import HostProcess

__all__ = ["CLIENTS", "GROUPS", "Site", "site"]

CLIENTS: Final = "clients"
GROUPS: Final = ("a", "b")
LEASE: Final = "2s"  # etcd's least
_REPLICAS: Final = 3
_NAMESERVERS: Final = ("n1", "n2", "n3")
_ETCD: Final = ("e1", "e2", "e3")
_PORT: Final = 9876
_ASK_S: Final = 1.0
_POLL_S: Final = 0.1


@dataclass
class Site:
    """The running cluster. Processes have the names of their hosts; brokers are ``a1`` … ``b3``."""

    network: Network
    processes: dict[str, HostProcess] = field(default_factory=dict)
    disks: dict[str, Disk] = field(default_factory=dict)
    clocks: dict[str, HostClock] = field(default_factory=dict)  # of NameServers and brokers

    @property
    def nameservers(self) -> list[HostProcess]:
        return [self.processes[name] for name in _NAMESERVERS]

    @property
    def etcd(self) -> list[HostProcess]:
        return [self.processes[name] for name in _ETCD]

    @property
    def brokers(self) -> list[HostProcess]:
        return [broker for group in GROUPS for broker in self.replicas(group)]

    def replicas(self, group: str) -> list[HostProcess]:
        return [process for name, process in self.processes.items() if name.rstrip("123") == group]

    @property
    def url(self) -> str:
        return "litemq://" + ",".join(f"{each.host.address}:{_PORT}" for each in self.nameservers)

    async def views(self) -> dict[str, ReplicaGroup]:
        """Return the latest view of each group that a NameServer has; empty if none answers."""
        answers = await asyncio.gather(*(_ask(each.host.address) for each in self.nameservers))
        views: dict[str, ReplicaGroup] = {}
        for view in (view for answer in answers for view in answer):
            known = views.get(view.name)
            if known is None or (view.epoch, view.revision) > (known.epoch, known.revision):
                views[view.name] = view
        return views

    async def master(self, group: str) -> HostProcess | None:
        """Return the master of ``group``, as the NameServers know it."""
        view = (await self.views()).get(group)
        if view is None:
            return None
        return next((self.processes[each.broker_id] for each in view.replicas if each.store_id == view.holder), None)

    def etcd_leader(self) -> HostProcess | None:
        """Return the leader of etcd, if one of its members knows it."""
        for member in self.etcd:
            with contextlib.suppress(OSError, ValueError, KeyError):
                url = f"http://{member.host.address}:2379/v3/maintenance/status"
                with urllib.request.urlopen(url, b"{}", _ASK_S) as answer:
                    status = json.load(answer)
                    if status["leader"] == status["header"]["member_id"]:
                        return member
        return None

    async def wait_whole(self, within: float, groups: Iterable[str] = GROUPS) -> str:
        """Wait until each group has a master and all replicas in sync; return what is missing."""
        until = asyncio.get_running_loop().time() + within
        while True:
            views = await self.views()
            missing = [problem for group in groups if (problem := _problem(views.get(group)))]
            if not missing or asyncio.get_running_loop().time() > until:
                return "; ".join(missing)
            await asyncio.sleep(_POLL_S)


def _problem(view: ReplicaGroup | None) -> str:
    if view is None:
        return "no NameServer knows a group"
    alive = sum(each.alive and each.store_id in view.members for each in view.replicas)
    if view.is_leased and alive == _REPLICAS:
        return ""
    return f"group {view.name}: epoch {view.epoch}, {alive} of {_REPLICAS} in sync and alive; {view.obstacle}"


async def _ask(address: str) -> list[ReplicaGroup]:
    peer: Peer | None = None
    try:
        peer = await Peer.connect(address, _PORT, client_id="chaos", timeout=_ASK_S)
        answer = await peer.request(Opcode.LIST_REPLICA_GROUPS, b"", timeout=_ASK_S)
        return list(ReplicaGroupsAnswer.FromString(answer.header).groups)
    except LiteMQError:
        return []
    finally:
        if peer is not None:
            peer.close()


@contextmanager
def site(folder: Path, *, has_power: bool, on_problem: Callable[[str], None]) -> Iterator[Site]:
    """Start the cluster. ``has_power``: the disks of brokers are file systems of their own."""
    brokers = [f"{group}{number}" for group in GROUPS for number in range(1, _REPLICAS + 1)]
    with ExitStack() as stack:
        network = stack.enter_context(Network([CLIENTS, *_NAMESERVERS, *_ETCD, *brokers]))
        cluster = Site(network)
        for name in brokers:
            cluster.disks[name] = Disk(folder / name, is_own=has_power)
            stack.callback(cluster.disks[name].close)
        for name in (*_NAMESERVERS, *brokers):
            cluster.clocks[name] = HostClock(folder / f"{name}.clock")
        for name, command in _commands(cluster, folder, brokers).items():
            process = HostProcess(network.hosts[name], command, folder / f"{name}.log")
            cluster.processes[name] = process
            stack.callback(process.kill)
        for process in cluster.processes.values():
            process.start()
        yield cluster
        for process in cluster.processes.values():
            process.note_end()
            for end in process.ended:
                on_problem(end)


def _commands(cluster: Site, folder: Path, brokers: list[str]) -> dict[str, list[str]]:
    address = {name: host.address for name, host in cluster.network.hosts.items()}
    commands = {}
    for name in _ETCD:
        peer, client = f"http://{address[name]}:2380", f"http://{address[name]}:2379"
        commands[name] = ["etcd", "--name", name, "--data-dir", str(folder / name), "--logger=zap", "--log-level=error"]
        commands[name] += ["--listen-client-urls", client, "--advertise-client-urls", client]
        commands[name] += ["--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer]
        commands[name] += ["--initial-cluster", ",".join(f"{each}=http://{address[each]}:2380" for each in _ETCD)]
    for name in _NAMESERVERS:
        commands[name] = [*_litemq(cluster, name), "nameserver"]
        commands[name] += [f"--host={address[name]}", f"--port={_PORT}", "--insecure"]
        commands[name] += [f"--data-path={folder / name}", "--store-kind=etcd", f"--master-lease={LEASE}"]
        commands[name] += ["--etcd-endpoints=" + ",".join(f"{address[each]}:2379" for each in _ETCD)]
    nameservers = ",".join(f"{address[each]}:{_PORT}" for each in _NAMESERVERS)
    for name in brokers:
        commands[name] = [*_litemq(cluster, name), "broker", "--experimental"]
        commands[name] += [f"--host={address[name]}", "--port=10911", "--insecure"]
        commands[name] += [f"--broker-id={name}", f"--broker-name={name[0]}", f"--nameserver={nameservers}"]
        commands[name] += [f"--data-path={cluster.disks[name].path / 'data'}", "--file-size=8MiB"]
        commands[name] += [f"--replicas={_REPLICAS}", "--disk-clean-percent=100", "--disk-refuse-percent=100"]
    return commands


def _litemq(cluster: Site, name: str) -> list[str]:
    """Return the command line of ``litemq`` with the clock of the host ``name``."""
    return [sys.executable, "-P", str(clock_program.__file__), str(cluster.clocks[name].file)]
