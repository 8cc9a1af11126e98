"""Acknowledging many messages of a queue together."""

from __future__ import annotations

import pytest

from litemq.client.consuming.ack_batch import ack_batch
from litemq.client.consuming.queue_reader import QueueReader
from litemq.client.messages.message import Message
from litemq.client.messages.serializers import Serializers
from litemq.errors import AlreadySettledError, ClientClosedError, UnsupportedFeatureError
from litemq.format.record_encode import encode_record
from litemq.types import Record, Stamp
from support.on_loop import on_loop


def _reader(messages: int, *, settles: bool = True) -> tuple[QueueReader, list[Message]]:
    reader = QueueReader("broker-a", 0, 0, Serializers(), 1 << 20, settles=settles)
    stored = b"".join(
        encode_record(
            Record("t", b"body"), Stamp(commitlog_offset=8 * n, queue_offset=n, store_timestamp=1, topic_id=1)
        )
        for n in range(messages)
    )
    return reader, reader.decode(stored)


def _done(reader: QueueReader) -> int:
    assert reader.acks is not None
    return reader.acks.done


@on_loop
async def test_the_messages_of_a_queue() -> None:
    reader, messages = _reader(10)
    await ack_batch(messages[:4])
    assert _done(reader) == 4
    await ack_batch(messages[6:])
    assert _done(reader) == 4
    await ack_batch(tuple(reversed(messages[4:6])))
    assert _done(reader) == 10
    assert all(message.is_settled for message in messages)


@on_loop
async def test_messages_of_two_queues_in_turns() -> None:
    (one, first), (other, second) = _reader(3), _reader(3)
    await ack_batch([message for pair in zip(first, second, strict=True) for message in pair])
    assert (_done(one), _done(other)) == (3, 3)


@on_loop
async def test_a_settled_message_is_an_error_and_the_others_are_acknowledged() -> None:
    reader, messages = _reader(5)
    await messages[2].ack()
    with pytest.raises(AlreadySettledError) as raised:
        await ack_batch(messages)
    assert raised.value.__notes__ == ["4 of 5 messages were settled; failed: numbers [2]"]
    assert _done(reader) == 5


@pytest.mark.parametrize(
    ("numbers", "failed"), [([0, 0], [1]), ([0, 1, 0, 1], [2, 3]), ([1, 0, 1], [2]), ([0, 1, 1, 2], [2])]
)
@on_loop
async def test_a_message_twice_is_an_error_the_second_time(numbers: list[int], failed: list[int]) -> None:
    reader, messages = _reader(3)
    with pytest.raises(AlreadySettledError) as raised:
        await ack_batch([messages[number] for number in numbers])
    assert raised.value.__notes__[0].endswith(f"numbers {failed}")
    assert _done(reader) == max(numbers) + 1


@on_loop
async def test_after_the_consumer_is_closed_an_ack_is_an_error() -> None:
    reader, messages = _reader(3)
    await messages[0].ack()
    reader.is_closed = True
    with pytest.raises(ClientClosedError, match="delivered again"):
        await messages[1].ack()
    with pytest.raises(ClientClosedError) as raised:
        await ack_batch(messages[1:])
    assert raised.value.__notes__ == ["0 of 2 messages were settled; failed: numbers [0, 1]"]
    assert not messages[1].is_settled
    assert _done(reader) == 1


@on_loop
async def test_messages_of_a_reader_without_a_group() -> None:
    _, messages = _reader(2, settles=False)
    with pytest.raises(UnsupportedFeatureError) as raised:
        await ack_batch(messages)
    assert raised.value.__notes__ == ["0 of 2 messages were settled; failed: numbers [0, 1]"]
    assert not any(message.is_settled for message in messages)
