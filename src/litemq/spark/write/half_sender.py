"""Sender of halves: records that are not delivered until the driver commits their attempt.

Several requests are in flight at once, to several queues and brokers. Each carries the number of
records that the attempt has sent to its queue before, so a broker recognizes a resent request and
does not store it twice. If a broker goes down, the sender retries.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Final, NamedTuple

from litemq.errors import LiteMQError, ProtocolError
from litemq.net.blocking import BlockingPeer
from litemq.proto.wire_pb2 import Attempt, Opcode, SendHalvesAnswer, SendHalvesRequest
from litemq.spark.brokers import BlockingCluster, RetryDeadline
from litemq.spark.write.destinations import Queue

__all__ = ["HalfSender", "attempt_transaction"]

_WINDOW_BYTES: Final = 8 << 20  # in flight per broker: enough to receive while the broker syncs


def attempt_transaction(attempt: Attempt) -> str:
    """Return the transaction id of an attempt's records."""
    return f"{attempt.query}/{attempt.batch}/{attempt.partition}/{attempt.attempt}"


class _Request(NamedTuple):
    header: bytes
    records: memoryview
    next: int  # number of the attempt's records in the queue once this request is stored


class _BrokerWindow:
    """The requests in flight to one broker, in the order of sending."""

    def __init__(self, broker: str, cluster: BlockingCluster) -> None:
        self._broker = broker
        self._cluster = cluster
        self._peer: BlockingPeer | None = None
        self._in_flight: deque[tuple[int, _Request]] = deque()
        self._unsent: deque[_Request] = deque()  # new, or to be resent
        self.bytes = 0
        self.count = 0

    @property
    def is_idle(self) -> bool:
        return not self._in_flight and not self._unsent

    def send(self, request: _Request) -> None:
        self.bytes += len(request.records)
        self._unsent.append(request)
        self._retry(self._ask)

    def settle(self) -> None:
        """Wait until the oldest request is answered."""
        self._retry(self._settle)

    def _retry(self, step: Callable[[], object]) -> None:
        deadline = RetryDeadline(self._cluster.retry_timeout_s)
        while True:
            try:
                step()
                return
            except LiteMQError as error:
                # Later requests in flight failed too, or the broker recognizes them when they are
                # resent.
                self._requeue()
                self._cluster.handle_failure(self._broker, error, deadline)

    def _ask(self) -> BlockingPeer:
        peer = self._cluster.peer(self._broker)
        if peer is not self._peer:
            self._requeue()
            self._peer = peer
        while self._unsent:
            number = peer.ask(Opcode.SEND_HALVES, self._unsent[0].header, self._unsent[0].records)
            self._in_flight.append((number, self._unsent.popleft()))
        return peer

    def _settle(self) -> None:
        peer = self._ask()
        number, request = self._in_flight[0]
        answer = SendHalvesAnswer.FromString(peer.answer(number).header)
        if answer.next < request.next:
            raise ProtocolError(f"broker {self._broker!r} stored {answer.next} of {request.next} records")
        self._in_flight.popleft()
        self.bytes -= len(request.records)

    def _requeue(self) -> None:
        for number, _ in self._in_flight:
            if self._peer is not None:
                self._peer.forget(number)
        self._unsent.extendleft(request for _, request in reversed(self._in_flight))
        self._in_flight.clear()


class HalfSender:
    """The sender of one attempt's halves to all brokers."""

    def __init__(self, cluster: BlockingCluster, attempt: Attempt) -> None:
        self._cluster = cluster
        self._attempt = attempt
        self._windows: dict[str, _BrokerWindow] = {}
        self._sent: dict[tuple[str, str, int], int] = {}

    def send(self, topic: str, queue: Queue, records: memoryview, count: int) -> None:
        """Send ``count`` records; wait while the window of the broker is full."""
        key = queue.broker, topic, queue.queue_id
        first = self._sent.get(key, 0)
        self._sent[key] = first + count
        header = SendHalvesRequest(
            topic=topic, queue_id=queue.queue_id, attempt=self._attempt, first=first
        ).SerializeToString()
        window = self._windows.get(queue.broker)
        if window is None:
            window = self._windows[queue.broker] = _BrokerWindow(queue.broker, self._cluster)
        window.send(_Request(header, records, first + count))
        window.count += count
        while window.bytes > _WINDOW_BYTES:
            window.settle()

    def finish(self) -> dict[str, int]:
        """Wait until all records are stored. Return the number of records per broker."""
        for window in self._windows.values():
            while not window.is_idle:
                window.settle()
        return {broker: window.count for broker, window in self._windows.items()}
