"""The sequencer: whatever fails, each acked message is in the log once, in order."""

from collections.abc import Callable
from itertools import count

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from litemq.client.cluster.sending.request import Request
from litemq.client.cluster.sending.sequencer import FailedRequest, Sequencer
from litemq.errors import (
    ConnectionLostError,
    GroupUnavailableError,
    InvalidArgumentError,
    LiteMQError,
    NotConfirmedError,
    NotMasterError,
    OverloadedError,
    SendOutcomeUnknownError,
    SequenceGapError,
)
from litemq.format.record import Stage
from litemq.format.record_decode import decode_record
from litemq.format.record_encode import RecordTemplate

TEMPLATE = RecordTemplate("orders")


def producer_number(record: bytes) -> tuple[int, int]:
    sent = decode_record(record, stage=Stage.SENT).record
    return sent.producer_id, sent.sequence


class ModelBroker:
    """The sequence rule of the broker, and nothing else."""

    def __init__(self) -> None:
        self.log: list[str] = []
        self._next: dict[int, int] = {}

    def append(self, records: list[bytes]) -> None:
        numbers = [producer_number(record) for record in records]
        producer_id, first = numbers[0]
        assert numbers == [(producer_id, first + n) for n in range(len(records))]
        expected = self._next.get(producer_id, 0)
        if first > expected:
            raise SequenceGapError("a gap", expected)
        for (_, sequence), record in zip(numbers, records, strict=True):
            if sequence >= expected:
                self.log.append(decode_record(record, stage=Stage.SENT).record.message_id)
                self._next[producer_id] = sequence + 1

    def forget_tail(self, messages: int) -> None:
        """Lose the end of the log in a power cut, and the producer state with it."""
        del self.log[len(self.log) - messages :]
        self._next.clear()


class Setting:
    """A sequencer and its broker; requests and answers move only in explicit steps."""

    def __init__(self, *, max_requests: int = 3) -> None:
        ids = count(1)
        self.sequencer = Sequencer(lambda: next(ids), max_requests=max_requests, max_messages=8)
        self.broker = ModelBroker()
        self.now = 0
        self.acked: list[str] = []
        self.failed: dict[str, LiteMQError] = {}
        self.put_in_order: list[str] = []
        self._names = count()
        self.wire: list[tuple[Request, list[bytes]]] = []  # sent, not yet seen by the broker
        self.answers: list[tuple[Request, LiteMQError | None]] = []  # answered, not yet seen by the client
        self.stale: list[list[list[bytes]]] = []  # in the buffers of connections that the client closed

    def put(self, messages: int = 1) -> None:
        sequencer = self.sequencer
        request = sequencer.open(self.now)
        for _ in range(messages):
            name = f"m{next(self._names):04}"
            record = TEMPLATE.encode(b"", message_id=name)
            request.records.append(record)
            request.ids.append(name)
            self.put_in_order.append(name)
        request.renumber(request.producer_id, request.first)
        sequencer.seal(request)

    def send(self) -> None:
        while (request := self.sequencer.next_request()) is not None:
            self.wire.append((request, list(request.records)))

    def deliver(self, refusal: LiteMQError | None = None) -> None:
        if not self.wire:
            return
        request, records = self.wire.pop(0)
        try:
            if refusal is not None and not isinstance(refusal, NotConfirmedError):
                raise refusal
            self.broker.append(records)
            if refusal is not None:
                raise refusal
        except LiteMQError as error:
            self.answers.append((request, error))
        else:
            self.answers.append((request, None))

    def answer(self, number: int = 0) -> None:
        if not self.answers:
            return
        request, error = self.answers.pop(number % len(self.answers))
        if error is None:
            self.acked += request.ids
            self._note(self.sequencer.acked(request))
        elif isinstance(error, NotConfirmedError):
            self._note(self.sequencer.unconfirmed(request, error))
        else:
            self._note(self.sequencer.refused(request, error))

    def lose(self, *, over: bool) -> None:
        """End the connection.

        Unread requests are gone if the broker closed it (``over``), else they may arrive later.
        """
        if not over and self.wire:
            self.stale.append([records for _, records in self.wire])
        self.wire.clear()
        self.answers.clear()
        self._note(self.sequencer.lost(over=over))

    def deliver_stale(self) -> None:
        if self.stale:
            for records in self.stale.pop(0):
                try:
                    self.broker.append(records)
                except SequenceGapError:
                    continue

    def expire(self, reason: LiteMQError | None = None) -> None:
        self._note(self.sequencer.expire(self.now - 20, reason or ConnectionLostError("no answer")))

    def finish(self) -> None:
        steps = count()
        while not self.sequencer.is_idle:
            assert next(steps) < 1000, "endless loop"
            self.send()
            self.deliver()
            self.answer()
        while self.stale:
            self.deliver_stale()

    def _note(self, failed: list[FailedRequest]) -> None:
        for request, error in failed:
            self.failed |= dict.fromkeys(request.ids, error)

    def check(self) -> None:
        assert len(set(self.acked)) == len(self.acked)
        assert sorted([*self.acked, *self.failed]) == self.put_in_order
        log = self.broker.log
        for name in self.acked:
            assert log.count(name) == 1, f"{name} was acked and is {log.count(name)} times in the log"
        for name, error in self.failed.items():
            limit = 1 if isinstance(error, SendOutcomeUnknownError) else 0
            assert log.count(name) <= limit, f"{name} failed with {error!r}"
        acked = set(self.acked)
        in_order = [name for name in log if name in acked]
        assert in_order == sorted(in_order)


