"""Sending halves: records that nobody sees until the driver says that they count.

Several requests are on their way at once, to several queues and brokers. Each says how many records the attempt sent to its queue before, so
that what is sent again after a broken connection is known by its number and not stored twice; a broker that goes away is waited for.
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

_WINDOW_BYTES: Final = 8 << 20  # on their way at once: what a broker takes in while it syncs what came before


def attempt_transaction(attempt: Attempt) -> str:
    """The transaction id that the records of an attempt carry."""
    return f"{attempt.query}/{attempt.batch}/{attempt.partition}/{attempt.attempt}"


class _Request(NamedTuple):
    header: bytes
    records: memoryview
    next: int  # how many records its queue has of this attempt once it is stored


class _BrokerWindow:
    """The requests under way to one broker, in the order in which they were sent."""

    def __init__(self, broker: str, cluster: BlockingCluster) -> None:
        self._broker = broker
        self._cluster = cluster
        self._peer: BlockingPeer | None = None
        self._in_flight: deque[tuple[int, _Request]] = deque()
        self._unsent: deque[_Request] = deque()  # new, or to be sent again
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
                # What was asked behind it was refused, too, or is known when it comes again.
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
            raise ProtocolError(f"broker {self._broker!r} took {answer.next} records of {request.next}")
        self._in_flight.popleft()
        self.bytes -= len(request.records)

    def _requeue(self) -> None:
        for number, _ in self._in_flight:
            if self._peer is not None:
                self._peer.forget(number)
        self._unsent.extendleft(request for _, request in reversed(self._in_flight))
        self._in_flight.clear()


class HalfSender:
    """One attempt's halves, on their way to all brokers."""

    def __init__(self, cluster: BlockingCluster, attempt: Attempt) -> None:
        self._cluster = cluster
        self._attempt = attempt
        self._windows: dict[str, _BrokerWindow] = {}
        self._sent: dict[tuple[str, str, int], int] = {}

    def send(self, topic: str, queue: Queue, records: memoryview, count: int) -> None:
        """Send records, ``count`` of them; waits while too much is on its way."""
        key = queue.broker, topic, queue.queue_id
        first = self._sent.get(key, 0)
        self._sent[key] = first + count
        header = SendHalvesRequest(topic=topic, queue_id=queue.queue_id, attempt=self._attempt, first=first).SerializeToString()
        window = self._windows.get(queue.broker)
        if window is None:
            window = self._windows[queue.broker] = _BrokerWindow(queue.broker, self._cluster)
        window.send(_Request(header, records, first + count))
        window.count += count
        while window.bytes > _WINDOW_BYTES:
            window.settle()

    def finish(self) -> dict[str, int]:
        """Wait until all is stored. Returns how many records each broker has."""
        for window in self._windows.values():
            while not window.is_idle:
                window.settle()
        return {broker: window.count for broker, window in self._windows.items()}
