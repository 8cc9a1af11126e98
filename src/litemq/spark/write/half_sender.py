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
from litemq.spark.brokers import Links, Patience
from litemq.spark.write.destinations import Queue

__all__ = ["HalfSender", "transaction_of"]

_WINDOW_BYTES: Final = 8 << 20  # on their way at once: what a broker takes in while it syncs what came before


def transaction_of(attempt: Attempt) -> str:
    """What the records of an attempt carry as their transaction."""
    return f"{attempt.query}/{attempt.batch}/{attempt.partition}/{attempt.attempt}"


class _Request(NamedTuple):
    header: bytes
    records: memoryview
    next: int  # how many records its queue has of this attempt once it is stored


class _Lane:
    """What is on its way to one broker, in the order in which it was sent."""

    def __init__(self, broker: str, links: Links) -> None:
        self._broker = broker
        self._links = links
        self._peer: BlockingPeer | None = None
        self._asked: deque[tuple[int, _Request]] = deque()
        self._unasked: deque[_Request] = deque()  # new, or to be sent again
        self.bytes = 0
        self.count = 0

    @property
    def is_idle(self) -> bool:
        return not self._asked and not self._unasked

    def send(self, request: _Request) -> None:
        self.bytes += len(request.records)
        self._unasked.append(request)
        self._until_done(self._ask)

    def settle(self) -> None:
        """Wait until the oldest request is answered."""
        self._until_done(self._settle)

    def _until_done(self, step: Callable[[], object]) -> None:
        patience = Patience(self._links.patience_s)
        while True:
            try:
                step()
                return
            except LiteMQError as error:
                # What was asked behind it was refused, too, or is known when it comes again.
                self._take_back()
                self._links.trouble(self._broker, error, patience)

    def _ask(self) -> BlockingPeer:
        peer = self._links.peer(self._broker)
        if peer is not self._peer:
            self._take_back()
            self._peer = peer
        while self._unasked:
            number = peer.ask(Opcode.SEND_HALVES, self._unasked[0].header, self._unasked[0].records)
            self._asked.append((number, self._unasked.popleft()))
        return peer

    def _settle(self) -> None:
        peer = self._ask()
        number, request = self._asked[0]
        answer = SendHalvesAnswer.FromString(peer.answer(number).header)
        if answer.next < request.next:
            raise ProtocolError(f"broker {self._broker!r} took {answer.next} records of {request.next}")
        self._asked.popleft()
        self.bytes -= len(request.records)

    def _take_back(self) -> None:
        for number, _ in self._asked:
            if self._peer is not None:
                self._peer.forget(number)
        self._unasked.extendleft(request for _, request in reversed(self._asked))
        self._asked.clear()


class HalfSender:
    """One attempt's halves, on their way to all brokers."""

    def __init__(self, links: Links, attempt: Attempt) -> None:
        self._links = links
        self._attempt = attempt
        self._lanes: dict[str, _Lane] = {}
        self._sent: dict[tuple[str, str, int], int] = {}

    def send(self, topic: str, queue: Queue, records: memoryview, count: int) -> None:
        """Send records, ``count`` of them; waits while too much is on its way."""
        place = queue.broker, topic, queue.queue_id
        first = self._sent.get(place, 0)
        self._sent[place] = first + count
        header = SendHalvesRequest(topic=topic, queue_id=queue.queue_id, attempt=self._attempt, first=first).SerializeToString()
        lane = self._lanes.get(queue.broker)
        if lane is None:
            lane = self._lanes[queue.broker] = _Lane(queue.broker, self._links)
        lane.send(_Request(header, records, first + count))
        lane.count += count
        while lane.bytes > _WINDOW_BYTES:
            lane.settle()

    def finish(self) -> dict[str, int]:
        """Wait until all is stored. Returns how many records each broker has."""
        for lane in self._lanes.values():
            while not lane.is_idle:
                lane.settle()
        return {broker: lane.count for broker, lane in self._lanes.items()}