EVENTS: dict[str, Callable[[Setting, int], None]] = {
    "put": lambda setting, n: setting.put(1 + n % 3),
    "send": lambda setting, _n: setting.send(),
    "deliver": lambda setting, _n: setting.deliver(),
    "refuse": lambda setting, _n: setting.deliver(OverloadedError("busy", 10)),
    "append without confirmation": lambda setting, _n: setting.deliver(NotConfirmedError("a replica is missing")),
    "refuse for good": lambda setting, _n: setting.deliver(InvalidArgumentError("no")),
    "answer": lambda setting, _n: setting.answer(),
    "answer out of order": lambda setting, n: setting.answer(n),
    "broker ends the connection": lambda setting, _n: setting.lose(over=True),
    "client gives the connection up": lambda setting, _n: setting.lose(over=False),
    "stale bytes arrive": lambda setting, _n: setting.deliver_stale(),
    "expire": lambda setting, _n: setting.expire(),
}


@settings(max_examples=500)
@given(
    st.lists(
        st.tuples(st.sampled_from([*EVENTS, "put", "send", "deliver", "answer"]), st.integers(0, 9)),
        min_size=20,
        max_size=80,
    )
)
def test_once_and_in_order_whatever_happens(events: list[tuple[str, int]]) -> None:
    setting = Setting()
    for name, number in events:
        EVENTS[name](setting, number)
        setting.now += number
    setting.finish()
    setting.check()


def test_requests_are_pipelined_up_to_the_limits() -> None:
    setting = Setting(max_requests=2)
    for _ in range(3):
        setting.put()
    setting.send()
    assert len(setting.wire) == 2
    setting.deliver()
    setting.answer()
    setting.send()
    assert len(setting.wire) == 2
    setting.finish()
    assert setting.broker.log == ["m0000", "m0001", "m0002"]


def test_an_open_request_is_not_sent() -> None:
    sequencer = Sequencer(lambda: 1, max_requests=2, max_messages=8)
    request = sequencer.open(0)
    assert sequencer.next_request() is None
    request.sealed = True
    assert sequencer.next_request() is request


def test_after_a_refusal_nothing_is_sent_until_all_answers_arrived() -> None:
    setting = Setting()
    for _ in range(2):
        setting.put()
    setting.send()
    setting.put()
    setting.deliver(OverloadedError("busy", 10))
    setting.answer()
    setting.send()
    assert [request.ids for request, _ in setting.wire] == [["m0001"]]
    setting.deliver()
    setting.answer()
    setting.send()
    assert [request.ids for request, _ in setting.wire] == [["m0000"], ["m0001"], ["m0002"]]


@pytest.mark.parametrize("reason", [ConnectionLostError("no answer"), GroupUnavailableError("no master")], ids=repr)
def test_a_group_without_a_master_explains_more_than_the_last_refusal(reason: LiteMQError) -> None:
    setting = Setting()
    setting.put()
    setting.send()
    setting.deliver(NotMasterError("ask b"))
    setting.answer()
    setting.now = 100
    setting.expire(reason)
    [error] = setting.failed.values()
    assert isinstance(error, GroupUnavailableError if isinstance(reason, GroupUnavailableError) else NotMasterError)


