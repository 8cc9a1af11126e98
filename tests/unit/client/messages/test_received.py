"""Received messages: those made in C are equal to those made from decoded fields."""

from __future__ import annotations

import copy
import gc
import weakref
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from litemq.client import native
from litemq.client.messages.message import Message, Source, decode_received
from litemq.client.messages.received import mark_settled, offset_runs, python_offset_runs
from litemq.client.messages.serializers import Serializers
from litemq.client.settling.settlements import Settlements
from litemq.errors import RecordFormatError
from litemq.format.messages import MessageFields, decode_messages
from litemq.format.record_encode import encode_record
from litemq.types import Record, Stamp
from support.records import RECORDS, STAMPS

STAMP = Stamp(commitlog_offset=0, queue_offset=0, store_timestamp=1, topic_id=1)
NEEDS_C = pytest.mark.skipif(not native.enabled, reason="the extension is not built")


class _Source:
    broker = "broker-a"
    serializers = Serializers()
    max_body_bytes = 1 << 20
    lost: dict[Message, Any] = {}  # noqa: RUF012  never changed

    def ack(self, _message: Message) -> Settlements | None:
        return None


SOURCE = cast("Source", _Source())


def _stored(records: list[tuple[Record, Stamp]]) -> bytes:
    return b"".join(encode_record(record, stamp) for record, stamp in records)


def _shown(message: Message) -> tuple[Any, ...]:
    fields = message._fields
    return (
        fields,
        message._raw_body,
        message._codec,
        message.queue_offset,
        message.attempt,
        message.is_settled,
        message.undecodable,
        message.size,
        message.message_id,
        message.topic,
        message.broker,
        repr(message),
    )


@NEEDS_C
@given(st.lists(st.tuples(RECORDS, STAMPS), max_size=5))
def test_a_message_shows_the_same_however_it_was_made(records: list[tuple[Record, Stamp]]) -> None:
    stored = _stored(records)
    made: list[Message] = []
    assert native.receiving.decode_received(stored, 0, 1 << 30, Message, SOURCE, made) == len(stored)
    decoded = [Message(fields, SOURCE, fields.consume_count + 1) for fields in decode_messages(stored)]
    assert all(message._decoded is None for message in made)
    assert [_shown(message) for message in made] == [_shown(message) for message in decoded]


@given(st.tuples(RECORDS, STAMPS), st.data())
def test_a_damaged_record_is_an_error(record: tuple[Record, Stamp], data: st.DataObject) -> None:
    stored = bytearray(_stored([record, record]))
    at = data.draw(st.integers(len(stored) // 2, len(stored) - 1))
    stored[at] ^= 1 << data.draw(st.integers(0, 7))
    with pytest.raises(RecordFormatError) as expected:
        decode_messages(bytes(stored))
    with pytest.raises(RecordFormatError) as raised:
        decode_received(SOURCE, bytes(stored))
    assert type(raised.value) is type(expected.value)


@given(st.lists(st.tuples(RECORDS, STAMPS), max_size=4))
def test_the_messages_of_a_pull(records: list[tuple[Record, Stamp]]) -> None:
    messages = decode_received(SOURCE, _stored(records))
    assert [message._fields for message in messages] == decode_messages(_stored(records))
    assert [message.attempt for message in messages] == [stamp.consume_count + 1 for _, stamp in records]


# Runs ---------------------------------------------------------------------------------------------


def _message(source: Source, offset: int, *, settled: bool) -> Message:
    (fields,) = decode_messages(
        encode_record(
            Record("t", b"body"), Stamp(commitlog_offset=0, queue_offset=offset, store_timestamp=1, topic_id=1)
        )
    )
    message = Message(fields, source)
    message._settled = settled
    return message


@NEEDS_C
@given(st.lists(st.tuples(st.integers(0, 1), st.integers(0, 4), st.booleans()), max_size=12))
def test_runs_are_the_same_in_c(given_messages: list[tuple[int, int, bool]]) -> None:
    sources = [cast("Source", _Source()), cast("Source", _Source())]
    messages = [_message(sources[source], offset, settled=settled) for source, offset, settled in given_messages]
    runs = offset_runs(messages)
    assert runs == python_offset_runs(messages)
    assert [number for run in runs for number in range(run.begin, run.end)] == list(range(len(messages)))


def test_messages_are_marked_as_settled() -> None:
    messages = [_message(SOURCE, offset, settled=False) for offset in range(4)]
    mark_settled(messages, 1, 3)
    assert [message.is_settled for message in messages] == [False, True, True, False]


@NEEDS_C
def test_the_c_functions_refuse_what_is_no_message() -> None:
    wrong: Any = [_message(SOURCE, 0, settled=False), "text"]
    for call in (
        lambda: native.receiving.runs(wrong),
        lambda: native.receiving.runs(cast("Any", ())),
        lambda: native.receiving.mark_settled(wrong, 0, 2),
        lambda: native.receiving.decode_received(b"", 0, 100, cast("Any", str), SOURCE, wrong),
    ):
        with pytest.raises(TypeError):
            call()
    with pytest.raises(IndexError):
        native.receiving.mark_settled(wrong[:1], 0, 2)


@NEEDS_C
def test_only_a_message_that_was_made_from_a_record_has_one() -> None:
    with pytest.raises(ValueError, match="not made from a record"):
        _message(SOURCE, 0, settled=False)._record()


def test_a_message_in_a_cycle_is_collected() -> None:
    class Held(_Source):
        def __init__(self) -> None:
            self.messages: list[Message] = []

    source = Held()
    record = encode_record(
        Record("t", b"body"), Stamp(commitlog_offset=0, queue_offset=0, store_timestamp=1, topic_id=1)
    )
    source.messages = decode_received(cast("Source", source), record)
    gone = weakref.ref(source)
    del source
    gc.collect()
    assert gone() is None


def test_the_fields_are_those_of_the_record() -> None:
    record = Record("orders", b"body", message_id="m1", tags=("a",), keys=("k",), properties={"p": "v"})
    stamp = Stamp(commitlog_offset=8, queue_offset=3, store_timestamp=1, topic_id=1, queue_id=2, consume_count=1)
    (message,) = decode_received(SOURCE, encode_record(record, stamp))
    assert (message.topic, message.message_id, message.tags, message.keys) == ("orders", "m1", ("a",), ("k",))
    assert (message.properties, message.body, message.attempt) == ({"p": "v"}, b"body", 2)
    assert (message.queue_id, message.queue_offset, message.size) == (2, 3, 4)
    assert isinstance(message._fields, MessageFields)


@pytest.mark.parametrize("settled", [False, True])
def test_a_message_can_be_copied(settled: bool) -> None:
    (message,) = decode_received(SOURCE, encode_record(Record("t", b"body"), STAMP))
    message._settled = settled
    again = copy.copy(message)
    assert _shown(again) == _shown(message)
