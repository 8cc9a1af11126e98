"""The network of a simulation: a connection carries a stream without gaps, or it ends."""

from __future__ import annotations

import asyncio
import random

from support.on_loop import on_loop
from support.sim.network import Network, Side
from support.sim.process import Host
from support.waiting import eventually


class _Received(asyncio.Protocol):
    """What arrives at one side."""

    def __init__(self) -> None:
        self.pieces: list[bytes] = []
        self.error: Exception | None = None

    def data_received(self, data: bytes) -> None:
        self.pieces.append(data)

    def connection_lost(self, error: Exception | None) -> None:
        self.error = error


@on_loop
async def test_nothing_arrives_after_what_a_reset_has_lost() -> None:
    network = Network(asyncio.get_running_loop(), random.Random(1), lambda *_: None)
    sides = [Side(network, None, Host(name), (name, 1)) for name in "ab"]
    sides[0].peer, sides[1].peer = sides[1], sides[0]
    received = [_Received(), _Received()]
    for side, protocol in zip(sides, received, strict=True):
        side.open(lambda protocol=protocol: protocol)  # type: ignore[misc]
    network._sides = sides
    sides[0].write(b"first")
    await eventually(lambda: received[1].pieces == [b"first"])
    sides[0].write(b"lost")
    network.reset_connection()
    for side in sides:
        side.write(b"later")
    await eventually(lambda: all(isinstance(each.error, ConnectionResetError) for each in received))
    assert [each.pieces for each in received] == [[], [b"first"]]