def test_after_a_refusal_a_lost_answer_is_no_append_risk() -> None:
    setting = Setting()
    for _ in range(2):
        setting.put()
    setting.send()
    setting.deliver(OverloadedError("busy", 10))
    setting.answer()
    setting.lose(over=True)
    setting.now = 100
    setting.expire()
    assert {name: type(error) for name, error in setting.failed.items()} == {
        "m0000": OverloadedError,
        "m0001": ConnectionLostError,
    }


def test_after_a_refusal_a_request_on_a_closed_connection_is_an_append_risk() -> None:
    """Once the refused message is appended, the copy behind it in the broker's buffer fits."""
    setting = Setting()
    for _ in range(2):
        setting.put()
    setting.send()
    setting.deliver(OverloadedError("busy", 10))
    setting.answer()
    setting.lose(over=False)
    setting.send()
    setting.deliver()
    setting.deliver(InvalidArgumentError("no"))
    setting.finish()
    assert setting.broker.log == ["m0000", "m0001"]
    assert isinstance(setting.failed["m0001"], SendOutcomeUnknownError)


def test_a_broker_that_lost_acked_records_gets_the_rest_under_a_new_id() -> None:
    setting = Setting()
    setting.put(3)
    setting.finish()
    setting.broker.forget_tail(2)
    setting.put(2)
    setting.finish()
    assert setting.broker.log == ["m0000", "m0003", "m0004"]
    assert setting.acked == ["m0000", "m0001", "m0002", "m0003", "m0004"]
    assert setting.sequencer.producer_id == 2


def test_after_a_final_refusal_the_rest_is_sent() -> None:
    setting = Setting()
    for _ in range(3):
        setting.put()
    setting.send()
    setting.deliver()
    setting.deliver(InvalidArgumentError("too long"))
    setting.finish()
    assert setting.broker.log == ["m0000", "m0002"]
    assert isinstance(setting.failed["m0001"], InvalidArgumentError)


def test_a_request_without_an_answer_ends_as_unknown() -> None:
    setting = Setting()
    setting.put()
    setting.send()
    setting.put()
    setting.lose(over=True)
    setting.now = 100
    setting.expire()
    assert isinstance(setting.failed["m0000"], SendOutcomeUnknownError)
    assert isinstance(setting.failed["m0001"], ConnectionLostError)


def test_an_unconfirmed_request_is_resent_under_the_same_number_to_the_same_queue() -> None:
    setting = Setting()
    setting.put(2)
    setting.send()
    setting.deliver(NotConfirmedError("a replica is missing"))
    setting.answer()
    assert setting.sequencer.take_movable() == []
    setting.finish()
    assert (setting.broker.log, setting.acked) == (["m0000", "m0001"], ["m0000", "m0001"])


def test_an_unconfirmed_request_ends_as_unknown() -> None:
    setting = Setting()
    setting.put()
    setting.send()
    setting.deliver(NotConfirmedError("a replica is missing"))
    setting.answer()
    setting.now = 100
    setting.expire()
    error = setting.failed["m0000"]
    assert isinstance(error, SendOutcomeUnknownError)
    assert "a replica is missing" in str(error)


def test_only_requests_without_key_and_append_risk_are_movable() -> None:
    setting = Setting()
    for _ in range(3):
        setting.put()
    setting.sequencer.waiting[1].pinned = True
    setting.send()
    assert setting.sequencer.take_movable() == []
    setting.lose(over=True)
    assert setting.sequencer.take_movable() == []
    setting.put()
    (free,) = setting.sequencer.take_movable()
    assert free.ids == ["m0003"]
    other = Sequencer(lambda: 77, max_requests=2, max_messages=8)
    other.adopt(free)
    assert producer_number(free.records[0]) == (77, 0)
    assert other.next_sequence == 1


@pytest.mark.parametrize("over", [True, False])
def test_only_a_connection_that_the_client_closed_can_still_append(over: bool) -> None:
    """After a message was given up, the next one is resent only if no old copy can arrive."""
    setting = Setting()
    setting.put()
    setting.now = 50
    setting.put()
    setting.send()
    setting.lose(over=over)
    setting.expire()
    assert [*setting.failed] == ["m0000"]
    setting.finish()
    assert isinstance(setting.failed.get("m0001"), SendOutcomeUnknownError) is not over
    setting.check()
