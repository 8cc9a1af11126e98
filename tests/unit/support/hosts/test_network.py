"""The network between hosts in namespaces: links that are cut, slow, delayed or lossy."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from support.hosts.network import CUT, Link, Network

_PORT = 7000


class _Ends:
    """A datagram socket on each of two hosts."""

    def __init__(self, network: Network, stack: ExitStack) -> None:
        self.network = network
        self.sockets = {}
        for name in ("a", "b"):
            network.hosts[name].enter()
            self.sockets[name] = stack.enter_context(socket.socket(type=socket.SOCK_DGRAM))
            self.sockets[name].bind((network.hosts[name].address, _PORT))
            self.sockets[name].settimeout(60)

    def send(self, sender: str, receiver: str, data: bytes) -> None:
        self.sockets[sender].sendto(data, (self.network.hosts[receiver].address, _PORT))

    def receive(self, receiver: str) -> bytes:
        return self.sockets[receiver].recv(65_536)

    def pass_through(self, sender: str, receiver: str, data: bytes) -> bytes:
        """Send over links without limits; return what arrives first."""
        self.network.set_links({})
        self.send(sender, receiver, data)
        return self.receive(receiver)


@pytest.fixture
def ends() -> Iterator[_Ends]:
    with ExitStack() as stack:
        try:
            network = stack.enter_context(Network(["a", "b"]))
        except OSError as error:
            pytest.skip(f"cannot create network namespaces: {error}")
        yield _Ends(network, stack)


def test_packets_pass_in_both_directions(ends: _Ends) -> None:
    assert ends.pass_through("a", "b", b"x" * 50_000) == b"x" * 50_000
    assert ends.pass_through("b", "a", b"back") == b"back"


def test_a_cut_link_loses_the_packets_of_one_direction(ends: _Ends) -> None:
    ends.network.set_links({("a", "b"): CUT})
    ends.send("a", "b", b"lost")
    ends.send("b", "a", b"other way")
    assert ends.receive("a") == b"other way"
    assert ends.pass_through("a", "b", b"healed") == b"healed"


def test_a_delayed_packet_is_overtaken(ends: _Ends) -> None:
    ends.network.set_links({("a", "b"): Link(delay_ms=500)})
    ends.send("a", "b", b"first")
    ends.send("b", "a", b"passed")  # the router has read the first packet by now
    assert ends.receive("a") == b"passed"
    assert ends.pass_through("a", "b", b"second") == b"second"
    assert ends.receive("b") == b"first"


def test_a_slow_link_delays_the_packet_behind_a_large_one(ends: _Ends) -> None:
    ends.network.set_links({("a", "b"): Link(kbit_per_s=1_000)})
    for number in range(2):
        ends.send("a", "b", bytes([number]) * 50_000)  # 0.4 s each
    ends.send("b", "a", b"passed")
    assert ends.receive("a") == b"passed"
    assert ends.pass_through("a", "b", b"fast") == b"fast"
    assert [ends.receive("b")[:1] for _ in range(2)] == [b"\x00", b"\x01"]


def test_a_lossy_link_loses_some_packets(ends: _Ends) -> None:
    ends.network.set_links({("a", "b"): Link(loss=0.5)})
    for number in range(64):
        ends.send("a", "b", bytes([number]))
    ends.send("b", "a", b"passed")
    assert ends.receive("a") == b"passed"
    ends.network.set_links({})
    ends.send("a", "b", b"end")
    arrived = []
    while (data := ends.receive("b")) != b"end":
        arrived.append(data[0])
    assert arrived == sorted(arrived)
    assert 0 < len(arrived) < 64
