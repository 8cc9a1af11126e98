"""Hosts in network namespaces, and a network between them that can be cut, delayed and slowed.

The namespaces have no names: they end with this process. It needs the rights of root, at least in
a user namespace of its own (``unshare --user --map-root-user``).
"""

from __future__ import annotations

import ctypes
import fcntl
import json
import os
import struct
import subprocess
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Final, NamedTuple, Self

__all__ = ["CUT", "Host", "Link", "Network"]

_TUN_SET: Final = 0x400454CA
_TUN_WITHOUT_HEADER: Final = 0x1001
_NEW_NETWORK: Final = 0x40000000
_MTU: Final = 65_000
_LIBC: Final = ctypes.CDLL(None, use_errno=True)


class Link(NamedTuple):
    """The limits of packets from one host to another; 0: none."""

    delay_ms: float = 0.0
    loss: float = 0.0
    kbit_per_s: float = 0.0


CUT: Final = Link(loss=1.0)


@dataclass(frozen=True)
class Host:
    """A host: its address, and a descriptor of its network namespace."""

    name: str
    address: str
    namespace: int

    def enter(self) -> None:
        """Let this thread, and the processes that it starts, use the network of this host."""
        _checked(_LIBC.setns(self.namespace, _NEW_NETWORK), "setns")


class Network:
    """Hosts by name. In the ``with`` block, this thread uses the network of the first one."""

    def __init__(self, names: Iterable[str]) -> None:
        self._names = list(names)
        self._devices: list[int] = []
        self.hosts: dict[str, Host] = {}

    def __enter__(self) -> Self:
        self._outside = os.open("/proc/thread-self/ns/net", os.O_RDONLY)
        try:
            for number, name in enumerate(self._names, 1):
                self._add(name, f"10.77.0.{number}")
        except BaseException:
            self._leave()
            raise
        arguments = [
            f"{device}={host.address}" for device, host in zip(self._devices, self.hosts.values(), strict=True)
        ]
        self._router = subprocess.Popen(
            [sys.executable, str(Path(__file__).with_name("router.py")), *arguments],
            pass_fds=self._devices,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        self.hosts[self._names[0]].enter()
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        self._router.kill()
        self._router.communicate()
        self._leave()

    def _leave(self) -> None:
        _checked(_LIBC.setns(self._outside, _NEW_NETWORK), "setns")
        for descriptor in (self._outside, *self._devices, *(host.namespace for host in self.hosts.values())):
            os.close(descriptor)

    def _add(self, name: str, address: str) -> None:
        _checked(_LIBC.unshare(_NEW_NETWORK), "unshare")
        self.hosts[name] = Host(name, address, os.open("/proc/thread-self/ns/net", os.O_RDONLY))
        device = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
        self._devices.append(device)
        fcntl.ioctl(device, _TUN_SET, struct.pack("16sH14x", b"net", _TUN_WITHOUT_HEADER))
        for command in (
            "link set lo up",
            f"addr add {address}/24 dev net",
            f"link set net up mtu {_MTU} txqueuelen 5000",
        ):
            subprocess.run(["ip", *command.split()], check=True)

    def set_links(self, links: Mapping[tuple[str, str], Link]) -> None:
        """Replace the limits of all links, by the names of sender and receiver."""
        lines = [
            [self.hosts[sender].address, self.hosts[receiver].address, *link]
            for (sender, receiver), link in links.items()
        ]
        assert self._router.stdin is not None
        assert self._router.stdout is not None
        self._router.stdin.write(json.dumps(lines).encode() + b"\n")
        self._router.stdin.flush()
        assert self._router.stdout.readline() == b"ok\n"


def _checked(status: int, what: str) -> None:
    if status:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")
