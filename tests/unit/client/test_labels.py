"""Arguments of the wrong type: the error names the argument, the wanted type and the given one."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from litemq import AsyncClient
from litemq.client.labels import property_pairs, strings
from litemq.errors import InvalidArgumentError, SerializationError


@pytest.mark.parametrize(
    ("values", "says"),
    [
        (5, "keys=5: expected a string or a list of strings, got int"),
        (b"k", "keys=b'k': expected a string or a list of strings, got bytes"),
        (["a", 5], "keys=['a', 5]: expected a string or a list of strings, got list with 5 (int)"),
        ([["a"]], "keys=[['a']]: expected a string or a list of strings, got list with ['a'] (list)"),
        ({5}, "keys={5}: expected a string or a list of strings, got set"),
    ],
)
def test_strings_of_a_wrong_type(values: Any, says: str) -> None:
    with pytest.raises(InvalidArgumentError) as error:
        strings(values, "keys")
    assert str(error.value) == says


@pytest.mark.parametrize(
    ("properties", "says"),
    [
        (5, "properties=5: expected a dict of strings, got int"),
        (["a"], "properties=['a']: expected a dict of strings, got list"),
        ({1: "a"}, "properties: the name 1 must be a string, got int"),
        ({"a": ["b"]}, "properties: the value of 'a' must be a string, got list: ['b']"),
    ],
)
def test_properties_of_a_wrong_type(properties: Any, says: str) -> None:
    with pytest.raises(InvalidArgumentError) as error:
        property_pairs(properties)
    assert str(error.value) == says


def test_strings_and_properties() -> None:
    assert strings("a", "keys") == ("a",)
    assert strings(["a", "b"], "keys") == ("a", "b")
    assert strings(iter(["a", "b"]), "keys") == ("a", "b")
    assert property_pairs({"a": "1"}) == (("a", "1"),)


WRONG: Any = 5
WRONG_LIST: Any = [5]
WRONG_TEXT: Any = "x"

CALLS: dict[str, tuple[Callable[[AsyncClient], Awaitable[object]], str]] = {
    "send topic": (lambda mq: mq.send(WRONG, b"x"), "topic name 5: expected a string, got int"),
    "send topic, text": (lambda mq: mq.send(WRONG, "x"), "topic name 5: expected a string, got int"),
    "send unhashable topic": (lambda mq: mq.send([WRONG], b"x"), "topic name [5]: expected a string, got list"),  # type: ignore[arg-type]
    "send unhashable topic, text": (lambda mq: mq.send([WRONG], "x"), "topic name [5]: expected a string, got list"),  # type: ignore[arg-type]
    "send keys": (lambda mq: mq.send("t", b"x", keys=WRONG), "keys=5: expected a string or a list of strings, got int"),
    "send tags": (lambda mq: mq.send("t", b"x", tags=WRONG), "tags=5: expected a string or a list of strings, got int"),
    "send properties": (
        lambda mq: mq.send("t", b"x", properties=WRONG, batch_id="b"),
        "properties=5: expected a dict of strings, got int",
    ),
    "send ordering_key": (
        lambda mq: mq.send("t", b"x", ordering_key=WRONG),
        "ordering_key=5: expected a string that UTF-8 can encode, got int",
    ),
    "send_batch": (lambda mq: mq.send_batch("t", WRONG), "messages=5: expected a list of messages, got int"),
    "send_batch of a string": (
        lambda mq: mq.send_batch("t", "abc"),
        "messages='abc': expected a list of messages, got str",
    ),
    "receive topic": (lambda mq: mq.receive(WRONG, group_id="g"), "topic name 5: expected a string, got int"),
    "receive group": (lambda mq: mq.receive("t", group_id=WRONG), "group name 5: expected a string, got int"),
    "receive tags": (
        lambda mq: mq.receive("t", group_id="g", tags=WRONG),
        "tags=5: expected a string or a list of strings, got int",
    ),
    "consumer topic": (lambda mq: anext(mq.consumer(WRONG, group_id="g")), "topic name 5: expected a string, got int"),
    "reader topic": (lambda mq: anext(mq.reader(WRONG)), "topic name 5: expected a string, got int"),
    "send durability": (
        lambda mq: mq.send("t", b"x", durability=WRONG_LIST),
        "durability='[5]': choose one of none, memory, disk, replicas",
    ),
    "take messages": (
        lambda mq: mq.consumer("t", group_id="g").take(WRONG_TEXT, 1),
        "max_messages='x': choose 1 or more",
    ),
    "take nothing": (lambda mq: mq.consumer("t", group_id="g").take(0, 1), "max_messages=0: choose 1 or more"),
    "take wait": (
        lambda mq: mq.consumer("t", group_id="g").take(1, WRONG_TEXT),
        "wait='x': choose 0 or more seconds, or a timedelta, below 300 years",
    ),
    "ack_batch of numbers": (
        lambda mq: mq.ack_batch(WRONG_LIST),
        "messages=[5]: expected a list of received messages",
    ),
    "ack_batch": (lambda mq: mq.ack_batch(WRONG), "messages=5: expected a list of received messages"),
}


@pytest.mark.parametrize("call", CALLS)
def test_a_call_with_an_argument_of_a_wrong_type(call: str) -> None:
    make, says = CALLS[call]

    async def test() -> None:
        async with AsyncClient("memory://") as mq:
            with pytest.raises(InvalidArgumentError) as error:
                await make(mq)
            assert str(error.value) == says

    asyncio.run(test())


def test_a_body_that_cannot_be_written() -> None:
    async def test() -> None:
        async with AsyncClient("memory://") as mq:
            with pytest.raises(SerializationError, match="Json cannot write a value of type object: "):
                await mq.send("t", object())

    asyncio.run(test())


def test_a_message_that_is_too_large_names_the_setting() -> None:
    async def test() -> None:
        async with AsyncClient("memory://") as mq:
            with pytest.raises(InvalidArgumentError) as error:
                await mq.send("t", bytes(5_000_000))
        assert str(error.value) == (
            "the message has 5000176 bytes with all its fields, and the limit is 4194304 bytes: send a smaller one, or "
            "raise max_record_bytes (send.max_record_size in a client's TOML file) and storage.max_record_size of the "
            "brokers"
        )
        async with AsyncClient("memory://", max_record_bytes=8 << 20) as mq:
            with pytest.raises(InvalidArgumentError) as error:
                await mq.send("t", bytes(5_000_000))
        assert str(error.value) == (
            "the message has 5000176 bytes with all its fields, and the broker's limit is 4194304 bytes: send a "
            "smaller one, or raise storage.max_record_size in the broker's configuration"
        )

    asyncio.run(test())
