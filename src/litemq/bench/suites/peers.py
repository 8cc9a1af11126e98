"""``litemq bench suite peers``: the same workloads on LiteMQ and on the systems found beside it.

It uses what is installed: redis-server and redis-py, nats-server and nats-py, Kafka's jars (the
directory ``LITEMQ_BENCH_KAFKA``) with confluent-kafka or aiokafka, and RocketMQ's jars
(``LITEMQ_BENCH_ROCKETMQ``) with its Java client. Bodies have 1 KiB; servers and clients share this
machine. A run measures each workload on all systems in turn. LiteMQ is compared with the Python
clients.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from litemq.bench.peers.finding import find_peers
from litemq.bench.peers.peer import Measured, Peer, Promise, Workload, measure
from litemq.bench.suite import Figure, at_least

__all__ = ["figures"]

_SECONDS: Final = 5.0
_BACKLOG: Final = 300_000
_RATE: Final = 2_000
_WORKLOADS: Final[dict[Workload, str]] = {
    "awaited": "256 sends in flight, each awaited",
    "send_nowait": "as fast as the client batches",
    "consume": "a backlog read by a group with acknowledgements",
    "steady": "2,000 msg/s, from the scheduled time to the receipt",
}


def figures(scale: float) -> list[Figure]:
    """Return the figures of all peers, and by how much LiteMQ leads."""
    peers = find_peers()
    found: list[Figure] = []
    for workload in _WORKLOADS:
        measured = {peer: _Measurement(peer, workload, scale) for peer in peers if workload in peer.workloads}
        for one in measured.values():
            found += one.figures()
        for promise in ("memory", "disk"):
            found += _lead(workload, promise, {peer: one for peer, one in measured.items() if peer.promise == promise})
    return found


class _Measurement:
    """A workload on one peer, and its last result."""

    def __init__(self, peer: Peer, workload: Workload, scale: float) -> None:
        self._peer = peer
        self._workload: Workload = workload
        self._scale = scale
        self._amount = max(1_000, _BACKLOG * scale) if workload == "consume" else max(0.3, _SECONDS * scale)
        self.last = Measured(1.0, 0.0, 0.0, 1.0, 1.0)

    def _run(self) -> Measured:
        self.last = measure(self._peer, self._workload, self._amount, _RATE, self._scale)
        return self.last

    def figures(self) -> list[Figure]:
        name = f"{self._workload}_{self._peer.name}"
        what = f"{_WORKLOADS[self._workload]}: {self._peer.what}"
        rest = [
            Figure(f"{name}_client_cpu", "client's CPU per message of the same", "µs", lambda: self.last.client_cpu),
            Figure(f"{name}_server_cpu", "server's CPU per message of the same", "µs", lambda: self.last.server_cpu),
        ]
        if self._workload == "steady":
            p50 = Figure(f"{name}_p50", f"{what}, p50", "ms", lambda: self._run().p50)
            return [p50, Figure(f"{name}_p99", "the same, p99", "ms", lambda: self.last.p99), *rest]
        return [Figure(name, what, "msg/s", lambda: self._run().rate), *rest]


def _lead(workload: Workload, promise: Promise, measured: dict[Peer, _Measurement]) -> list[Figure]:
    """Return how LiteMQ compares with the best of the others that promise the same."""
    ours = next((one for peer, one in measured.items() if peer.is_ours), None)
    others = [one for peer, one in measured.items() if peer.is_python and not peer.is_ours]
    if ours is None or not others:
        return []
    name = f"{workload}_{promise}_lead"
    if workload != "steady":
        what = f"LiteMQ / the best of the other Python clients that promise the same ({promise})"
        return [Figure(name, what, "×", _ratio(lambda: ours.last.rate, lambda: max(_rates(others))), at_least(1))]
    what = f"lowest p99 of the other Python clients that promise the same ({promise}) / LiteMQ"
    lowest = _ratio(lambda: min(other.last.p99 for other in others), lambda: ours.last.p99)
    return [Figure(name, what, "×", lowest, at_least(1) if promise == "disk" else None)]


def _rates(measured: list[_Measurement]) -> list[float]:
    return [one.last.rate for one in measured]


def _ratio(dividend: Callable[[], float], divisor: Callable[[], float]) -> Callable[[], float]:
    return lambda: dividend() / divisor()
