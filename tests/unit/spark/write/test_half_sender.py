"""Sender of halves: stored once and in order, despite lost connections and answers."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from litemq.errors import (
    ConnectionLostError,
    InvalidArgumentError,
    LiteMQError,
    OverloadedError,
    ProtocolError,
    SequenceGapError,
)
from litemq.net.blocking import BlockingAnswer
from litemq.proto.wire_pb2 import Attempt, Opcode, SendHalvesAnswer, SendHalvesRequest
from litemq.spark.brokers import BlockingCluster, RetryDeadline
from litemq.spark.write import half_sender
from litemq.spark.write.destinations import Queue
from litemq.spark.write.half_sender import HalfSender, attempt_transaction
from litemq.types import Durability

ATTEMPT = Attempt(query="q", batch=3, partition=1, attempt=77)
GOOD, REFUSED, LOST_BEFORE, LOST_BEHIND = range(4)


class FakePeer:
    """The broker's side of a connection, with a scripted outcome per request."""

    def __init__(self, broker: FakeBroker) -> None:
        self._broker = broker
        self._numbers = count()
        self._answers: dict[int, bytes | LiteMQError] = {}
        self.broken = False

    def ask(self, opcode: int, header: bytes, records: memoryview) -> int:
        assert opcode == Opcode.SEND_HALVES
        if self.broken:
            raise ConnectionLostError("it is gone")
        fate = next(self._broker.fates, GOOD)
        number = next(self._numbers)
        if fate == LOST_BEFORE:
            self.broken = True
            return number
        if fate == REFUSED:
            self._answers[number] = OverloadedError("too much", 1)
        else:
            self._answers[number] = self._broker.take(SendHalvesRequest.FromString(header), bytes(records))
        if fate == LOST_BEHIND:
            self.broken = True
        return number

    def answer(self, number: int) -> BlockingAnswer:
        if self.broken:
            raise ConnectionLostError("it is gone")
        answer = self._answers.pop(number)
        if isinstance(answer, LiteMQError):
            raise answer
        return BlockingAnswer(answer, memoryview(b""))

    def forget(self, number: int) -> None:
        self._answers.pop(number, None)


class FakeBroker:
    """A broker that stores records of one byte and counts them."""

    def __init__(self, fates: Iterator[int]) -> None:
        self.fates = fates
        self.stored: dict[tuple[str, int], bytes] = {}
        self.refusal: LiteMQError | None = None
        self.peer: FakePeer | None = None

    def take(self, request: SendHalvesRequest, records: bytes) -> bytes | LiteMQError:
        assert request.attempt == ATTEMPT
        key = request.topic, request.queue_id
        have = self.stored.get(key, b"")
        if self.refusal is not None:
            return self.refusal
        if request.first > len(have):
            return SequenceGapError("a gap", len(have))
        self.stored[key] = have + records[len(have) - request.first :]
        return SendHalvesAnswer(next=len(self.stored[key])).SerializeToString()


class FakeLinks:
    """Connections that recover."""

    retry_timeout_s = 5.0

    def __init__(self, **brokers: FakeBroker) -> None:
        self._brokers = brokers
        self.troubles: list[LiteMQError] = []

    def peer(self, broker: str) -> FakePeer:
        known = self._brokers[broker]
        if known.peer is None:
            known.peer = FakePeer(known)
        return known.peer

    def handle_failure(self, broker: str, error: LiteMQError, deadline: RetryDeadline) -> None:  # noqa: ARG002
        if not error.retriable:
            raise error
        if not isinstance(error, OverloadedError):
            self._brokers[broker].peer = None
        self.troubles.append(error)


def _sender(**brokers: FakeBroker) -> HalfSender:
    return HalfSender(cast("BlockingCluster", FakeLinks(**brokers)), ATTEMPT)


def _queue(broker: str, number: int) -> Queue:
    return Queue(broker, number, Durability.DISK)


@given(
    fates=st.lists(st.sampled_from([GOOD, GOOD, REFUSED, LOST_BEFORE, LOST_BEHIND]), max_size=30),
    sends=st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 1), st.integers(1, 5)), max_size=20),
    window=st.integers(0, 20),
)
def test_everything_is_there_once_and_in_order(
    fates: list[int], sends: list[tuple[str, int, int]], window: int
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(half_sender, "_WINDOW_BYTES", window)
        chance = iter(fates)
        brokers = {name: FakeBroker(chance) for name in "ab"}
        sender = _sender(**brokers)
        expected: dict[str, dict[tuple[str, int], bytes]] = {"a": {}, "b": {}}
        values = count()
        for broker, number, size in sends:
            records = bytes(next(values) % 256 for _ in range(size))
            key = "orders", number
            expected[broker][key] = expected[broker].get(key, b"") + records
            sender.send("orders", _queue(broker, number), memoryview(records), size)
        counts = sender.finish()
    assert {name: broker.stored for name, broker in brokers.items()} == expected
    assert counts == {name: sum(map(len, of.values())) for name, of in expected.items() if of}


def test_what_waiting_does_not_mend_is_raised() -> None:
    broker = FakeBroker(iter([]))
    broker.refusal = InvalidArgumentError("no such topic")
    sender = _sender(a=broker)
    sender.send("orders", _queue("a", 0), memoryview(b"x"), 1)
    with pytest.raises(InvalidArgumentError, match="no such topic"):
        sender.finish()


def test_a_broker_that_takes_less_than_it_was_sent_is_not_believed() -> None:
    broker = FakeBroker(iter([]))
    broker.take = lambda *_: SendHalvesAnswer(next=1).SerializeToString()  # type: ignore[method-assign]
    sender = _sender(a=broker)
    sender.send("orders", _queue("a", 0), memoryview(b"xy"), 2)
    with pytest.raises(ProtocolError, match="stored 1 of 2 records"):
        sender.finish()


def test_the_transaction_says_who_wrote() -> None:
    assert attempt_transaction(ATTEMPT) == "q/3/1/77"
