"""A router between network namespaces: ``python router.py FD=IP …``.

Each namespace has a TUN device, whose descriptor is inherited. The router forwards packets with the
delay, loss and rate of the link between sender and receiver. A line of JSON on standard input
replaces all links: ``[[sender, receiver, delay_ms, loss, kbit_per_s], …]``; the answer is ``ok``.
Pairs without a link have no limits. It ends with its input.
"""

from __future__ import annotations

import contextlib
import ctypes
import heapq
import json
import os
import random
import select
import signal
import sys
import time
from typing import Final

_MAX_PACKET: Final = 65_536
_MAX_TURN: Final = 64  # packets of one device before the others' turn
_MAX_QUEUE_S: Final = 1.0  # of a link with a rate; more is dropped
_SENDER: Final = slice(12, 16)  # of an IPv4 packet
_RECEIVER: Final = slice(16, 20)

Pair = tuple[bytes, bytes]


class Router:
    """Packets on their way, and the limits of the links."""

    def __init__(self, devices: dict[bytes, int]) -> None:
        """``devices`` are descriptors by address."""
        self._devices = devices
        self._links: dict[Pair, tuple[float, float, float]] = {}  # delay (s), loss, bytes per second
        self._busy_until: dict[Pair, float] = {}
        self._waiting: list[tuple[float, int, int, bytes]] = []  # due, number, device, packet
        self._count = 0
        self._chance = random.Random(1)
        self._unread = b""

    def run(self) -> None:
        """Forward packets until the input ends."""
        poll = select.epoll()
        for descriptor in (*self._devices.values(), sys.stdin.fileno()):
            poll.register(descriptor, select.EPOLLIN)
        while True:
            timeout = max(0.0, self._waiting[0][0] - time.monotonic()) if self._waiting else None
            for descriptor, _ in poll.poll(timeout):
                if descriptor != sys.stdin.fileno():
                    self._forward_from(descriptor)
                elif not self._read_links():
                    return
            self._send_due()

    def _read_links(self) -> bool:
        data = os.read(sys.stdin.fileno(), _MAX_PACKET)
        *lines, self._unread = (self._unread + data).split(b"\n")
        for line in lines:
            self._links = {
                (_packed(sender), _packed(receiver)): (delay_ms / 1e3, loss, kbit_per_s * 125)
                for sender, receiver, delay_ms, loss, kbit_per_s in json.loads(line)
            }
            print("ok", flush=True)  # noqa: T201
        return bool(data)

    def _forward_from(self, descriptor: int) -> None:
        for _ in range(_MAX_TURN):
            try:
                packet = os.read(descriptor, _MAX_PACKET)
            except BlockingIOError:
                return
            device = self._devices.get(packet[_RECEIVER])
            if device is None:
                continue
            pair = packet[_SENDER], packet[_RECEIVER]
            link = self._links.get(pair)
            if link is None:
                _write(device, packet)
            else:
                self._delay(pair, link, device, packet)

    def _delay(self, pair: Pair, link: tuple[float, float, float], device: int, packet: bytes) -> None:
        delay, loss, rate = link
        if loss and self._chance.random() < loss:
            return
        due = time.monotonic()
        if rate:
            begin = max(due, self._busy_until.get(pair, 0.0))
            if begin - due > _MAX_QUEUE_S:
                return
            due = self._busy_until[pair] = begin + len(packet) / rate
        self._count += 1
        heapq.heappush(self._waiting, (due + delay, self._count, device, packet))

    def _send_due(self) -> None:
        now = time.monotonic()
        while self._waiting and self._waiting[0][0] <= now:
            _, _, device, packet = heapq.heappop(self._waiting)
            _write(device, packet)


def _write(device: int, packet: bytes) -> None:
    with contextlib.suppress(OSError):  # a full device loses packets, as a network does
        os.write(device, packet)


def _packed(address: str) -> bytes:
    return bytes(map(int, address.split(".")))


if __name__ == "__main__":
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # ends with the process that started it
    pairs = (argument.split("=") for argument in sys.argv[1:])
    Router({_packed(address): int(descriptor) for descriptor, address in pairs}).run()
